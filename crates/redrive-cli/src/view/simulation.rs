//! What other policies would have made of a period: the record and each of them side by side, by cause, the load on the
//! target, the jobs that end otherwise, and what was assumed.

mod assumed;
mod json;

use std::time::Duration;

use redrive::engine::{Difference, Simulate, Simulated, Simulation};
use redrive_policy::Cause;
use redrive_policy::simulate::{Between, Ending, Tally};
use redrive_server::shape::simulation::{ending_name, minutes, per_minute};
use redrive_store::Timestamp;

use super::moment::{date_time, rough};
use super::{Align, Block, Column, Listing, Page, Reader, Span, Spark, Table, Tone};
use crate::text::{say, text};

/// How many marks a spark line has at most.
const MARKS: usize = 60;

/// The answer. JSON: the contract `redrive/simulation.v1`.
#[derive(Debug)]
pub(crate) struct SimulationView {
    simulation: Simulation,
    since: Timestamp,
    until: Timestamp,
    seed: u64,
}

impl SimulationView {
    pub(crate) fn new(simulation: Simulation, wanted: &Simulate) -> SimulationView {
        let Simulate { since, until, seed, .. } = *wanted;
        SimulationView { simulation, since, until, seed }
    }
}

/// A number, or the two that it lies between.
fn written<T>(between: Between<T>, write: impl Fn(T) -> String) -> String {
    let (least, most) = (write(between.least), write(between.most));
    if least == most { most } else { format!("{least}–{most}") }
}

fn exactly<T: Copy>(number: T) -> Between<T> {
    Between { least: number, most: number }
}

/// One line of the comparison.
struct Figure {
    name: &'static str,
    /// Nothing where there is no such number.
    of: fn(&Tally) -> Option<Between<u64>>,
    write: fn(u64) -> String,
    /// What more of it means.
    more: Tone,
    /// Left out where it is nothing everywhere.
    optional: bool,
}

fn number(n: u64) -> String {
    n.to_string()
}

fn millis(n: u64) -> String {
    rough(Duration::from_millis(n))
}

fn as_millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

fn in_millis(length: Between<Duration>) -> Between<u64> {
    Between { least: as_millis(length.least), most: as_millis(length.most) }
}

/// What is compared, in this order.
fn figures() -> [Figure; 14] {
    let figure = |name, of, more| Figure { name, of, write: number, more, optional: false };
    let optional = |name, of| Figure { optional: true, ..figure(name, of, Tone::Plain) };
    let time = |name, of| Figure { write: millis, optional: true, ..figure(name, of, Tone::Plain) };
    let recovered = |tally: &Tally| Some(exactly(tally.recovered + tally.recovered_estimated));
    let lost = |tally: &Tally| Some(exactly(tally.lost + tally.lost_estimated));
    [
        figure("recovered", recovered, Tone::Good),
        optional("by-estimate", |tally| Some(exactly(tally.recovered_estimated))),
        figure("lost", lost, Tone::Bad),
        optional("by-estimate", |tally| Some(exactly(tally.lost_estimated))),
        figure("unknown", |tally| Some(exactly(tally.unknown)), Tone::Warn),
        optional("open", |tally| Some(exactly(tally.open))),
        optional("cancelled", |tally| Some(exactly(tally.cancelled))),
        figure("set-aside", |tally| Some(tally.set_aside), Tone::Bad),
        figure("attempts", |tally| Some(tally.attempts), Tone::Plain),
        optional("never-made", |tally| Some(exactly(tally.estimated_attempts))),
        figure("retries", |tally| Some(tally.retries), Tone::Plain),
        time("waited", |tally| Some(in_millis(tally.waited))),
        time("p50", |tally| tally.recovery(50).map(in_millis)),
        time("p95", |tally| tally.recovery(95).map(in_millis)),
    ]
}

impl Figure {
    fn is_nothing(&self, tally: &Tally) -> bool {
        (self.of)(tally).is_none_or(|number| number == exactly(0))
    }

    /// The cell of the record.
    fn plain(&self, tally: &Tally) -> Span {
        Span::plain((self.of)(tally).map_or_else(|| "-".to_owned(), |number| written(number, self.write)))
    }

    /// The cell of a candidate: the number, and how far it is from the record.
    fn cell(&self, tally: &Tally, recorded: &Tally) -> Span {
        let (Some(now), Some(before)) = ((self.of)(tally), (self.of)(recorded)) else {
            return self.plain(tally);
        };
        if now.least != now.most || now == before {
            return self.plain(tally);
        }
        let is_more = now.most > before.most;
        let sign = if is_more { "+" } else { "-" };
        let tone = match (self.more, is_more) {
            (Tone::Good, true) | (Tone::Bad, false) => Tone::Good,
            (Tone::Bad, true) | (Tone::Good, false) => Tone::Bad,
            (more, _) => more,
        };
        let (value, by) = ((self.write)(now.most), (self.write)(now.most.abs_diff(before.most)));
        Span::new(format!("{value} ({sign}{by})"), tone)
    }
}

impl Page for SimulationView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        let jobs = self.simulation.recorded.jobs;
        let period: [(&str, &dyn std::fmt::Display); 3] =
            [("n", &jobs), ("since", &date_time(self.since)), ("until", &date_time(self.until))];
        let mut blocks = vec![
            Block::Heading(text(lang, "simulation.title", &period)),
            Block::Gap,
            Block::Table(self.comparison(reader)),
        ];
        blocks.extend([
            Block::Gap,
            Block::Heading(say(lang, "simulation.by-cause")),
            Block::Listing(self.causes(reader)),
        ]);
        if let Some(minutes) = minutes(&self.simulation) {
            blocks.extend([
                Block::Gap,
                Block::Heading(say(lang, "simulation.load")),
                Block::Sparks(self.load(minutes, reader)),
            ]);
        }
        for simulated in &self.simulation.simulated {
            if !simulated.differences.is_empty() {
                blocks.extend([Block::Gap, Block::Heading(heading(simulated, reader))]);
                blocks.push(Block::Listing(differences(simulated, reader)));
            }
        }
        blocks.extend([Block::Gap, Block::Heading(say(lang, "simulation.assumed"))]);
        let sentences = assumed::sentences(&self.simulation, self.seed, lang).into_iter().enumerate();
        let numbered = sentences.map(|(i, sentence)| ((i + 1).to_string(), Span::plain(sentence)));
        blocks.push(Block::Fields(numbered.collect()));
        blocks
    }
}

impl SimulationView {
    fn comparison(&self, reader: Reader) -> Table {
        let lang = reader.lang;
        let recorded = &self.simulation.recorded;
        let simulated = &self.simulation.simulated;
        let mut columns =
            vec![(String::new(), Align::Left), (say(lang, "simulation.recorded"), Align::Right)];
        columns.extend(simulated.iter().map(|one| (one.label.clone(), Align::Right)));
        let rows = figures()
            .into_iter()
            .filter(|figure| {
                !figure.optional
                    || !figure.is_nothing(recorded)
                    || simulated.iter().any(|one| !figure.is_nothing(&one.tally))
            })
            .map(|figure| {
                let name = say(lang, &format!("simulation.figure.{}", figure.name));
                let mut row = vec![Span::new(name, Tone::Strong)];
                row.push(figure.plain(recorded));
                row.extend(simulated.iter().map(|one| figure.cell(&one.tally, recorded)));
                row
            });
        Table { columns, rows: rows.collect() }
    }

    /// Under each policy, how many of each cause recover, are lost, and are unknown.
    fn causes(&self, reader: Reader) -> Listing {
        let lang = reader.lang;
        let mut columns = vec![
            Column::left(say(lang, "simulation.cause")),
            Column::left(say(lang, "simulation.policy")).cut_to(12),
        ];
        let names = ["jobs", "attempts", "recovered", "lost", "unknown"];
        columns.extend(names.map(|name| Column::right(say(lang, &format!("simulation.figure.{name}")))));
        let record = (say(lang, "simulation.recorded"), &self.simulation.recorded);
        let others = self.simulation.simulated.iter().map(|one| (one.label.clone(), &one.tally));
        let tallies: Vec<(String, &Tally)> = std::iter::once(record).chain(others).collect();
        let row = |cause: Cause, (label, tally): &(String, &Tally)| {
            let of = tally.causes.get(&cause).copied().unwrap_or_default();
            let count = |n: u64, tone| Span::new(n.to_string(), if n == 0 { Tone::Dim } else { tone });
            vec![
                Span::new(cause.name(), Tone::Strong),
                Span::plain(label.clone()),
                Span::plain(of.jobs.to_string()),
                Span::plain(written(of.attempts, number)),
                count(of.recovered, Tone::Good),
                count(of.lost, Tone::Bad),
                count(of.unknown, Tone::Warn),
            ]
        };
        let causes = self.simulation.recorded.causes.keys().copied();
        let rows = causes.flat_map(|cause| tallies.iter().map(move |tally| row(cause, tally))).collect();
        Listing { columns, rows }
    }

    fn load(&self, minutes: (i64, i64), reader: Reader) -> Vec<Spark> {
        let lang = reader.lang;
        let span = usize::try_from(minutes.1 - minutes.0 + 1).unwrap_or(usize::MAX);
        let each = span.div_ceil(MARKS).max(1);
        let spark = |label: String, tally: &Tally, tone| {
            let values = per_minute(tally, minutes);
            // A mark is the busiest of its minutes: an average would hide what the target had to bear.
            let values = values.chunks(each).map(|some| some.iter().copied().max().unwrap_or(0)).collect();
            let note = text(lang, "simulation.peak", &[("n", &tally.peak()), ("minutes", &each)]);
            Spark { label, values, tone, note }
        };
        let recorded = spark(say(lang, "simulation.recorded"), &self.simulation.recorded, Tone::Plain);
        let others = self.simulation.simulated.iter();
        std::iter::once(recorded)
            .chain(others.map(|one| spark(one.label.clone(), &one.tally, Tone::Warn)))
            .collect()
    }
}

fn heading(simulated: &Simulated, reader: Reader) -> String {
    let shown = simulated.differences.len();
    let key = if shown as u64 == simulated.differing { "differing" } else { "differing-some" };
    let names: [(&str, &dyn std::fmt::Display); 3] =
        [("n", &simulated.differing), ("label", &simulated.label), ("shown", &shown)];
    text(reader.lang, &format!("simulation.{key}"), &names)
}

fn differences(simulated: &Simulated, reader: Reader) -> Listing {
    let lang = reader.lang;
    let column = |name: &str| say(lang, &format!("simulation.{name}"));
    let columns = vec![
        Column::left(column("job")),
        Column::left(column("cause")).rank(2),
        Column::left(column("recorded")),
        Column::left(column("simulated")),
        Column::right(column("figure.attempts")).rank(1),
        Column::left(column("known")),
    ];
    let row = |one: &Difference| {
        let known = match (one.simulated, one.estimated) {
            (Ending::Unknown, _) => "-".to_owned(),
            (_, true) => column("by-estimate"),
            (_, false) => column("for-sure"),
        };
        vec![
            Span::new(one.job.to_string(), Tone::Strong),
            Span::plain(one.cause.name()),
            ended(one.recorded, reader),
            ended(one.simulated, reader),
            Span::plain(format!("{} → {}", one.recorded_attempts, one.simulated_attempts)),
            Span::new(known, Tone::Dim),
        ]
    };
    Listing { columns, rows: simulated.differences.iter().map(row).collect() }
}

fn ended(ending: Ending, reader: Reader) -> Span {
    let tone = match ending {
        Ending::Recovered(_) => Tone::Good,
        Ending::Lost(_) => Tone::Bad,
        Ending::Unknown => Tone::Warn,
        Ending::Cancelled(_) | Ending::Open => Tone::Plain,
    };
    Span::new(say(reader.lang, &format!("simulation.figure.{}", ending_name(ending))), tone)
}
