//! Watching a redrive, and moving it on meanwhile. Whoever stops watching ends nothing: workers go on with it.

use std::time::{Duration, Instant};

use redrive::engine::{Engine, Turn};
use redrive_store::{RunId, RunState};

use super::opened::Opened;
use super::redrive::unknown;
use super::shown;
use super::signals::Signals;
use crate::escape::width;
use crate::text::text;
use crate::trouble::Trouble;
use crate::view::redrive_run::{InWords, RedriveRunView, run_line};
use crate::{Exit, Stage};

/// How often somebody is told who does not see the line that is written over.
const TELL_EVERY: Duration = Duration::from_secs(10);
/// How often the line is written over.
const DRAW_EVERY: Duration = Duration::from_millis(100);
/// How many cells the bar may have, the most first.
const BARS: [u64; 3] = [20, 12, 6];

/// Moves the redrive on until it is over, and shows what came of it.
pub(super) fn watch(
    id: RunId,
    opened: &Opened,
    engine: &Engine,
    stage: &mut Stage<'_>,
) -> Result<Exit, Trouble> {
    if opened.wait(opened.store.run(id))?.is_none() {
        return Err(unknown(id, opened));
    }
    // Below zero, so that it is no worker's number.
    let holder = -i64::try_from(stage.entropy() >> 1).unwrap_or(i64::MAX).max(1);
    let ended = opened.runtime.block_on(turns(id, holder, engine, stage));
    stage.talk.progress_ends();
    let (turn, signal) = ended?;
    let view = RedriveRunView::new(run_line(&turn.run, turn.tally));
    if let Some(signal) = signal {
        stage.talk.after_a_key();
        stage.talk.note(&text(stage.settings.lang, "redrive.goes-on", &[("id", &id)]));
        return shown(&view, Exit::Command(u8::try_from(128 + signal).unwrap_or(255)), stage);
    }
    let exit = match turn.run.state {
        RunState::Done if turn.run.skipped == 0 => Exit::Done,
        RunState::Done if turn.run.moved == 0 => Exit::Nothing,
        RunState::Done => Exit::Partly,
        RunState::Running | RunState::Cancelled | RunState::Stopped => Exit::Failed,
    };
    shown(&view, exit, stage)
}

async fn turns(
    id: RunId,
    holder: i64,
    engine: &Engine,
    stage: &mut Stage<'_>,
) -> Result<(Turn, Option<i32>), Trouble> {
    let mut signals = Signals::listen().map_err(Trouble::NoRuntime)?;
    let mut drawn = Drawn::new();
    loop {
        let turn = engine.drive(id, holder).await?;
        drawn.draw(&turn, stage);
        let Some(again_in) = turn.again_in else { return Ok((turn, None)) };
        let signal = tokio::select! {
            biased;
            signal = signals.next() => signal,
            () = tokio::time::sleep(again_in) => continue,
        };
        engine.leave_redrive(id, holder).await?;
        return Ok((turn, Some(signal)));
    }
}

/// What was shown so far.
struct Drawn {
    began: Instant,
    moved_before: Option<u64>,
    last: Option<Instant>,
    told: Instant,
    step: Option<u32>,
}

impl Drawn {
    fn new() -> Drawn {
        let now = Instant::now();
        Drawn { began: now, moved_before: None, last: None, told: now, step: None }
    }

    #[allow(clippy::cast_precision_loss)]
    fn draw(&mut self, turn: &Turn, stage: &mut Stage<'_>) {
        let moved_before = *self.moved_before.get_or_insert(turn.run.moved);
        let is_new_step = turn.run.step() != self.step;
        if self.last.is_some_and(|last| last.elapsed() < DRAW_EVERY) && !is_new_step {
            return;
        }
        self.last = Some(Instant::now());
        let line = run_line(&turn.run, turn.tally);
        let (moved, total) = (turn.run.moved, turn.run.plan.total);
        let bar = |cells: u64| -> String {
            let full = moved.saturating_mul(cells).checked_div(total).unwrap_or(cells);
            (0..cells).map(|at| if at < full { '━' } else { '─' }).collect()
        };
        let moved = turn.run.moved.saturating_sub(moved_before);
        let per_second = moved as f64 / self.began.elapsed().as_secs_f64().max(0.001);
        let lang = stage.settings.lang;
        // The numbers matter more than the bar: it is as long as there is room.
        let cells = stage.talk.cells().unwrap_or_default();
        let with_bar = BARS.iter().map(|cells| line.how_far(Some(&bar(*cells)), per_second, lang));
        let fitting = with_bar.into_iter().find(|shown| width(shown) <= cells);
        let shown = fitting.unwrap_or_else(|| line.how_far(None, per_second, lang));
        let seen = stage.talk.progress(&shown);
        let goes_on = turn.again_in.is_some();
        if !seen && goes_on && (is_new_step && self.step.is_some() || self.told.elapsed() >= TELL_EVERY) {
            self.told = Instant::now();
            stage.talk.note(&line.how_far(None, per_second, lang));
        }
        self.step = turn.run.step();
    }
}
