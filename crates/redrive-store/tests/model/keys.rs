//! Random commands about idempotency keys against the store and against a map of what must be known (R-I2, R-I4). The clock steps forward
//! and back, two handles take turns, and holds of long ago are used again.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use redrive_store::{
    Claimed, EventFilter, Finish, KeyClaim, KeyHold, KeyQuery, KeyState, Store, StoredResponse, Timestamp,
};

use crate::given::at;
use crate::{postgres, sqlite};

type Reached = RefCell<BTreeMap<&'static str, u64>>;

const STEPS: usize = 120;
/// How long an unknown outcome is remembered.
const KEEP: i64 = 20_000;

/// Everything that must have happened at least once.
const TRANSITIONS: &[&str] = &[
    "taken",
    "taken again",
    "lapsed and taken",
    "lapsed",
    "replayed",
    "in flight",
    "mismatched",
    "unknown",
    "forgotten and taken",
    "renewed",
    "revived",
    "completed",
    "completed late",
    "said twice",
    "released",
    "given up",
    "lost",
    "reset",
    "not reset",
    "swept lapsed",
    "swept expired",
];

#[derive(Debug, Clone)]
enum Command {
    Clock(i64),
    Claim { key: u8, request: u8, rerun: bool, hold_for: i64 },
    Say { hold: usize, word: Word },
    Reset { record: usize, seen: usize },
    Sweep,
}

#[derive(Debug, Clone, Copy)]
enum Word {
    Renew(i64),
    Complete { keep_for: i64 },
    Release { told: bool },
    GiveUp,
}

fn commands() -> impl Strategy<Value = Vec<Command>> {
    let word = prop_oneof![
        3 => (1..8_000_i64).prop_map(Word::Renew),
        4 => (1..30_000_i64).prop_map(|keep_for| Word::Complete { keep_for }),
        1 => any::<bool>().prop_map(|told| Word::Release { told }),
        2 => Just(Word::GiveUp),
    ];
    let command = prop_oneof![
        4 => (-2_000..9_000_i64).prop_map(Command::Clock),
        8 => (0..4_u8, 0..5_u8, any::<bool>(), 1..8_000_i64).prop_map(|(key, request, rerun, hold_for)| {
            // Mostly the same request.
            Command::Claim { key, request: u8::from(request == 4), rerun, hold_for }
        }),
        6 => (0..6_usize, word).prop_map(|(hold, word)| Command::Say { hold, word }),
        1 => (0..4_usize, 0..3_usize).prop_map(|(record, seen)| Command::Reset { record, seen }),
        1 => Just(Command::Sweep),
    ];
    prop::collection::vec(command, 1..=STEPS)
}

#[derive(Debug, Clone)]
struct Known {
    hold: KeyHold,
    request: u8,
    state: KeyState,
    until: i64,
    ended: i64,
    expires: i64,
    body: Vec<u8>,
}

#[derive(Default)]
struct Model {
    now: i64,
    known: BTreeMap<u8, Known>,
    /// Every hold that was ever given, the newest last.
    holds: Vec<KeyHold>,
    /// How many events of each type there must be.
    told: [usize; 3],
}

fn millis(number: i64) -> Duration {
    Duration::from_millis(number.unsigned_abs())
}

impl Model {
    fn now(&self) -> Timestamp {
        at(self.now)
    }

    /// Takes the claim for granted only as far as the map allows it; answers what happened.
    fn claim(
        &mut self,
        (key, request, rerun, hold_for): (u8, u8, bool, i64),
        claimed: &Claimed,
    ) -> Result<&'static str, TestCaseError> {
        let now = self.now;
        let fresh = |hold: KeyHold| Known {
            hold,
            request,
            state: KeyState::InProgress,
            until: now + hold_for,
            ended: 0,
            expires: 0,
            body: Vec::new(),
        };
        let forgotten = self
            .known
            .get(&key)
            .is_some_and(|known| known.state != KeyState::InProgress && known.expires <= now);
        if forgotten {
            self.known.remove(&key);
        }
        let Some(known) = self.known.get_mut(&key) else {
            let Claimed::Taken { hold, again: false } = *claimed else {
                return Err(TestCaseError::fail(format!("a free key: {claimed:?}")));
            };
            prop_assert!(!self.holds.contains(&hold), "{hold:?} was given before");
            self.known.insert(key, fresh(hold));
            self.holds.push(hold);
            return Ok(if forgotten { "forgotten and taken" } else { "taken" });
        };
        if known.request != request {
            let endpoint = known.request.to_string();
            prop_assert_eq!(claimed, &Claimed::Mismatch { endpoint });
            return Ok("mismatched");
        }
        if known.state == KeyState::Completed {
            let response =
                StoredResponse { status: 200, headers: Vec::new(), body: Some(known.body.clone()) };
            prop_assert_eq!(
                claimed,
                &Claimed::Completed { response, completed_at: at(known.ended), job: None }
            );
            return Ok("replayed");
        }
        if known.state == KeyState::InProgress && now < known.until {
            let is_so = matches!(claimed, Claimed::InFlight { until, .. } if *until == at(known.until));
            prop_assert!(is_so, "{:?} instead of in flight", claimed);
            return Ok("in flight");
        }
        let lapses = known.state == KeyState::InProgress;
        if lapses {
            self.told[0] += 1;
            (known.state, known.ended, known.expires) = (KeyState::UnknownOutcome, now, now + KEEP);
        }
        if !rerun {
            prop_assert_eq!(claimed, &Claimed::Unknown { since: at(known.ended), job: None });
            return Ok(if lapses { "lapsed" } else { "unknown" });
        }
        let Claimed::Taken { hold, again: true } = *claimed else {
            return Err(TestCaseError::fail(format!("a rerun: {claimed:?}")));
        };
        prop_assert!(hold.record == known.hold.record && !self.holds.contains(&hold), "{:?}", hold);
        *known = fresh(hold);
        self.holds.push(hold);
        Ok(if lapses { "lapsed and taken" } else { "taken again" })
    }

    /// What a holder's word must be answered with, and what it does.
    fn say(&mut self, hold: KeyHold, word: Word, body: &[u8]) -> (Finish, &'static str) {
        let now = self.now;
        let Some(key) = self.known.iter().find(|(_, known)| known.hold == hold).map(|(key, _)| *key) else {
            return (Finish::Lost, "lost");
        };
        let Some(known) = self.known.get_mut(&key) else { return (Finish::Lost, "lost") };
        match (word, known.state) {
            (Word::Release { .. }, KeyState::Completed) => (Finish::Lost, "lost"),
            (_, KeyState::Completed) | (Word::GiveUp, KeyState::UnknownOutcome) => {
                (Finish::Done, "said twice")
            }
            (Word::Renew(hold_for), state) => {
                (known.state, known.until) = (KeyState::InProgress, now + hold_for);
                (Finish::Done, if state == KeyState::InProgress { "renewed" } else { "revived" })
            }
            (Word::Complete { keep_for }, state) => {
                (known.state, known.ended, known.expires) = (KeyState::Completed, now, now + keep_for);
                known.body = body.to_vec();
                (Finish::Done, if state == KeyState::InProgress { "completed" } else { "completed late" })
            }
            (Word::Release { told }, _) => {
                self.known.remove(&key);
                self.told[1] += usize::from(told);
                (Finish::Done, "released")
            }
            (Word::GiveUp, KeyState::InProgress) => {
                (known.state, known.ended, known.expires) = (KeyState::UnknownOutcome, now, now + KEEP);
                self.told[0] += 1;
                (Finish::Done, "given up")
            }
        }
    }

    async fn run(
        &mut self,
        store: &dyn Store,
        step: usize,
        command: &Command,
    ) -> Result<&'static str, TestCaseError> {
        let now = self.now();
        match command {
            Command::Clock(by) => {
                self.now += by;
                Ok("clock")
            }
            Command::Claim { key, request, rerun, hold_for } => {
                let claim = KeyClaim {
                    principal: "p".to_owned(),
                    key: key.to_string(),
                    endpoint: request.to_string(),
                    request_hash: request.to_string(),
                    hold_for: millis(*hold_for),
                    keep_for: millis(KEEP),
                    rerun: *rerun,
                    job: None,
                };
                let claimed = store.claim_key(now, claim).await.unwrap();
                self.claim((*key, *request, *rerun, *hold_for), &claimed)
            }
            Command::Say { hold, word } => {
                let Some(at) = self.holds.len().checked_sub(hold + 1) else { return Ok("nobody") };
                let (hold, body) = (self.holds[at], step.to_string().into_bytes());
                let response = StoredResponse { status: 200, headers: Vec::new(), body: Some(body.clone()) };
                let finish = match *word {
                    Word::Renew(hold_for) => store.renew_key(now, hold, millis(hold_for)).await,
                    Word::Complete { keep_for } => {
                        store.complete_key(now, hold, response, millis(keep_for)).await
                    }
                    Word::Release { told } => {
                        store.release_key(now, hold, told.then(|| "why".to_owned())).await
                    }
                    Word::GiveUp => store.give_up_key(now, hold, "why".to_owned(), millis(KEEP)).await,
                };
                let (expected, said) = self.say(hold, *word, &body);
                prop_assert_eq!(finish.unwrap(), expected);
                Ok(said)
            }
            Command::Reset { record, seen } => {
                let Some((key, known)) = self.known.iter().nth(*record) else { return Ok("nobody") };
                let (key, record, is_so) = (*key, known.hold.record, known.state == KeyState::ALL[*seen]);
                let reset = store.reset_key(now, record, KeyState::ALL[*seen], None).await.unwrap();
                prop_assert_eq!(reset.is_some(), is_so);
                if !is_so {
                    return Ok("not reset");
                }
                self.known.remove(&key);
                self.told[2] += 1;
                Ok("reset")
            }
            Command::Sweep => {
                let swept = store.sweep_keys(now, millis(KEEP), 100).await.unwrap();
                let (mut lapsed, before, now) = (0, self.known.len(), self.now);
                self.known.retain(|_, known| known.state == KeyState::InProgress || known.expires > now);
                for known in self.known.values_mut() {
                    if known.state == KeyState::InProgress && known.until <= now {
                        (known.state, known.ended, known.expires) =
                            (KeyState::UnknownOutcome, now, now + KEEP);
                        lapsed += 1;
                    }
                }
                let expired = before - self.known.len();
                prop_assert_eq!((swept.lapsed, swept.expired, swept.more), (lapsed, expired as u64, false));
                self.told[0] += usize::try_from(lapsed).unwrap_or(0);
                Ok(if expired > 0 {
                    "swept expired"
                } else if lapsed > 0 {
                    "swept lapsed"
                } else {
                    "swept nothing"
                })
            }
        }
    }

    async fn compare(&self, store: &dyn Store) -> Result<(), TestCaseError> {
        let mut found: Vec<_> = store.keys(KeyQuery { limit: 100, ..KeyQuery::default() }).await.unwrap();
        found.sort_by(|one, other| one.key.cmp(&other.key));
        let found: Vec<_> = found
            .into_iter()
            .map(|record| {
                (record.key, record.id, record.state, record.leased_until, record.ended_at, record.expires_at)
            })
            .collect();
        let of = |(key, known): (&u8, &Known)| {
            let over = known.state != KeyState::InProgress;
            let only = |is_so: bool, time: i64| is_so.then(|| at(time));
            let (until, ended, expires) =
                (only(!over, known.until), only(over, known.ended), only(over, known.expires));
            (key.to_string(), known.hold.record, known.state, until, ended, expires)
        };
        prop_assert_eq!(found, self.known.iter().map(of).collect::<Vec<_>>());
        Ok(())
    }
}

async fn run_case(
    steps: &[Command],
    stores: &[Arc<dyn Store>],
    compared_every: usize,
    reached: &Reached,
) -> Result<(), TestCaseError> {
    let mut model = Model::default();
    for (number, command) in steps.iter().enumerate() {
        let said = model
            .run(&*stores[number % stores.len()], number, command)
            .await
            .map_err(|error| TestCaseError::fail(format!("at step {number} {command:?}: {error}")))?;
        *reached.borrow_mut().entry(said).or_default() += 1;
        if number % compared_every == 0 || number + 1 == steps.len() {
            // Another handle must see it at once.
            model
                .compare(&*stores[(number + 1) % stores.len()])
                .await
                .map_err(|error| TestCaseError::fail(format!("after step {number} {command:?}: {error}")))?;
        }
    }
    for (event_type, times) in
        ["idempotency_unknown", "idempotency_released", "idempotency_reset"].into_iter().zip(model.told)
    {
        let filter = EventFilter { types: vec![event_type.to_owned()], ..EventFilter::default() };
        let events = stores[0].events(filter, 10_000).await.unwrap();
        prop_assert_eq!(events.len(), times, "{}", event_type);
    }
    let report = stores[0].check().await.unwrap();
    prop_assert!(report.is_clean(), "{:?}", report.violations);
    for store in stores {
        store.close().await.unwrap();
    }
    Ok(())
}

fn sweep(on_postgres: bool, cases: u32) {
    let reached = Reached::default();
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 400, ..Config::default() };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, b"redrive's keys: never twice, ok.");
    let outcome = TestRunner::new_with_rng(config, rng).run(&commands(), |steps| {
        if on_postgres {
            postgres(2, async |stores| run_case(&steps, stores, 12, &reached).await)
        } else {
            sqlite(2, async |stores| run_case(&steps, stores, 1, &reached).await)
        }
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
    let reached = reached.into_inner();
    println!("{cases} cases of up to {STEPS} commands reached: {reached:?}");
    let missed: Vec<_> = TRANSITIONS.iter().filter(|name| !reached.contains_key(*name)).collect();
    let allowed = if on_postgres { TRANSITIONS.len() / 5 } else { 0 };
    assert!(missed.len() <= allowed, "the generator never reached: {missed:?}");
}

/// R-I2, R-I4, reliability rows 15 and 16: two handles on one file do what the map does.
#[test]
fn keys_do_what_the_model_does() {
    sweep(false, 120);
}

/// R-I2, R-I4, reliability rows 15 and 16: PostgreSQL, too.
#[test]
fn keys_on_postgres_do_what_the_model_does() {
    if redrive_testing::shared().is_some() {
        sweep(true, 15);
    }
}
