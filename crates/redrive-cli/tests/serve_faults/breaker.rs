//! A breaker that is open stays open, whoever of those that know it is killed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redrive_store::Timestamp;
use serde_json::{Value, json};

use crate::pair::Pair;
use crate::workers::{Crew, FarSide};
use crate::{until, until_within};

const CONFIG: &str = r#"
[targets."key:bank"]
of_at_least = 5
open_for = "4s"
open_for_at_most = "4s"
probes = 2
ramp = "1s"
budget = false

[policies.patient]
max_retries = 50
[policies.patient.backoff]
type = "constant"
initial_delay = "100ms"
"#;

/// Until when nobody calls the bank, by the word of one server.
fn open_until(pair: &Pair, which: usize) -> Option<SystemTime> {
    let (status, said) = pair.server(which).get("/v1/targets/key:bank");
    let seen: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(status, 200, "{seen}");
    let until = seen["tried_again_at"].as_str().filter(|_| seen["state"] == "open")?;
    let until: Timestamp = until.parse().unwrap();
    Some(UNIX_EPOCH + Duration::from_millis(u64::try_from(until.millis()).unwrap()))
}

/// R-P15, reliability rows 2 and 29: what one server has found out both hold to, and a server that is killed and comes back as well: from the moment that it is
/// known until the time that is told nobody calls. When the far side is well again everything ends, and waiting has cost no attempt.
#[test]
fn an_open_breaker_outlives_its_servers() {
    let Some(mut pair) = Pair::start(CONFIG, "--concurrency 0") else { return };
    let far = Arc::new(FarSide::default());
    far.down.store(true, Ordering::SeqCst);
    let jobs = 60;
    let job = |n: usize| json!({ "kind": "pay", "queue": "bank", "target": "bank", "policy": "patient", "payload": n });
    pair.doors.enqueue(&(0..jobs).map(job).collect::<Vec<Value>>());
    let crew = Crew::work(&pair.doors, &far, "bank", 8, Duration::from_millis(40));
    let mut quiet: Vec<(SystemTime, SystemTime)> = Vec::new();
    for round in 0..4 {
        let mut closed_until = None;
        until("it never opens", || {
            closed_until = open_until(&pair, 0);
            // The store's clock may show that time a moment later: that is no new one.
            closed_until > quiet.last().map(|(_, to)| *to)
        });
        // What the other has read holds for a second, and what runs may run.
        let from = SystemTime::now() + Duration::from_millis(1_500);
        pair.kill(round % 2);
        let to = closed_until.unwrap();
        for which in [0, 1] {
            let said = open_until(&pair, which);
            assert!(said == Some(to) || SystemTime::now() >= to, "server {which} forgot: {said:?}");
        }
        quiet.push((from, to));
        std::thread::sleep(to.duration_since(SystemTime::now()).unwrap_or_default());
    }
    let began = far.began();
    let mut proved = 0;
    for (from, to) in quiet {
        if let Ok(long) = to.duration_since(from) {
            proved += usize::from(long > Duration::from_millis(500));
            let called = began.iter().filter(|at| (from..to).contains(at)).count();
            assert_eq!(called, 0, "nobody calls what is known to be sick, for {long:?}");
        }
    }
    assert!(proved >= 2, "the machine was too slow to see anything");
    let tried = began.len();
    far.down.store(false, Ordering::SeqCst);
    until_within(Duration::from_mins(2), "not everything ends", || pair.queue("bank")["succeeded"] == jobs);
    drop(crew);
    let stands = pair.queue("bank");
    assert_eq!(
        (&stands["ready"], &stands["leased"], &stands["dead"]),
        (&json!(0), &json!(0), &json!(0)),
        "{stands}"
    );
    assert_eq!(far.done().0, jobs, "everything was paid");
    let seen: Value = serde_json::from_str(&pair.server(0).get("/v1/targets/key:bank").1).unwrap();
    println!("{tried} calls while it was down, of {jobs} jobs: {seen}");
    assert!(seen["opened_total"].as_u64() >= Some(4) && seen["parked_total"].as_u64() > Some(0), "{seen}");
    assert_eq!(pair.home.redrive("store check").0, Some(0));
}
