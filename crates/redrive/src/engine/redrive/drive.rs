//! Moving a redrive on, turn by turn. Whoever has the run takes turns: a worker, or the command that watches it. A turn
//! is one step in the store or none, so that whoever dies in between leaves a run that the next one finds whole.

use std::time::Duration;

use redrive_store::{GroupQuery, JobId, LetterFilter, RunId, RunState, RunStep, Timestamp};

use super::canary::{Canary, EndedWhy, LAST_STEP, Tally, Verdict};
use super::plan::{MOST_IDS, Progress, RedrivePlan, RedriveRequest, RedriveRun, Which};
use crate::engine::{Engine, EngineError};

/// How long whoever moves a run on has it; lengthened with each turn.
const HOLD_FOR: Duration = Duration::from_secs(5);
/// How many letters are put back by one transaction: others get their turn in between.
const AT_A_TIME: u64 = 1_000;
/// How many letters a turn looks at for some that match.
const LOOK_AT: u32 = 20_000;
/// How often first attempts are looked at.
pub(super) const JUDGE_EVERY: Duration = Duration::from_millis(100);
/// How often a run that somebody else moves on is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// What a turn came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// The run after it.
    pub run: RedriveRun,
    /// How first attempts went so far, for a canary.
    pub tally: Option<Tally>,
    /// When to take the next turn; absent: the run is over.
    pub again_in: Option<Duration>,
}

/// Why a run has nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// Its rate allows no more before that.
    For(Duration),
    /// First attempts are not over yet.
    ForAttempts,
}

impl Engine {
    /// Starts a redrive. Nothing is put back until somebody moves it on: a worker, or [`Engine::drive`].
    pub async fn start_redrive(&self, request: RedriveRequest) -> Result<RunId, EngineError> {
        if let Which::Ids(ids) = &request.which
            && ids.len() > MOST_IDS
        {
            return Err(EngineError::TooManyIds { count: ids.len(), most: MOST_IDS });
        }
        let as_of = self.now();
        let filter = self.letters_of(&request.which, as_of, request.max_redrives, request.only_retryable)?;
        let newest = self.store().letters(LetterFilter::default(), 1).await?;
        let died_up_to = newest.first().map_or(Timestamp::from_millis(0), |letter| letter.died_at);
        let matching = self.store().count_letters(filter).await?;
        let plan = RedrivePlan {
            which: request.which,
            rate: request.rate,
            limit: request.limit,
            canary: request.canary,
            max_redrives: request.max_redrives,
            only_retryable: request.only_retryable,
            left_alone: request.left_alone,
            total: matching.min(request.limit.unwrap_or(u64::MAX)),
            as_of,
            died_up_to,
        };
        let run = redrive_store::NewRun {
            wanted_by: request.wanted_by,
            plan: serde_json::to_value(plan).map_err(EngineError::Payload)?,
            progress: Progress::default().to_json(),
        };
        Ok(self.store().start_run(as_of, run).await?)
    }

    /// A redrive as it stands.
    pub async fn redrive_run(&self, id: RunId) -> Result<Option<RedriveRun>, EngineError> {
        self.store().run(id).await?.map(RedriveRun::read).transpose()
    }

    /// Redrives, the newest first; only those that go on, if asked.
    pub async fn redrive_runs(&self, open_only: bool, limit: u32) -> Result<Vec<RedriveRun>, EngineError> {
        self.store().runs(open_only, limit).await?.into_iter().map(RedriveRun::read).collect()
    }

    /// Ends a redrive; what it has not touched stays dead. Answers whether it was under way.
    pub async fn cancel_redrive(&self, id: RunId, said: Option<String>) -> Result<bool, EngineError> {
        let why = EndedWhy::Cancelled { said: said.map(|said| crate::engine::settle::bounded_why(&said)) };
        Ok(self.store().cancel_run(self.now(), id, why.to_text()).await?)
    }

    /// Lets go of a redrive, so that others can move it on at once.
    pub async fn leave_redrive(&self, id: RunId, holder: i64) -> Result<(), EngineError> {
        self.store().hold_run(self.now(), id, holder, Duration::ZERO).await?;
        Ok(())
    }

    /// One turn of a redrive, in the name of this holder: puts back what may be put back now, or judges a step. Nothing
    /// is done when somebody else moves it on.
    pub async fn drive(&self, id: RunId, holder: i64) -> Result<Turn, EngineError> {
        let (run, again_in) = if let Some(taken) = self.take_turn(id, holder).await? {
            taken
        } else {
            let run = self.redrive_run(id).await?.ok_or(EngineError::UnknownRun(id))?;
            let again_in = (run.state == RunState::Running).then_some(LOOK_AGAIN);
            (run, again_in)
        };
        let tally = self.tally(&run).await?;
        Ok(Turn { run, tally, again_in })
    }

    /// The same for who needs no tally; nothing when it is over or somebody else moves it on.
    pub(super) async fn take_turn(
        &self,
        id: RunId,
        holder: i64,
    ) -> Result<Option<(RedriveRun, Option<Duration>)>, EngineError> {
        let Some(run) = self.store().hold_run(self.now(), id, holder, HOLD_FOR).await? else {
            return Ok(None);
        };
        let run = RedriveRun::read(run)?;
        let again_in =
            if run.progress.judging { self.judge(&run).await? } else { self.move_some(&run).await? };
        let run = self.redrive_run(id).await?.ok_or(EngineError::UnknownRun(id))?;
        let over = run.state != RunState::Running;
        Ok(Some((run, (!over).then_some(again_in))))
    }

    /// When there may be something to do, if there is nothing now: the rate allows no more yet, or first attempts are waited for.
    pub(super) async fn waits(&self, run: &RedriveRun) -> Result<Option<Wait>, EngineError> {
        if run.progress.judging {
            let canary = run.plan.canary.unwrap_or_default();
            let verdict = self.verdict(run, canary, Some(run.progress.step)).await?;
            return Ok((verdict == Verdict::Wait).then_some(Wait::ForAttempts));
        }
        let mut progress = run.progress.clone();
        let Some(rate) = run.plan.rate.filter(|_| run.left_in_step() > 0) else { return Ok(None) };
        let allowed = progress.allow(Some(rate), self.now());
        Ok((allowed == 0).then(|| Wait::For(progress.allowed_in(rate))))
    }

    /// How the first attempts of a canary went so far; nothing for any other redrive.
    pub async fn tally(&self, run: &RedriveRun) -> Result<Option<Tally>, EngineError> {
        match run.plan.canary {
            Some(_) => Ok(Some(Tally::of(&self.store().judged(run.id, None).await?))),
            None => Ok(None),
        }
    }

    /// Puts back as many as its rate and its step allow; answers when to come again.
    async fn move_some(&self, run: &RedriveRun) -> Result<Duration, EngineError> {
        let rate = run.plan.rate;
        let mut progress = run.progress.clone();
        let allowed = progress.allow(rate, self.now());
        let left = run.left_in_step();
        if left == 0 {
            return self.end_of_step(run, progress).await;
        }
        if let (0, Some(rate)) = (allowed, rate) {
            return Ok(progress.allowed_in(rate));
        }
        // While all that is left comes back, what came back goes on being judged.
        if let Some(canary) = run.plan.canary
            && progress.step == LAST_STEP
            && let Verdict::Stop(why) = self.verdict(run, canary, None).await?
        {
            return self.stop(run, progress, &why).await;
        }
        let most = allowed.min(left).min(AT_A_TIME);
        let (ids, no_more) = self.next_letters(run, &mut progress, most).await?;
        if ids.is_empty() && no_more {
            return self.end_of_step(run, progress).await;
        }
        progress.spend(rate, ids.len());
        let again_in = match rate {
            Some(rate) if !ids.is_empty() => progress.allowed_in(rate),
            Some(_) | None => Duration::ZERO,
        };
        let judged_in = run.plan.canary.map(|_| progress.step);
        self.step(run, ids, judged_in, &progress, RunState::Running, None).await?;
        Ok(again_in)
    }

    /// The next letters of the run, and whether none comes behind them. The place moves behind what was looked at.
    async fn next_letters(
        &self,
        run: &RedriveRun,
        progress: &mut Progress,
        most: u64,
    ) -> Result<(Vec<JobId>, bool), EngineError> {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let plan = &run.plan;
        if let Which::Ids(ids) = &plan.which {
            let rest = ids.get(progress.taken..).unwrap_or_default();
            let some = rest[..rest.len().min(most)].to_vec();
            progress.taken += some.len();
            return Ok((some, rest.len() <= most));
        }
        let wanted = self.letters_of(&plan.which, plan.as_of, plan.max_redrives, plan.only_retryable)?;
        let later = plan.died_up_to.after(Duration::from_millis(1));
        let filter = LetterFilter {
            oldest_first: true,
            not_by: Some(run.id),
            before: Some(wanted.before.map_or(later, |before| before.min(later))),
            after: progress.place,
            ..wanted
        };
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        let found = self.store().letter_heads(filter, most, LOOK_AT).await?;
        // Where nothing was found the place stays: another step does not begin anew.
        let looked_up_to = found.next.or_else(|| found.heads.last().map(|head| (head.died_at, head.id)));
        progress.place = looked_up_to.or(progress.place);
        Ok((found.heads.iter().map(|head| head.id).collect(), found.next.is_none()))
    }

    /// The step has put back what it may, or there is no more: a canary waits and sees, anything else is done.
    async fn end_of_step(&self, run: &RedriveRun, mut progress: Progress) -> Result<Duration, EngineError> {
        let state = if run.plan.canary.is_some() { RunState::Running } else { RunState::Done };
        progress.judging = true;
        self.step(run, Vec::new(), None, &progress, state, None).await?;
        Ok(Duration::ZERO)
    }

    async fn judge(&self, run: &RedriveRun) -> Result<Duration, EngineError> {
        let canary = run.plan.canary.unwrap_or_default();
        let mut progress = run.progress.clone();
        let last = progress.step >= LAST_STEP || run.moved >= run.plan.limit.unwrap_or(u64::MAX);
        match self.verdict(run, canary, Some(progress.step)).await? {
            Verdict::Wait => return Ok(JUDGE_EVERY),
            Verdict::Stop(why) => return self.stop(run, progress, &why).await,
            Verdict::Go | Verdict::Nothing if last => {
                self.step(run, Vec::new(), None, &progress, RunState::Done, None).await?;
            }
            verdict @ (Verdict::Go | Verdict::Nothing) => {
                progress.judging = false;
                progress.step_began_with = run.moved;
                // A step whose letters were all gone says nothing about the others: it is taken again, unless nothing is left.
                if verdict == Verdict::Go || run.moved == run.progress.step_began_with {
                    progress.step += 1;
                }
                self.step(run, Vec::new(), None, &progress, RunState::Running, None).await?;
            }
        }
        Ok(Duration::ZERO)
    }

    async fn stop(
        &self,
        run: &RedriveRun,
        progress: Progress,
        why: &EndedWhy,
    ) -> Result<Duration, EngineError> {
        self.step(run, Vec::new(), None, &progress, RunState::Stopped, Some(why.to_text())).await?;
        Ok(Duration::ZERO)
    }

    async fn verdict(
        &self,
        run: &RedriveRun,
        canary: Canary,
        step: Option<u32>,
    ) -> Result<Verdict, EngineError> {
        let judged = self.store().judged(run.id, step).await?;
        let mut known = std::collections::HashSet::new();
        for fingerprint in judged.iter().filter_map(|one| one.fingerprint.as_ref()) {
            if self.failed_so_before(run, fingerprint).await? {
                known.insert(fingerprint.clone());
            }
        }
        Ok(canary.judge(&judged, |fingerprint| known.contains(fingerprint)))
    }

    /// Whether letters of this run had failed in that way before it began.
    async fn failed_so_before(&self, run: &RedriveRun, fingerprint: &str) -> Result<bool, EngineError> {
        if let Which::Group(own) = &run.plan.which {
            return Ok(own == fingerprint);
        }
        let query = GroupQuery { prefix: Some(fingerprint.to_owned()), ..GroupQuery::default() };
        let groups = self.store().groups(query, 1).await?;
        Ok(groups.first().is_some_and(|group| group.first_seen <= run.plan.died_up_to))
    }

    /// Writes a step. Somebody who was faster, or ended the run, makes it void; the next turn sees that.
    async fn step(
        &self,
        run: &RedriveRun,
        ids: Vec<JobId>,
        judged_in: Option<u32>,
        progress: &Progress,
        state: RunState,
        why: Option<String>,
    ) -> Result<(), EngineError> {
        let (run, version) = (run.id, run.version);
        let step = RunStep { run, version, ids, judged_in, progress: progress.to_json(), state, why };
        self.store().advance_run(self.now(), step).await?;
        Ok(())
    }
}
