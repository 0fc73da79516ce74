//! What a change of a job means beside the job itself: for the groups of letters (R-D10), for the counts of the hour
//! (R-C4), and for the run that put it back (R-D9). Said once, for every store; writing it down is the store's business,
//! in the transaction of the change.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use redrive_policy::Cause;
use serde_json::json;

use crate::event::EventStatus;
use crate::letter_group::{GroupCounts, GroupState};
use crate::metric::{MOST_RETRIES, Metric, bucket_of, hour_of};
use crate::protocol::{After, Claim};
use crate::redrive::{FirstAttempt, RunId};
use crate::row::EventRow;
use crate::settle::{Ending, FailedAttempt};
use crate::time::{Timestamp, whole_millis};

/// Where a job that was redriven came from, as its row in `progress` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PutBack {
    /// The group of its letter.
    pub(crate) fingerprint: String,
    /// The run that put it back, if one did.
    pub(crate) run: Option<RunId>,
    /// When that was.
    pub(crate) at: Timestamp,
}

/// What a letter says about its group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen<'a> {
    pub(crate) at: Timestamp,
    pub(crate) cause: Cause,
    pub(crate) error_type: &'a str,
    pub(crate) sample: &'a str,
}

/// Letters of a group that were written in one transaction.
#[derive(Debug, Clone)]
pub(crate) struct NewLetters {
    pub(crate) first_at: Timestamp,
    pub(crate) last_at: Timestamp,
    pub(crate) cause: Cause,
    pub(crate) error_type: String,
    pub(crate) sample: String,
}

/// How one group changes in a transaction.
#[derive(Debug, Clone)]
pub(crate) struct GroupChange {
    /// The latest time of the changes.
    pub(crate) now: Timestamp,
    pub(crate) counts: GroupCounts,
    /// From which a new group is made.
    pub(crate) letters: Option<NewLetters>,
}

/// How groups change in a transaction, each once.
#[derive(Debug, Default)]
pub(crate) struct GroupChanges(HashMap<String, GroupChange>);

impl GroupChanges {
    /// Each group with its change, by fingerprint, so that two transactions take them in one order.
    pub(crate) fn take(&mut self) -> Vec<(String, GroupChange)> {
        let mut all: Vec<_> = std::mem::take(&mut self.0).into_iter().collect();
        all.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        all
    }

    /// One more change of a group.
    pub(crate) fn add(&mut self, now: Timestamp, fingerprint: &str, counts: GroupCounts) {
        self.change(now, fingerprint).counts.add(counts);
    }

    /// A letter of the group is written.
    pub(crate) fn died(&mut self, now: Timestamp, fingerprint: &str, seen: Seen<'_>) {
        let change = self.change(now, fingerprint);
        change.counts.add(GroupCounts::DIED);
        match &mut change.letters {
            Some(letters) => {
                letters.first_at = letters.first_at.min(seen.at);
                letters.last_at = letters.last_at.max(seen.at);
            }
            None => {
                change.letters = Some(NewLetters {
                    first_at: seen.at,
                    last_at: seen.at,
                    cause: seen.cause,
                    error_type: seen.error_type.to_owned(),
                    sample: seen.sample.to_owned(),
                });
            }
        }
    }

    fn change(&mut self, now: Timestamp, fingerprint: &str) -> &mut GroupChange {
        let change = self.0.entry(fingerprint.to_owned()).or_insert_with(|| GroupChange {
            now,
            counts: GroupCounts::default(),
            letters: None,
        });
        change.now = change.now.max(now);
        change
    }

    /// An attempt has ended.
    pub(crate) fn settled(
        &mut self,
        now: Timestamp,
        after: After,
        ending: &Ending,
        put_back: Option<&PutBack>,
    ) {
        let failure = failure_of(after, ending);
        if let (After::Dead(_), Some(failure)) = (after, failure) {
            let seen = Seen {
                at: now,
                cause: failure.cause,
                error_type: &failure.error_type,
                sample: &failure.error_message,
            };
            self.died(now, &failure.fingerprint, seen);
        }
        let Some(put_back) = put_back else { return };
        if failure.is_some_and(|failure| failure.fingerprint == put_back.fingerprint) {
            self.add(now, &put_back.fingerprint, GroupCounts::RELAPSED);
        }
        match after {
            After::Waits(_) => {}
            After::Succeeded => self.add(now, &put_back.fingerprint, GroupCounts::RECOVERED),
            After::Dead(_) | After::Cancelled => self.add(now, &put_back.fingerprint, GroupCounts::OVER),
        }
    }
}

/// The failure that an attempt ended with. One that is cancelled instead of being put back has not failed.
fn failure_of(after: After, ending: &Ending) -> Option<&FailedAttempt> {
    match (after, ending) {
        (After::Cancelled, _) => None,
        (_, Ending::Retry { failure, .. } | Ending::Dead { failure, .. }) => Some(failure),
        _ => None,
    }
}

/// What is counted for the hours in a transaction: hour, lane, what, how many.
#[derive(Debug, Default)]
pub(crate) struct Tally(BTreeMap<(i64, i64, i64), i64>);

impl Tally {
    /// The counts, in the order of hours, lanes and numbers.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = ((i64, i64, i64), i64)> + use<> {
        std::mem::take(&mut self.0).into_iter()
    }

    /// Something happened in a lane.
    pub(crate) fn add(&mut self, now: Timestamp, lane: i64, metric: Metric, n: i64) {
        if n != 0 {
            *self.0.entry((hour_of(now), lane, metric.code())).or_default() += n;
        }
    }

    /// An attempt has ended.
    pub(crate) fn settled(
        &mut self,
        now: Timestamp,
        lane: i64,
        claim: Claim,
        after: After,
        ending: &Ending,
        put_back: Option<&PutBack>,
    ) {
        let again = claim.standing.retries + claim.standing.crashes;
        let failure = failure_of(after, ending);
        let mut one = |metric| self.add(now, lane, metric, 1);
        match after {
            After::Succeeded => {
                one(Metric::Succeeded);
                if again > 0 {
                    one(Metric::SucceededAfterRetry);
                }
            }
            After::Dead(_) => {
                one(Metric::Died);
                if again > 0 {
                    one(Metric::DiedAfterRetry);
                }
            }
            After::Waits(_) if failure.is_some() => one(Metric::Retried),
            After::Waits(_) => {}
            After::Cancelled => one(Metric::Cancelled),
        }
        if let After::Succeeded | After::Dead(_) = after {
            one(Metric::Retries(u8::try_from(again.max(0)).map_or(MOST_RETRIES, |n| n.min(MOST_RETRIES))));
        }
        if let Some(failure) = failure {
            one(Metric::FailedWith(place_of(failure.cause)));
        }
        let latency = match (after, ending) {
            (After::Succeeded, Ending::Succeeded { latency, .. }) => Some(*latency),
            _ => failure.and_then(|failure| failure.latency),
        };
        if let Some(latency) = latency {
            self.time(now, lane, latency, Metric::Latency, Metric::LatencySum);
        }
        let Some(put_back) = put_back else { return };
        match after {
            After::Succeeded => self.add(now, lane, Metric::Recovered, 1),
            After::Dead(_) => self.add(now, lane, Metric::DiedAgain, 1),
            After::Waits(_) | After::Cancelled => return,
        }
        self.time(now, lane, now.since(put_back.at), Metric::Recovery, Metric::RecoverySum);
    }

    /// A letter was put back; by a person's `retry`, that is a retry by hand as well.
    pub(crate) fn redriven(&mut self, now: Timestamp, lane: i64, event_type: &str) {
        self.add(now, lane, Metric::Redriven, 1);
        if event_type == "manual_retry" {
            self.add(now, lane, Metric::ManualRetries, 1);
        }
    }

    fn time(
        &mut self,
        now: Timestamp,
        lane: i64,
        took: Duration,
        bucket: impl Fn(u16) -> Metric,
        sum: Metric,
    ) {
        let millis = whole_millis(took).max(0);
        self.add(now, lane, bucket(bucket_of(millis.unsigned_abs())), 1);
        self.add(now, lane, sum, millis);
    }
}

/// The place of a cause in [`Cause::ALL`].
fn place_of(cause: Cause) -> u8 {
    let place = Cause::ALL.iter().position(|known| *known == cause);
    place.and_then(|place| u8::try_from(place).ok()).unwrap_or(u8::MAX)
}

/// How the first attempt of a job that a run has put back went, once that is known with this ending. `None` while it is
/// not, or was known before.
pub(crate) fn first_attempt(claim: Claim, after: After, ending: &Ending) -> Option<FirstAttempt> {
    match (claim.standing.attempts, after) {
        (1, After::Succeeded) => Some(FirstAttempt::Succeeded),
        (1, After::Dead(_)) => Some(FirstAttempt::Failed),
        (1, After::Waits(_)) => failure_of(after, ending).map(|_| FirstAttempt::Failed),
        (0 | 1, After::Succeeded | After::Dead(_) | After::Cancelled) => Some(FirstAttempt::None),
        _ => None,
    }
}

/// The group of a first attempt that failed.
pub(crate) fn failed_with(after: After, ending: &Ending) -> Option<&str> {
    failure_of(after, ending).map(|failure| failure.fingerprint.as_str())
}

/// The row to which the sample of a group is bound: FNV-1a of its fingerprint, which is the same in every store.
pub(crate) fn sample_row(fingerprint: &str) -> i64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    fingerprint.bytes().fold(0xcbf2_9ce4_8422_2325, mix).cast_signed()
}

/// The event of a group that stands elsewhere now.
pub(crate) fn group_moved(
    source_id: i64,
    fingerprint: &str,
    from: GroupState,
    to: GroupState,
    letters: i64,
    note: Option<&str>,
) -> EventRow<'static> {
    let mut data = json!({ "fingerprint": fingerprint, "from": from, "to": to, "letters": letters });
    if let Some(note) = note {
        data["note"] = json!(note);
    }
    EventRow {
        event_type: to.event_type(),
        source_id,
        status: Some(EventStatus::Success),
        importance: (to == GroupState::Regressed).then_some(4),
        detail: Some(json!({ "data": data }).to_string()),
        ..EventRow::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Standing;

    fn ended(after: After, ending: &Ending, put_back: Option<&PutBack>) -> Vec<(Metric, i64)> {
        let standing = Standing { fence: 2, attempts: 2, retries: 1, crashes: 0 };
        let mut tally = Tally::default();
        tally.settled(
            Timestamp::from_millis(3_600_500),
            7,
            Claim { standing, begun: true },
            after,
            ending,
            put_back,
        );
        let known = |((hour, lane, what), n): ((i64, i64, i64), i64)| {
            assert_eq!((hour, lane), (1, 7));
            (Metric::from_code(what).unwrap(), n)
        };
        tally.take().map(known).collect()
    }

    /// R-C4: a job that succeeds after a redrive is counted once for each thing that it shows.
    #[test]
    fn a_recovery_is_counted() {
        let ending = Ending::Succeeded {
            latency: Duration::from_millis(12),
            exit_code: None,
            max_retries: 3,
            output: None,
        };
        let put_back =
            PutBack { fingerprint: "f".to_owned(), run: None, at: Timestamp::from_millis(3_600_490) };
        let counted = ended(After::Succeeded, &ending, Some(&put_back));
        let expected = [
            (Metric::Succeeded, 1),
            (Metric::Recovered, 1),
            (Metric::SucceededAfterRetry, 1),
            (Metric::LatencySum, 12),
            (Metric::RecoverySum, 10),
            (Metric::Retries(1), 1),
            (Metric::Latency(12), 1),
            (Metric::Recovery(10), 1),
        ];
        assert_eq!(counted, expected);
        assert_eq!(ended(After::Cancelled, &ending, Some(&put_back)), [(Metric::Cancelled, 1)]);
    }

    /// R-D9: only the first attempt since a redrive is judged, and a job that was over before it is no failure.
    #[test]
    fn a_first_attempt_is_judged_once() {
        let claim = |attempts| Claim {
            standing: Standing { fence: 1, attempts, ..Standing::default() },
            begun: true,
        };
        let released = Ending::Released { why: String::new() };
        let waits = After::Waits(Standing::default());
        assert_eq!(first_attempt(claim(1), After::Succeeded, &released), Some(FirstAttempt::Succeeded));
        assert_eq!(first_attempt(claim(1), waits, &released), None);
        assert_eq!(first_attempt(claim(1), After::Cancelled, &released), Some(FirstAttempt::None));
        assert_eq!(
            first_attempt(claim(0), After::Dead(Standing::default()), &released),
            Some(FirstAttempt::None)
        );
        assert_eq!(first_attempt(claim(2), After::Succeeded, &released), None);
    }

    /// R-D7: the number that a sample is bound to never changes.
    #[test]
    fn the_row_of_a_sample_is_fixed() {
        assert_eq!(sample_row(""), 0xcbf2_9ce4_8422_2325_u64.cast_signed());
        assert_eq!(sample_row("a"), 0xaf63_dc4c_8601_ec8c_u64.cast_signed());
    }
}
