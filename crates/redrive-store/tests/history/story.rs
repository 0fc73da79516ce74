//! One job's story, replayed event by event through the protocol.

use redrive_store::protocol::{After, Claim, Standing, Verdict};
use redrive_store::{Event, EventSeq, EventStatus, JobId};

use super::{Death, Replay, Writers};

/// Where a job stands, as far as its events tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// It waits, or is under a lease that has not begun.
    Waits(Standing),
    /// Its attempt has begun.
    Begun(Claim),
    /// It was set aside.
    Dead(Standing),
    /// It is over.
    Over,
}

/// A story so far.
#[derive(Debug)]
pub(crate) struct Story {
    job: JobId,
    pub(crate) place: Place,
    pub(crate) latest: EventSeq,
}

impl Story {
    /// Begins with the event of its enqueuing, or with the letter that came from elsewhere; nothing if this is another.
    pub(super) fn begin(job: JobId, first: &Event) -> Option<Story> {
        let place = match first.event_type.as_str() {
            "job_enqueued" => Place::Waits(Standing::default()),
            "letter_imported" => {
                let attempts = first.data["attempt"].as_i64().unwrap_or_default();
                let retries = first.retry_info.as_ref().map_or(0, |retry| i64::from(retry.retry_count));
                Place::Dead(Standing { attempts, retries, ..Standing::default() })
            }
            _ => return None,
        };
        Some(Story { job, place, latest: first.seq })
    }

    pub(crate) fn is_over(&self) -> bool {
        self.place == Place::Over
    }

    /// What the job has been through, while it is there.
    pub(crate) fn standing(&self) -> Option<Standing> {
        match self.place {
            Place::Waits(standing) | Place::Dead(standing) => Some(standing),
            Place::Begun(claim) => Some(claim.standing),
            Place::Over => None,
        }
    }

    /// One more event.
    pub(super) fn step(
        &mut self,
        event: &Event,
        writers: Writers,
        replay: &mut Replay,
    ) -> Result<(), String> {
        if event.parent != Some(self.latest) {
            return Err(format!(
                "it follows {:?}, not the job's latest event {:?}",
                event.parent, self.latest
            ));
        }
        self.latest = event.seq;
        let number = |value: &serde_json::Value| value.as_i64();
        let told = number(&event.data["attempt"]);
        let kind = event.event_type.as_str();
        let (place, counted) = match (kind, self.place) {
            (_, Place::Over) => return Err("the job is over".to_owned()),
            ("attempt_started", Place::Waits(standing)) => {
                replay.attempts += 1;
                let claim = standing.leased(true);
                (Place::Begun(claim), claim.standing)
            }
            ("attempt_started", Place::Begun(_)) => return Err("the attempt before has not ended".to_owned()),
            ("manual_retry", Place::Waits(standing)) => (Place::Waits(standing), standing),
            ("manual_retry" | "redriven" | "redrive", Place::Dead(standing)) => {
                let fresh = standing.redriven();
                (Place::Waits(fresh), fresh)
            }
            ("letter_expired" | "letter_discarded" | "job_cancelled", Place::Dead(standing))
            | ("job_cancelled", Place::Waits(standing)) => (Place::Over, standing),
            (_, Place::Dead(_)) => return Err("nobody has put the dead letter back".to_owned()),
            ("manual_retry" | "redriven" | "redrive", Place::Begun(_)) => {
                return Err("it was running".to_owned());
            }
            (_, Place::Waits(standing)) => self.ended(event, standing.leased(false), writers, replay)?,
            (_, Place::Begun(claim)) => self.ended(event, claim, writers, replay)?,
        };
        if let Some(told) = told.filter(|told| *told != counted.attempts) {
            return Err(format!("it tells of attempt {told}, the protocol counts {}", counted.attempts));
        }
        let retries = event.retry_info.as_ref().map(|retry| i64::from(retry.retry_count));
        let retries = retries.or_else(|| {
            number(&event.data["decision"]["current_retry_count"]).filter(|_| kind == "attempt_succeeded")
        });
        if let Some(retries) = retries.filter(|retries| *retries != counted.retries) {
            return Err(format!("it tells of {retries} retries, the protocol counts {}", counted.retries));
        }
        self.place = place;
        Ok(())
    }

    /// The end of an attempt; answers where the job stands then, and what the event must have counted.
    fn ended(
        &self,
        event: &Event,
        claim: Claim,
        writers: Writers,
        replay: &mut Replay,
    ) -> Result<(Place, Standing), String> {
        let crash = event.data["cause"] == "crashed";
        let (verdict, status) = match event.event_type.as_str() {
            "attempt_succeeded" => (Verdict::Succeeded, EventStatus::Success),
            "attempt_failed" => (Verdict::Retry { crash }, EventStatus::Retrying),
            "job_dead" => (Verdict::Dead, EventStatus::DeadLetter),
            "job_snoozed" | "job_parked" | "job_released" => (Verdict::Uncounted, EventStatus::Pending),
            "job_cancelled" => (Verdict::Cancelled, EventStatus::Failed),
            other => return Err(format!("{other} is no step that the protocol knows")),
        };
        if event.status != status {
            return Err(format!("it leaves the job {:?}, not {status:?}", event.status));
        }
        let needs_begun = matches!(verdict, Verdict::Succeeded | Verdict::Retry { .. });
        if needs_begun && !claim.begun && writers == Writers::Engines {
            return Err("no attempt had begun, or it had ended already".to_owned());
        }
        // A wish to cancel is no event: where it won, the event says so.
        let after = claim.settled(verdict, false);
        let place = match after {
            After::Waits(standing) => Place::Waits(standing),
            After::Dead(standing) => {
                let cause = event.data["cause"].as_str().unwrap_or_default().to_owned();
                replay.deaths.push(Death { job: self.job, cause, standing });
                Place::Dead(standing)
            }
            After::Succeeded => {
                replay.succeeded += 1;
                Place::Over
            }
            After::Cancelled => Place::Over,
        };
        // What is put back uncounted tells the number after it, every other end the attempt that ended.
        let counted = if verdict == Verdict::Uncounted { after.standing(claim) } else { claim.standing };
        Ok((place, counted))
    }
}
