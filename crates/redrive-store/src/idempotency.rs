//! Idempotency keys (R-I2, R-I4): who holds one, what its request was answered with, and what nobody knows.
//!
//! A key is taken before its request is run, under a lease that its holder renews, and completed with the answer. Whoever comes
//! later with the same request gets that answer; while nobody has completed it, nobody else runs it. A holder that falls silent
//! leaves an unknown outcome, which is never run again unless the route says that it can bear that. What each of these does to a row
//! is decided by [`Standing::meets`], which every store asks.

// Without a back end nothing is kept.
#[cfg_attr(not(any(feature = "sqlite", feature = "postgres")), allow(dead_code))]
pub(crate) mod record;

use std::time::Duration;

use serde::Serialize;

use crate::Answer;
use crate::id::JobId;
use crate::job::{Enqueued, NewJob};
use crate::metric::Metric;
use crate::time::Timestamp;

/// The most bytes of an answer's body that a store takes, whatever a route allows.
pub const MAX_RESPONSE_BYTES: usize = 64 << 20;
/// The most bytes of an answer's headers, together.
pub const MAX_HEADER_BYTES: usize = 64 << 10;

/// Nobody holds a key for so long without being heard of.
const FAR_AHEAD: Duration = Duration::from_hours(1);

/// Somebody wants to run a request under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyClaim {
    /// Whose key it is; a hash, or a word.
    pub principal: String,
    /// The key.
    pub key: String,
    /// Method and route, for people: `POST /v1/bookmarks`.
    pub endpoint: String,
    /// A hash of everything that makes this request this request.
    pub request_hash: String,
    /// How long the holder may be silent.
    pub hold_for: Duration,
    /// How long an outcome that nobody knows is remembered.
    pub keep_for: Duration,
    /// Whether an unknown outcome may be run again.
    pub rerun: bool,
    /// The job that does it, where one does.
    pub job: Option<JobId>,
}

/// Proof of holding a key. Completed by incarnation, not by key: a holder that lost it must not win.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyHold {
    /// The record's number.
    pub record: i64,
    /// A number that no other holder of any key ever has.
    pub incarnation: i64,
}

/// An answer as it was given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoredResponse {
    /// Its status; for a command, its exit code.
    pub status: u16,
    /// The headers that are kept, in their order, with values as they were.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body; absent when it was too large to keep or has no end.
    pub body: Option<Vec<u8>>,
}

/// What is found when somebody claims a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    /// It is the caller's now: run the request, and complete it.
    Taken {
        /// For completing it.
        hold: KeyHold,
        /// Whether an earlier try ended nobody knows how.
        again: bool,
    },
    /// It was answered.
    Completed {
        /// With this.
        response: StoredResponse,
        /// When.
        completed_at: Timestamp,
        /// The job that did it, where one did.
        job: Option<JobId>,
    },
    /// Somebody runs it.
    InFlight {
        /// Since when.
        since: Timestamp,
        /// Until when its holder has been heard of.
        until: Timestamp,
        /// The job that does it, where one does.
        job: Option<JobId>,
    },
    /// The key came with another request before.
    Mismatch {
        /// Which, for people.
        endpoint: String,
    },
    /// It was begun, and nobody knows how it ended.
    Unknown {
        /// Since when nobody knows.
        since: Timestamp,
        /// The job that did it, where one did.
        job: Option<JobId>,
    },
}

/// Whether a hold was still worth something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// It was, and what was asked is done. An answer that was completed already by the same holder counts as done.
    Done,
    /// Another holder has the key, or it was reset: nothing was changed.
    Lost,
}

/// Where a key stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyState {
    /// Somebody runs its request.
    InProgress,
    /// It was answered.
    Completed,
    /// It was begun, and nobody knows how it ended.
    UnknownOutcome,
}

impl KeyState {
    /// Every state.
    pub const ALL: [KeyState; 3] = [KeyState::InProgress, KeyState::Completed, KeyState::UnknownOutcome];

    /// Its name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            KeyState::InProgress => "in_progress",
            KeyState::Completed => "completed",
            KeyState::UnknownOutcome => "unknown_outcome",
        }
    }

    /// Its number in the store.
    pub const fn number(self) -> i64 {
        match self {
            KeyState::InProgress => 0,
            KeyState::Completed => 1,
            KeyState::UnknownOutcome => 2,
        }
    }

    /// The state of that number.
    pub(crate) fn from_number(number: i64) -> KeyState {
        KeyState::ALL.into_iter().find(|state| state.number() == number).unwrap_or(KeyState::UnknownOutcome)
    }
}

/// What a store reads of a record before it decides what a claim does to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Where it stands.
    pub state: KeyState,
    /// The hash of its request.
    pub request_hash: String,
    /// Until when its holder has been heard of; while it is in progress.
    pub leased_until: Option<Timestamp>,
    /// When it is forgotten; never while it is in progress.
    pub expires_at: Option<Timestamp>,
}

/// What a claim does to a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meeting {
    /// There is none, or it is forgotten: the claim takes the key as new.
    TakesAsNew,
    /// Its holder fell silent; that is written down first, with its event, and then as `Unknown` or `TakesAgain`.
    Lapses {
        /// Whether the claim takes it then.
        takes: bool,
    },
    /// The claim takes the key although an earlier try ended nobody knows how.
    TakesAgain,
    /// It has another request.
    Mismatch,
    /// It is answered.
    Replays,
    /// Somebody runs it.
    InFlight,
    /// Nobody knows how it ended.
    Unknown,
}

impl Standing {
    /// What a claim does to a record; the one place that says so.
    pub fn meets(found: Option<&Standing>, claim: &KeyClaim, now: Timestamp) -> Meeting {
        let Some(found) = found else { return Meeting::TakesAsNew };
        let is_over = found.expires_at.is_some_and(|expires_at| expires_at <= now);
        if found.state != KeyState::InProgress && is_over {
            return Meeting::TakesAsNew;
        }
        let same = found.request_hash == claim.request_hash;
        // No living holder is heard of so far ahead: it was written by a clock that was wrong.
        let far = now.after(FAR_AHEAD.max(claim.hold_for.saturating_mul(2)));
        let holds = |until: Timestamp| now < until && until <= far;
        match found.state {
            _ if !same => Meeting::Mismatch,
            KeyState::Completed => Meeting::Replays,
            KeyState::InProgress if found.leased_until.is_some_and(holds) => Meeting::InFlight,
            KeyState::InProgress => Meeting::Lapses { takes: claim.rerun },
            KeyState::UnknownOutcome if claim.rerun => Meeting::TakesAgain,
            KeyState::UnknownOutcome => Meeting::Unknown,
        }
    }
}

/// A record, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRecord {
    /// Its number.
    pub id: i64,
    /// Whose key it is.
    pub principal: String,
    /// The key.
    pub key: String,
    /// Method and route.
    pub endpoint: String,
    /// The hash of its request.
    pub request_hash: String,
    /// Where it stands.
    pub state: KeyState,
    /// When it was first taken.
    pub created_at: Timestamp,
    /// Until when its holder has been heard of.
    pub leased_until: Option<Timestamp>,
    /// When it was answered, or when nobody knew any more.
    pub ended_at: Option<Timestamp>,
    /// When it is forgotten.
    pub expires_at: Option<Timestamp>,
    /// The status of its answer.
    pub response_status: Option<u16>,
    /// How many bytes the body of its answer has; absent when none was kept.
    pub response_bytes: Option<u64>,
    /// The job that does it, where one does.
    pub job: Option<JobId>,
}

/// Which records, the newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyQuery {
    /// Only in this state.
    pub state: Option<KeyState>,
    /// Only with this key, whosever it is.
    pub key: Option<String>,
    /// Only of this principal.
    pub principal: Option<String>,
    /// Only with smaller numbers: the next page.
    pub before: Option<i64>,
    /// At most so many.
    pub limit: u32,
}

/// What was counted since the last time; added to the current hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeyCounts {
    /// Requests to guarded routes, with or without a key.
    pub guarded: u64,
    /// Those that came with a key.
    pub keyed: u64,
    /// Keys that were taken, so requests that were run.
    pub taken: u64,
    /// Answers from a record.
    pub replayed: u64,
    /// Keys that came with another request.
    pub mismatched: u64,
    /// Refused because the first was still running.
    pub in_flight: u64,
    /// Refused because nobody knows how the first ended.
    pub unknown: u64,
    /// Answers that were not kept: their keys are free again.
    pub released: u64,
}

impl KeyCounts {
    /// What is counted under which name.
    pub fn metrics(&self) -> [(Metric, u64); 8] {
        [
            (Metric::KeysGuarded, self.guarded),
            (Metric::KeysUsed, self.keyed),
            (Metric::KeysTaken, self.taken),
            (Metric::KeysReplayed, self.replayed),
            (Metric::KeysMismatched, self.mismatched),
            (Metric::KeysInFlight, self.in_flight),
            (Metric::KeysUnknown, self.unknown),
            (Metric::KeysReleased, self.released),
        ]
    }
}

/// A round of keeping keys in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeysSwept {
    /// Holders that had fallen silent: so many outcomes are unknown now.
    pub lapsed: u64,
    /// Records that were forgotten.
    pub expired: u64,
    /// Whether there may be more of either.
    pub more: bool,
}

/// Makes the answer to a request of the jobs that were added for it.
pub type AnswerOf = Box<dyn Fn(&[Enqueued]) -> StoredResponse + Send + Sync>;

/// A request that asks for jobs: the key that it came with, and its answer.
pub struct KeyedRequest {
    /// The proof of holding the key.
    pub hold: KeyHold,
    /// How long the answer is known.
    pub keep_for: Duration,
    /// Makes the answer of what was added. It may be called more than once, and only the last counts.
    pub answer: AnswerOf,
}

impl std::fmt::Debug for KeyedRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyedRequest").field("hold", &self.hold).finish_non_exhaustive()
    }
}

/// Taking keys, completing them, and looking at them.
pub trait Idempotency: Send + Sync {
    /// Takes the key, or tells what is known of it. What is only read costs no write.
    fn claim_key(&self, now: Timestamp, claim: KeyClaim) -> Answer<'_, Claimed>;

    /// The holder is still there; for so much longer.
    fn renew_key(&self, now: Timestamp, hold: KeyHold, hold_for: Duration) -> Answer<'_, Finish>;

    /// The request was answered; the answer is known for so long. Also a holder that was given up meanwhile may say so, as long
    /// as nobody else took the key.
    fn complete_key(
        &self,
        now: Timestamp,
        hold: KeyHold,
        response: StoredResponse,
        keep_for: Duration,
    ) -> Answer<'_, Finish>;

    /// Adds jobs as [`Jobs::enqueue`](crate::Jobs::enqueue) does, and completes the key of the request that asks for them: both are
    /// there together, or neither is. Nothing, and nothing was done, when the key is not held any more or is completed already.
    fn enqueue_for_key(
        &self,
        now: Timestamp,
        jobs: Vec<NewJob>,
        request: KeyedRequest,
    ) -> Answer<'_, Option<Vec<Enqueued>>>;

    /// The key is free again, with an `idempotency_released` event that says why, when there is a reason to tell.
    fn release_key(&self, now: Timestamp, hold: KeyHold, why: Option<String>) -> Answer<'_, Finish>;

    /// Nobody knows how the request ended, and its holder says so itself; with an `idempotency_unknown` event.
    fn give_up_key(
        &self,
        now: Timestamp,
        hold: KeyHold,
        why: String,
        keep_for: Duration,
    ) -> Answer<'_, Finish>;

    /// Records, the newest first, without their answers.
    fn keys(&self, query: KeyQuery) -> Answer<'_, Vec<KeyRecord>>;

    /// One record with its answer.
    fn key(&self, record: i64) -> Answer<'_, Option<(KeyRecord, Option<StoredResponse>)>>;

    /// Forgets a key: the next request with it is new. With an `idempotency_reset` event, in which `why` stands. Nothing when it
    /// is gone, or when it is not in the state that the person saw.
    fn reset_key(
        &self,
        now: Timestamp,
        record: i64,
        seen: KeyState,
        why: Option<String>,
    ) -> Answer<'_, Option<KeyRecord>>;

    /// How many are in progress, and of how many nobody knows the outcome.
    fn key_standing(&self) -> Answer<'_, (u64, u64)>;

    /// Adds to what was counted in the hour of `now`.
    fn count_keys(&self, now: Timestamp, counts: KeyCounts) -> Answer<'_, ()>;

    /// Finds holders that fell silent, each with an `idempotency_unknown` event, and forgets what has expired. Looks at no more than
    /// `limit` of each, so that nobody waits for it. `keep_for` is how long an unknown outcome is remembered.
    fn sweep_keys(&self, now: Timestamp, keep_for: Duration, limit: u32) -> Answer<'_, KeysSwept>;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-I4: a claim against every state, at every moment; a lease that a wrong clock wrote far ahead holds nothing.
    #[test]
    fn what_a_claim_meets() {
        let (hour, minute, second) =
            (Duration::from_hours(1), Duration::from_mins(1), Duration::from_secs(1));
        let now = Timestamp::from_millis(1_000_000_000);
        let before =
            |time: Duration| Timestamp::from_millis(now.millis() - i64::try_from(time.as_millis()).unwrap());
        let claim = |hash: &str, rerun, hold_for| KeyClaim {
            principal: "p".to_owned(),
            key: "k".to_owned(),
            endpoint: "POST /".to_owned(),
            request_hash: hash.to_owned(),
            hold_for,
            keep_for: hour,
            rerun,
            job: None,
        };
        let found = |state, leased_until, expires_at| Standing {
            state,
            request_hash: "same".to_owned(),
            leased_until,
            expires_at,
        };
        let meets = |found: &Standing, hash: &str, rerun| {
            Standing::meets(Some(found), &claim(hash, rerun, minute), now)
        };
        assert_eq!(Standing::meets(None, &claim("same", false, minute), now), Meeting::TakesAsNew);
        let held = |until| found(KeyState::InProgress, Some(until), None);
        assert_eq!(meets(&held(now.after(second)), "same", true), Meeting::InFlight);
        assert_eq!(meets(&held(now.after(hour)), "same", false), Meeting::InFlight);
        for silent in [now, before(second), now.after(hour + second), now.after(hour * 24)] {
            assert_eq!(meets(&held(silent), "same", false), Meeting::Lapses { takes: false });
            assert_eq!(meets(&held(silent), "same", true), Meeting::Lapses { takes: true });
            assert_eq!(meets(&held(silent), "other", true), Meeting::Mismatch);
        }
        let long = Standing::meets(Some(&held(now.after(hour * 3))), &claim("same", false, hour * 2), now);
        assert_eq!(long, Meeting::InFlight, "a route may hold for longer");
        for (state, same) in
            [(KeyState::Completed, Meeting::Replays), (KeyState::UnknownOutcome, Meeting::Unknown)]
        {
            let known = found(state, None, Some(now.after(Duration::from_millis(1))));
            assert_eq!(meets(&known, "same", false), same);
            assert_eq!(meets(&known, "other", true), Meeting::Mismatch);
            assert_eq!(meets(&found(state, None, Some(now)), "other", false), Meeting::TakesAsNew);
        }
        let unknown = found(KeyState::UnknownOutcome, None, Some(now.after(second)));
        assert_eq!(meets(&unknown, "same", true), Meeting::TakesAgain);
    }
}
