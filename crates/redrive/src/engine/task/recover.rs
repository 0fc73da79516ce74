//! What is done about a task of which a part has failed for good (R-T2): the strategy is chosen by a pure function, and
//! carried out one undone subtask after the other, so that a crash in between changes nothing about the end.

use std::path::Path;
use std::sync::Arc;

use redrive_policy::graph::Stand;
use redrive_policy::plan::{OnEscalate, RecoveryStrategy};
use redrive_policy::strategy::{self, MayRetry, Situation};
use redrive_policy::{
    Cause, Details, Escalation, EscalationReport, Failure, History, Lang, RetryAttempt, decide, one_line,
};
use redrive_store::{
    DeadLetter, EventStatus, JobId, JobState, NewEvent, SubtaskState, TaskEnd, TaskId, TaskState,
};
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::drive::{Draft, Driver, Known};
use super::progress::{Redoing, Stopping, Undoing};
use super::{TaskNews, subtask_id};
use crate::bounded::both_ends;
use crate::engine::EngineError;
use crate::engine::protect::PutBack;
use crate::secrets::redact;
use crate::snapshot::{Scope, SnapshotError};

/// How many names an event tells.
const NAMES: usize = 1_000;
/// How many files are named that could not be put back.
const TOLD_FILES: usize = 5;
/// How much of a failure the subtask is told that is at fault.
const TOLD: usize = 4 * 1024;

impl Driver {
    /// Chooses what is done about subtasks whose policies have given up, and begins with it.
    pub(super) async fn recover(
        &mut self,
        known: &mut Known,
        mut failed: Vec<u32>,
        draft: &mut Draft,
    ) -> Result<(), EngineError> {
        let by_a_person = std::mem::take(&mut known.progress.resumed);
        if by_a_person {
            draft.progressed = true;
            failed.extend(known.standing(Stand::Failed));
        }
        failed.sort_unstable();
        failed.dedup();
        let Some(first) = failed.first().copied() else { return Ok(()) };
        // A person takes over anyway: this is one more thing to look at.
        if let Some(stopping) = known.progress.stopping.as_mut().filter(|_| !by_a_person) {
            stopping.failed.extend(failed);
            draft.progressed = true;
            return Ok(());
        }
        known.redo_is_over(self.id, &failed, draft);
        let plan = &known.stored.plan;
        let at_fault = strategy::with_blamed(plan, &failed);
        let may_retry = if by_a_person {
            MayRetry::ByAPerson
        } else if known.progress.rounds < plan.recovery.rounds {
            MayRetry::RoundsLeft
        } else {
            MayRetry::No
        };
        let choice = strategy::strategy(&Situation {
            graph: known.front.graph(),
            stands: known.front.stands(),
            begun: &known.begun,
            failed: &at_fault,
            may_retry,
            fixed: strategy::fixed_for(plan, &failed),
            // A plan that takes everything back when a person has to take over keeps no part.
            partial_commit_enabled: self.engine.recovery_settings().partial_commit_enabled
                && plan.recovery.on_escalate == OnEscalate::Keep,
            on_escalate: plan.recovery.on_escalate,
        });
        let named = |numbers: &[u32]| known.names(self.id, numbers);
        draft.news.push(TaskNews::Recovering {
            strategy: choice.strategy,
            failed: named(&failed),
            undone: named(&choice.undo),
            why: [Lang::En, Lang::Ja].map(|lang| choice.sentence(lang)),
        });
        if choice.strategy != RecoveryStrategy::Escalate {
            draft.events.push(event(
                "recovery_start",
                EventStatus::Running,
                json!({
                    "strategy": choice.strategy,
                    "failed_subtasks": named(&failed),
                    "succeeded_subtasks": named(&known.standing(Stand::Succeeded)),
                }),
            ));
        }
        draft.progressed = true;
        match choice.strategy {
            RecoveryStrategy::RetryFailedOnly | RecoveryStrategy::RollbackAndRetry => {
                known.progress.rounds += u32::from(!by_a_person);
                for number in at_fault.iter().filter(|number| failed.binary_search(number).is_err()) {
                    let told = self.told_of(known, first).await?;
                    known.progress.told.retain(|(whom, _)| whom != number);
                    known.progress.told.push((*number, told));
                }
                // What somebody ended on purpose is not done again, and what depends on it is not begun.
                let ended = failed.iter().filter(|number| choice.redo.binary_search(number).is_err());
                known.progress.given_up.extend(ended);
                known.progress.undoing = Some(Undoing {
                    strategy: choice.strategy,
                    failed,
                    undo: choice.undo,
                    done: 0,
                    redo: choice.redo,
                    skip: choice.skip,
                });
                draft.hurry = true;
            }
            RecoveryStrategy::PartialCommit => {
                known.skip(self.id, &choice.skip, draft);
                known.progress.given_up.extend(failed);
            }
            RecoveryStrategy::Escalate => {
                known.skip(self.id, &choice.skip, draft);
                // What was given up before is a person's as well, and came first.
                let mut all = std::mem::take(&mut known.progress.given_up);
                all.extend(failed);
                let failed = all;
                known.progress.stopping = Some(Stopping { failed, not_restored: None, rolled_back: false });
            }
        }
        Ok(())
    }

    /// Undoes the next subtask that is to be undone, or ends the undoing.
    pub(super) async fn undo(&mut self, known: &mut Known, draft: &mut Draft) -> Result<(), EngineError> {
        let Some(mut undoing) = known.progress.undoing.clone() else { return Ok(()) };
        let running: Vec<u32> =
            undoing.undo.iter().copied().filter(|number| known.running.contains(number)).collect();
        if !running.is_empty() {
            return self.stop(known, &running).await;
        }
        draft.progressed = true;
        draft.hurry = true;
        let Some(number) = undoing.undo.get(undoing.done).copied() else {
            known.undone(self.id, undoing, draft);
            return Ok(());
        };
        let subtask = subtask_id(self.id, &known.stored.plan, number);
        let restored = self.put_back(known, &undoing, number).await?;
        match restored {
            Ok(restored) => {
                undoing.done += 1;
                known.progress.undoing = Some(undoing);
                if let Some(restored) = restored {
                    let (files, aside) = (restored.restored_files.len(), restored.deleted_files.len());
                    draft.events.push(NewEvent {
                        job: known.jobs.get(&number).copied(),
                        ..event("snapshot_restore", EventStatus::Success, restored.to_data())
                    });
                    draft.news.push(TaskNews::Restored { subtask, restored: files, aside });
                }
            }
            Err(error) => {
                known.progress.undoing = None;
                let told = json!({
                    "strategy": undoing.strategy,
                    "recovered_subtasks": [],
                    "final_status": "ESCALATE",
                });
                draft.events.push(event("recovery_complete", EventStatus::Success, told));
                self.not_restored(known, undoing.failed, number, &error, draft).await;
            }
        }
        Ok(())
    }

    /// R-P14: what cannot be put back is a person's to look at, who is told what and how.
    async fn not_restored(
        &self,
        known: &mut Known,
        failed: Vec<u32>,
        number: u32,
        error: &SnapshotError,
        draft: &mut Draft,
    ) {
        let subtask = subtask_id(self.id, &known.stored.plan, number);
        let mut why = one_line(&error.to_string());
        if let SnapshotError::Conflicts { conflicts } = error {
            let name =
                |path: &Path| path.strip_prefix(&known.stored.base.0).unwrap_or(path).display().to_string();
            let names: Vec<String> = conflicts.iter().take(TOLD_FILES).map(|one| name(&one.path)).collect();
            why = format!("{why} ({})", names.join(", "));
        }
        let snapshot = match known.jobs.get(&number) {
            Some(job) => self.engine.snapshot_of(*job).await,
            None => None,
        };
        if let Some(id) = snapshot {
            why = format!("{why}; redrive snapshot diff {id} · redrive snapshot restore {id} --force");
        }
        let why = redact(&why);
        tracing::warn!(task = %self.id, subtask, why, "files could not be put back");
        draft.news.push(TaskNews::NotRestored { subtask: subtask.clone(), why: why.clone() });
        draft.progressed = true;
        known.progress.stopping =
            Some(Stopping { failed, not_restored: Some(format!("{subtask}: {why}")), rolled_back: true });
    }

    /// Before a subtask begins anew: what an attempt of its last job left behind is put back. `false`: it could not be.
    pub(super) async fn clear_up(
        &self,
        known: &mut Known,
        number: u32,
        draft: &mut Draft,
    ) -> Result<bool, EngineError> {
        let protected = known.stored.plan.subtasks[number as usize].snapshot.is_some();
        let Some(job) = known.jobs.get(&number).copied().filter(|_| protected) else { return Ok(true) };
        match self.engine.clear_up_after(job, &known.stored.base.0).await {
            Ok(None) => Ok(true),
            Ok(Some(restored)) => {
                let subtask = subtask_id(self.id, &known.stored.plan, number);
                let (files, aside) = (restored.restored_files.len(), restored.deleted_files.len());
                draft.events.push(NewEvent {
                    job: Some(job),
                    ..event("snapshot_restore", EventStatus::Success, restored.to_data())
                });
                draft.news.push(TaskNews::Restored { subtask, restored: files, aside });
                Ok(true)
            }
            Err(error) => {
                self.not_restored(known, vec![number], number, &error, draft).await;
                Ok(false)
            }
        }
    }

    /// Puts back what a subtask has changed, where nobody else has changed it since. What failed has put its files back
    /// itself, unless it took its worker along.
    async fn put_back(
        &self,
        known: &Known,
        undoing: &Undoing,
        number: u32,
    ) -> Result<Result<Option<PutBack>, SnapshotError>, EngineError> {
        let protected = known.stored.plan.subtasks[number as usize].snapshot.is_some();
        let Some(job) = known.jobs.get(&number).copied().filter(|_| protected) else { return Ok(Ok(None)) };
        let scope = if undoing.failed.contains(&number) {
            let letter = self.letter(Some(job)).await?;
            if letter.is_none_or(|letter| letter.cause != Cause::Crashed) {
                return Ok(Ok(None));
            }
            Scope::Everything
        } else {
            Scope::OwnChanges
        };
        Ok(self.engine.undo_job(job, &known.stored.base.0, scope).await)
    }

    /// The end, when nothing runs and nothing is left to begin.
    pub(super) async fn end(&mut self, known: &mut Known, draft: &mut Draft) -> Result<(), EngineError> {
        if let Some(stopping) = known.progress.stopping.clone() {
            let rollback = known.stored.plan.recovery.on_escalate == OnEscalate::Rollback;
            if rollback && !stopping.rolled_back {
                let undo = strategy::rollback_all(known.front.graph(), known.front.stands(), &known.begun);
                known.progress.undoing = Some(Undoing {
                    strategy: RecoveryStrategy::Escalate,
                    failed: stopping.failed,
                    redo: undo.clone(),
                    undo,
                    done: 0,
                    skip: Vec::new(),
                });
                draft.progressed = true;
                draft.hurry = true;
                return Ok(());
            }
            let why = stopping.not_restored.clone().map_or_else(
                || format!("{} failed for good", known.names(self.id, &stopping.failed).join(", ")),
                |what| format!("files could not be put back: {what}"),
            );
            let report = self.report(known, &stopping.failed, stopping.not_restored.as_deref()).await?;
            draft.events.push(told(&report));
            draft.end = Some(TaskEnd { state: TaskState::Escalated, why, report: Some(report) });
            return Ok(());
        }
        // What was given up may have been done again since, for another one's sake.
        let mut failed = known.progress.given_up.clone();
        failed.retain(|number| !known.has_succeeded(*number));
        if !failed.is_empty() {
            draft.events.push(event(
                "recovery_complete",
                EventStatus::Success,
                json!({
                    "strategy": RecoveryStrategy::PartialCommit,
                    "recovered_subtasks": [],
                    "final_status": "PARTIAL",
                }),
            ));
            let why =
                format!("{} failed for good; the rest is kept", known.names(self.id, &failed).join(", "));
            let report = self.report(known, &failed, None).await?;
            draft.events.push(told(&report));
            draft.end = Some(TaskEnd { state: TaskState::Partial, why, report: Some(report) });
        } else if known.front.stands().iter().all(|stand| *stand == Stand::Succeeded) {
            let why = "everything succeeded".to_owned();
            draft.end = Some(TaskEnd { state: TaskState::Succeeded, why, report: None });
        } else {
            // Nothing runs and nothing can be begun: nobody but a person gets it on.
            let mut failed = known.standing(Stand::Failed);
            failed.extend(known.standing(Stand::Cancelled));
            known.progress.stopping = Some(Stopping { failed, not_restored: None, rolled_back: false });
            draft.progressed = true;
            draft.hurry = true;
        }
        Ok(())
    }

    /// The letter of a subtask, while it is one.
    async fn letter(&self, job: Option<JobId>) -> Result<Option<DeadLetter>, EngineError> {
        let Some(job) = job else { return Ok(None) };
        let record = self.engine.store().job(job).await?;
        Ok(record.and_then(|record| match record.state {
            JobState::Dead(letter) => Some(*letter),
            JobState::Ready { .. } | JobState::Leased { .. } | JobState::Ended => None,
        }))
    }

    /// What a subtask is told that another one blames.
    async fn told_of(&self, known: &Known, blaming: u32) -> Result<String, EngineError> {
        let letter = self.letter(known.jobs.get(&blaming).copied()).await?;
        let said = letter.map(|letter| letter.error_message).unwrap_or_default();
        let subtask = subtask_id(self.id, &known.stored.plan, blaming);
        let told = redrive_policy::blamed_hint(self.engine.0.lang, &subtask, &said);
        Ok(both_ends(&redact(&told), TOLD).into_owned())
    }

    /// The report that a person reads: that of the first letter; or what is known where there is none.
    async fn report(
        &self,
        known: &Known,
        failed: &[u32],
        not_restored: Option<&str>,
    ) -> Result<Value, EngineError> {
        let first = failed.first().copied().unwrap_or_default();
        let subtask = subtask_id(self.id, &known.stored.plan, first);
        let letter = self.letter(known.jobs.get(&first).copied()).await?;
        let report = letter.map(|letter| EscalationReport::deserialize(&letter.report));
        let report = match (not_restored, report) {
            (None, Some(Ok(report))) => report,
            (_, report) => {
                let earlier = report.and_then(Result::ok).map(|report| report.debug_info.retry_history);
                let lang = self.engine.0.lang;
                let what = match not_restored {
                    Some(what) => redrive_policy::not_restored(lang, what),
                    None => redrive_policy::ended_by_somebody(lang, &subtask),
                };
                self.report_of(known, &subtask, &what, earlier.unwrap_or_default())
            }
        };
        let mut report = report;
        if failed.len() > 1 {
            let others = known.names(self.id, &failed[1..]).join(", ");
            report.recommended_actions.push(redrive_policy::also_failed(
                self.engine.0.lang,
                &others,
                &self.id,
            ));
        }
        serde_json::to_value(report).map_err(EngineError::Payload)
    }

    /// A report about something that no attempt has failed with.
    fn report_of(
        &self,
        known: &Known,
        subtask: &str,
        what: &str,
        mut attempts: Vec<RetryAttempt>,
    ) -> EscalationReport {
        let engine = &self.engine;
        let details = Details { message: Some(what.to_owned()), ..Details::default() };
        let failure = Failure { details: Some(Arc::new(details)), ..Failure::of(Cause::HumanJudgment) };
        let policy = engine.policies().default_named().policy.clone();
        let decision = decide(&policy, &failure, &History::retries(0), &mut engine.rng());
        let (task_id, escalated_at) = (self.id.to_string(), engine.now().to_string());
        attempts.push(RetryAttempt {
            attempt_number: u32::try_from(attempts.len()).unwrap_or(u32::MAX).saturating_add(1),
            timestamp: escalated_at.clone(),
            failure_type: failure.cause.failure_type(),
            cause: failure.cause,
            error_message: what.to_owned(),
            duration_ms: 0,
        });
        Escalation {
            task_id: &task_id,
            subtask_id: Some(subtask),
            task_summary: &known.stored.plan.name,
            decision: &decision,
            attempts: &attempts,
            escalated_at: &escalated_at,
            trace_file: None,
            relevant_logs: &[],
        }
        .report(&engine.held().escalate, engine.0.lang)
    }
}

impl Known {
    /// The subtasks that stand so.
    pub(super) fn standing(&self, stand: Stand) -> Vec<u32> {
        let so = |(number, one): (u32, &Stand)| (*one == stand).then_some(number);
        (0..).zip(self.front.stands()).filter_map(so).collect()
    }

    fn has_succeeded(&self, number: u32) -> bool {
        self.front.stands().get(number as usize) == Some(&Stand::Succeeded)
    }

    /// Their names, as many as may be told.
    pub(super) fn names(&self, task: TaskId, numbers: &[u32]) -> Vec<String> {
        numbers.iter().take(NAMES).map(|number| subtask_id(task, &self.stored.plan, *number)).collect()
    }

    /// These will not be begun: what they depend on has failed.
    fn skip(&mut self, task: TaskId, skip: &[u32], draft: &mut Draft) {
        for number in skip {
            self.mark(*number, SubtaskState::Skipped, draft);
            let subtask = subtask_id(task, &self.stored.plan, *number);
            draft.news.push(TaskNews::Over { subtask, state: SubtaskState::Skipped });
        }
    }

    /// Everything is undone that had to be: it waits again, or the task ends.
    fn undone(&mut self, task: TaskId, undoing: Undoing, draft: &mut Draft) {
        self.progress.undoing = None;
        for number in &undoing.redo {
            self.mark(*number, SubtaskState::Waiting, draft);
        }
        self.skip(task, &undoing.skip, draft);
        if undoing.strategy == RecoveryStrategy::Escalate {
            let names = self.names(task, &undoing.failed);
            tracing::info!(%task, ?names, "everything was undone");
            self.progress.stopping =
                Some(Stopping { failed: undoing.failed, not_restored: None, rolled_back: true });
            return;
        }
        self.progress.redoing = Some(Redoing { strategy: undoing.strategy, redo: undoing.redo });
    }

    /// Tells that what was done again is done.
    pub(super) fn redone(&mut self, task: TaskId, draft: &mut Draft) {
        let Some(redoing) = &self.progress.redoing else { return };
        if redoing.redo.iter().all(|number| self.has_succeeded(*number)) {
            self.complete(task, "PASS", draft);
        }
    }

    /// Tells that something that was done again has failed again.
    fn redo_is_over(&mut self, task: TaskId, failed: &[u32], draft: &mut Draft) {
        let Some(redoing) = &self.progress.redoing else { return };
        if redoing.redo.iter().any(|number| failed.binary_search(number).is_ok()) {
            self.complete(task, "ESCALATE", draft);
        }
    }

    fn complete(&mut self, task: TaskId, final_status: &str, draft: &mut Draft) {
        let Some(redoing) = self.progress.redoing.take() else { return };
        draft.progressed = true;
        let recovered: Vec<u32> =
            redoing.redo.into_iter().filter(|number| self.has_succeeded(*number)).collect();
        draft.events.push(event(
            "recovery_complete",
            EventStatus::Success,
            json!({
                "strategy": redoing.strategy,
                "recovered_subtasks": self.names(task, &recovered),
                "final_status": final_status,
            }),
        ));
    }
}

/// What a person is told, in the words that were sent.
fn told(report: &Value) -> NewEvent {
    let data = json!({
        "user_message": report.get("user_message"),
        "recommended_actions": report.get("recommended_actions"),
    });
    event("escalate_executed", EventStatus::Success, data)
}

fn event(event_type: &str, status: EventStatus, data: Value) -> NewEvent {
    NewEvent {
        event_type: event_type.to_owned(),
        source: "task".to_owned(),
        status: Some(status),
        data,
        ..NewEvent::default()
    }
}
