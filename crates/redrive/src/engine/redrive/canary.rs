//! A canary redrive (R-D9): 1 letter, then 10, then 10 %, then all. A step is judged on the first attempts of what it put
//! back, and the next one begins only when that went well. Pure: what happened is handed in.

use redrive_store::{FirstAttempt, Judged};
use serde::{Deserialize, Serialize};

/// How a canary redrive is judged.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Canary {
    /// The share of first attempts that may fail, from 0 to 1.
    pub max_failure_rate: f64,
}

impl Default for Canary {
    fn default() -> Canary {
        Canary { max_failure_rate: 0.1 }
    }
}

/// The last step, which takes all that is left.
pub(super) const LAST_STEP: u32 = 3;

/// How many letters a step puts back, of so many in all.
pub fn step_size(step: u32, total: u64) -> u64 {
    match step {
        0 => 1,
        1 => 10,
        2 => total.div_ceil(10).max(1),
        _ => u64::MAX,
    }
}

/// How first attempts went, together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Tally {
    /// First attempts that succeeded.
    pub succeeded: u64,
    /// First attempts that failed.
    pub failed: u64,
    /// Jobs whose first attempt has not ended.
    pub unknown: u64,
}

impl Tally {
    /// Counts what the store answered.
    pub fn of(judged: &[Judged]) -> Tally {
        let mut tally = Tally::default();
        for one in judged {
            match one.first_attempt {
                FirstAttempt::Succeeded => tally.succeeded += one.jobs,
                FirstAttempt::Failed => tally.failed += one.jobs,
                FirstAttempt::Unknown => tally.unknown += one.jobs,
                FirstAttempt::None => {}
            }
        }
        tally
    }

    fn all(self) -> u64 {
        self.succeeded + self.failed + self.unknown
    }
}

/// What a step's first attempts say.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Verdict {
    /// Not enough is known yet.
    Wait,
    /// It went well.
    Go,
    /// Nothing was tried: what was put back is over without an attempt. The step says nothing.
    Nothing,
    /// It did not go well.
    Stop(EndedWhy),
}

/// Why a redrive is over before everything was put back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EndedWhy {
    /// Too many first attempts failed.
    Failures {
        /// So many.
        failed: u64,
        /// Of so many.
        of: u64,
    },
    /// Something failed in a way in which it had not failed before.
    NewKind {
        /// The group of that failure.
        fingerprint: String,
        /// So many first attempts.
        failed: u64,
    },
    /// Somebody ended it.
    Cancelled {
        /// In their words.
        said: Option<String>,
    },
}

impl EndedWhy {
    /// As it is kept with the run.
    pub(super) fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// What was kept with a run; words that are not ours are somebody's reason.
    pub(super) fn from_text(text: &str) -> EndedWhy {
        serde_json::from_str(text).unwrap_or_else(|_| EndedWhy::Cancelled { said: Some(text.to_owned()) })
    }
}

impl Canary {
    /// Judges a step. `is_known` says whether letters of the run had failed in that way before.
    pub(super) fn judge(self, judged: &[Judged], is_known: impl Fn(&str) -> bool) -> Verdict {
        for one in judged {
            if one.first_attempt == FirstAttempt::Failed
                && let Some(fingerprint) = &one.fingerprint
                && !is_known(fingerprint)
            {
                let (fingerprint, failed) = (fingerprint.clone(), one.jobs);
                return Verdict::Stop(EndedWhy::NewKind { fingerprint, failed });
            }
        }
        let tally = Tally::of(judged);
        if self.is_exceeded(tally) {
            return Verdict::Stop(EndedWhy::Failures { failed: tally.failed, of: tally.all() });
        }
        match tally {
            Tally { unknown: 1.., .. } => Verdict::Wait,
            Tally { succeeded: 0, failed: 0, .. } => Verdict::Nothing,
            _ => Verdict::Go,
        }
    }

    /// Whether so many have failed that the others cannot make up for it.
    #[allow(clippy::cast_precision_loss)]
    fn is_exceeded(self, tally: Tally) -> bool {
        tally.failed > 0 && tally.failed as f64 > self.max_failure_rate * tally.all() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(succeeded: u64, failed: u64, unknown: u64) -> Vec<Judged> {
        let of = |first_attempt, jobs| Judged {
            first_attempt,
            fingerprint: (first_attempt == FirstAttempt::Failed).then(|| "aa".to_owned()),
            jobs,
        };
        [
            of(FirstAttempt::Succeeded, succeeded),
            of(FirstAttempt::Failed, failed),
            of(FirstAttempt::Unknown, unknown),
        ]
        .into_iter()
        .filter(|one| one.jobs > 0)
        .collect()
    }

    fn check(what: (u64, u64, u64), expected: &Verdict) {
        let found = Canary::default().judge(&judged(what.0, what.1, what.2), |print| print == "aa");
        assert_eq!(found, *expected, "{what:?}");
    }

    /// R-D9: a step is judged on first attempts, and as soon as the outcome is certain.
    #[test]
    fn a_step_goes_on_only_when_it_went_well() {
        let stop = |failed, of| Verdict::Stop(EndedWhy::Failures { failed, of });
        check((1, 0, 0), &Verdict::Go);
        check((0, 1, 0), &stop(1, 1));
        check((0, 0, 1), &Verdict::Wait);
        check((9, 1, 0), &Verdict::Go);
        check((0, 1, 9), &Verdict::Wait);
        check((0, 2, 8), &stop(2, 10));
        check((180, 20, 0), &Verdict::Go);
        check((100, 21, 79), &stop(21, 200));
        check((0, 0, 0), &Verdict::Nothing);
    }

    /// R-D9: a kind of failure that these letters did not have stops it, even when it is rare.
    #[test]
    fn a_new_kind_of_failure_stops_it() {
        let found = Canary::default().judge(&judged(99, 1, 0), |_| false);
        assert_eq!(found, Verdict::Stop(EndedWhy::NewKind { fingerprint: "aa".to_owned(), failed: 1 }));
    }

    /// R-D9: 1, then 10, then 10 %, then all.
    #[test]
    fn steps_grow() {
        let sizes = |total| (0..4).map(|step| step_size(step, total)).collect::<Vec<_>>();
        assert_eq!(sizes(2_000), [1, 10, 200, u64::MAX]);
        assert_eq!(sizes(5), [1, 10, 1, u64::MAX]);
        assert_eq!(sizes(1_001), [1, 10, 101, u64::MAX]);
    }

    /// R-D8: why a run is over reads back, and a person's words stay theirs.
    #[test]
    fn why_reads_back() {
        let why = EndedWhy::NewKind { fingerprint: "aa".to_owned(), failed: 2 };
        assert_eq!(EndedWhy::from_text(&why.to_text()), why);
        let said = EndedWhy::Cancelled { said: Some("wrong group".to_owned()) };
        assert_eq!(EndedWhy::from_text("wrong group"), said);
    }
}
