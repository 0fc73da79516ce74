//! How the show looks: lines that pass, and below them, where somebody watches a terminal, how it stands right now.

use std::time::Duration;

use super::script::ACTS;
use super::story::{Kind, Line, Now, Story};
use super::upstream::Mood;
use crate::Stage;
use crate::render::{self, json};
use crate::settings::Form;
use crate::text::{say, text};
use crate::trouble::Trouble;
use crate::view::{Align, Block, Panel, Progress, Span, Table, Tone};

/// What is drawn.
pub(super) struct Screen {
    /// How many rows of the standing are on the screen; they are written over.
    standing: usize,
    live: bool,
}

/// How it stands.
pub(super) struct Standing {
    pub(super) at: Duration,
    pub(super) lasts: Duration,
    pub(super) mood: Mood,
    pub(super) by_hand: bool,
    pub(super) now: Now,
}

impl Screen {
    pub(super) fn new(stage: &Stage<'_>) -> Screen {
        let live = stage.settings.form == Form::Rich && stage.settings.stdout_is_terminal;
        Screen { standing: 0, live }
    }

    pub(super) fn is_live(&self) -> bool {
        self.live
    }

    /// Pages that stay.
    pub(super) fn write(&mut self, blocks: &[Block], stage: &mut Stage<'_>) -> Result<(), Trouble> {
        if stage.settings.form == Form::Json {
            return Ok(());
        }
        let page = format!("{}{}", self.erased(), render::page(blocks, stage));
        put(&page, stage)
    }

    /// The next act.
    pub(super) fn act(&mut self, at: Duration, number: usize, stage: &mut Stage<'_>) -> Result<(), Trouble> {
        let act = &ACTS[number % ACTS.len()];
        data(
            &serde_json::json!({ "at_ms": millis(at), "kind": "act", "act": act.name, "mood": act.mood.name() }),
            stage,
        )?;
        let lang = stage.settings.lang;
        let words = say(lang, &format!("demo.act.{}", act.name));
        let why = say(lang, &format!("demo.why.{}", act.name));
        let blocks = [
            Block::Gap,
            Block::Text(vec![
                Span::new(format!("{:>5.1}s  ", at.as_secs_f64()), Tone::Dim),
                Span::new(words, Tone::Heading),
            ]),
            Block::Text(vec![Span::plain("        "), Span::new(why, Tone::Dim)]),
        ];
        self.write(&blocks, stage)
    }

    /// What happened since the last time, and how it stands.
    pub(super) fn tell(
        &mut self,
        lines: &[Line],
        standing: &Standing,
        stage: &mut Stage<'_>,
    ) -> Result<(), Trouble> {
        for line in lines {
            let value = serde_json::to_value(line).map_err(|error| Trouble::Output(error.into()))?;
            data(&value, stage)?;
        }
        if stage.settings.form == Form::Json {
            return Ok(());
        }
        let rich = stage.settings.form == Form::Rich;
        let blocks: Vec<Block> = lines.iter().map(|line| told(line, rich, stage.settings.lang)).collect();
        let mut page = self.erased();
        page.push_str(&render::page(&blocks, stage));
        if self.live {
            let below = render::page(&[Block::Gap, stands(standing, stage.settings.lang)], stage);
            self.standing = below.lines().count();
            page.push_str(&below);
        } else if lines.is_empty() {
            return Ok(());
        }
        put(&page, stage)
    }

    /// What takes the standing off the screen.
    fn erased(&mut self) -> String {
        match std::mem::take(&mut self.standing) {
            0 => String::new(),
            rows => format!("\x1b[{rows}A\x1b[J"),
        }
    }

    /// What became of it all.
    pub(super) fn summary(
        &mut self,
        story: &Story,
        played: &[usize],
        stage: &mut Stage<'_>,
    ) -> Result<(), Trouble> {
        let lang = stage.settings.lang;
        let (total, now) = (story.total(), story.now());
        data(
            &serde_json::json!({ "kind": "summary", "total": total, "now": now, "acts": played.iter().zip(story.acts())
                .map(|(act, tally)| serde_json::json!({ "act": ACTS[act % ACTS.len()].name, "tally": tally })).collect::<Vec<_>>() }),
            stage,
        )?;
        let number = |n: u64, tone| match n {
            0 => Span::new("0", Tone::Dim),
            n => Span::new(n.to_string(), tone),
        };
        let rows = played.iter().zip(story.acts()).map(|(act, tally)| {
            vec![
                Span::plain(say(lang, &format!("demo.act.{}", ACTS[act % ACTS.len()].name))),
                number(tally.orders, Tone::Plain),
                number(tally.done, Tone::Good),
                number(tally.failed, Tone::Warn),
                number(tally.parked, Tone::Warn),
                number(tally.dead, Tone::Bad),
                number(tally.put_back, Tone::Strong),
            ]
        });
        let names = ["act", "orders", "done", "retried", "parked", "dead", "put-back"];
        let columns = names.map(|name| {
            let align = if name == "act" { Align::Left } else { Align::Right };
            (say(lang, &format!("demo.column.{name}")), align)
        });
        let [failed, parked, put_back] = story.healed();
        let left = now.waiting + now.running + now.retrying + now.parked;
        let mut blocks = vec![
            Block::Gap,
            Block::Table(Table { columns: columns.to_vec(), rows: rows.collect() }),
            Block::Text(vec![Span::plain(text(
                lang,
                "demo.summary",
                &[
                    ("orders", &total.orders),
                    ("done", &now.done),
                    ("failed", &failed),
                    ("parked", &parked),
                    ("put_back", &put_back),
                ],
            ))]),
        ];
        if now.dead > 0 {
            blocks
                .push(Block::Text(vec![Span::new(text(lang, "demo.dead", &[("n", &now.dead)]), Tone::Bad)]));
        }
        if left > 0 {
            blocks.push(Block::Text(vec![Span::new(text(lang, "demo.left", &[("n", &left)]), Tone::Dim)]));
        }
        self.write(&blocks, stage)
    }
}

/// A value for programs.
pub(super) fn data(value: &serde_json::Value, stage: &mut Stage<'_>) -> Result<(), Trouble> {
    if stage.settings.form != Form::Json {
        return Ok(());
    }
    json::write(value, stage.stdout, false).map_err(|error| Trouble::Output(error.into()))?;
    put("\n", stage)
}

fn millis(at: Duration) -> u64 {
    u64::try_from(at.as_millis()).unwrap_or(u64::MAX)
}

fn put(page: &str, stage: &mut Stage<'_>) -> Result<(), Trouble> {
    stage.stdout.write_all(page.as_bytes()).and_then(|()| stage.stdout.flush()).map_err(Trouble::Output)
}

fn told(line: &Line, rich: bool, lang: redrive_policy::Lang) -> Block {
    let (fancy, ascii, tone) = match line.kind {
        Kind::Done => ("✓", "ok", Tone::Good),
        Kind::Failed => ("↻", "->", Tone::Warn),
        Kind::Parked => ("‖", "||", Tone::Warn),
        Kind::Dead => ("■", "!!", Tone::Bad),
        Kind::PutBack => ("▶", ">>", Tone::Strong),
    };
    let seconds = Duration::from_millis(line.at_ms).as_secs_f64();
    Block::Text(vec![
        Span::new(format!("{seconds:>5.1}s  "), Tone::Dim),
        Span::new(format!("{} ", if rich { fancy } else { ascii }), tone),
        Span::plain(line.words(lang)),
    ])
}

/// The box below the lines.
fn stands(standing: &Standing, lang: redrive_policy::Lang) -> Block {
    let Standing { at, lasts, mood, by_hand, now } = standing;
    let tone = match mood {
        Mood::Healthy => Tone::Good,
        Mood::Slow | Mood::RateLimiting => Tone::Warn,
        Mood::Down | Mood::AuthBroken => Tone::Bad,
    };
    let mut mood_words = say(lang, &format!("demo.mood.{}", mood.name()));
    if *by_hand {
        mood_words.push_str(&say(lang, "demo.by-hand"));
    }
    let count = |n: u64, tone: Tone, key: &str| {
        let tone = if n == 0 { Tone::Dim } else { tone };
        (Span::new(n.to_string(), tone), say(lang, &format!("demo.now.{key}")))
    };
    let tally = vec![
        count(now.waiting, Tone::Plain, "waiting"),
        count(now.running, Tone::Strong, "running"),
        count(now.retrying, Tone::Warn, "retrying"),
        count(now.parked, Tone::Warn, "parked"),
        count(now.done, Tone::Good, "done"),
        count(now.dead, Tone::Bad, "dead"),
    ];
    let progress = Progress {
        label: say(lang, "demo.seconds"),
        done: (millis(*at) + 500) / 1_000,
        total: (millis(*lasts) + 500) / 1_000,
        tone: Tone::Dim,
        note: String::new(),
    };
    let title = text(lang, "demo.upstream", &[("mood", &mood_words)]);
    Block::Panel(Panel::new(title, vec![Block::Tally(tally), Block::Progress(progress)]).border(tone))
}
