//! Ten thousand jobs fail together: real engine, real store, real gate; only the clock is told to move (R-P15).

use std::collections::BTreeMap;
use std::time::Duration;

use redrive::engine::Clock;
use redrive_store::NewJob;

use super::support::{Elsewhere, World, call, run, start};

const JOBS: usize = 10_000;
/// A bin of the histogram.
const BIN_MS: i64 = 100;
const STEP: Duration = Duration::from_millis(10);
/// When the target is well again.
const HEALS_AFTER: Duration = Duration::from_secs(6);

const PROTECTED: &str = r#"
[targets."key:upstream.example"]
open_for = "2s"
ramp = "5s"
pace = "500/s"
budget_at_least = "500/s"
"#;

const UNPROTECTED: &str = r#"
[retry]
max_retries = 8
[retry.backoff]
type = "exponential"
initial_delay_ms = 1000
jitter = 0
[targets.default_key]
breaker = false
budget = false
"#;

/// What is wrong with how calls came, if anything: from `first` to the last no bin may hold more than twice the mean. Where
/// the mean is below thirty, twice of it is no more than chance, and the question is not asked.
fn check(times: &[i64], first: i64) -> Result<(f64, usize), String> {
    let Some(last) = times.iter().max() else { return Err("nothing came".to_owned()) };
    let mut bins: BTreeMap<i64, usize> = BTreeMap::new();
    for time in times {
        *bins.entry((time - first) / BIN_MS).or_default() += 1;
    }
    #[allow(clippy::cast_precision_loss)]
    let mean = times.len() as f64 / ((last - first) / BIN_MS + 1) as f64;
    let (worst, most) = bins.iter().max_by_key(|(_, count)| **count).unwrap();
    if mean < 30.0 {
        return Err(format!("a mean of {mean:.1} proves nothing"));
    }
    #[allow(clippy::cast_precision_loss)]
    if *most as f64 > 2.0 * mean {
        return Err(format!("bin {worst} holds {most}, the mean is {mean:.1}"));
    }
    Ok((mean, *most))
}

/// When calls came to the target that were not the first of their job, and when it was well again.
async fn storm(settings: &str, seed: u64) -> (Vec<i64>, i64) {
    let world = World::new();
    let engine = world.engine(settings, seed);
    let elsewhere = Elsewhere::new(&engine).await;
    let jobs: Vec<NewJob> = (0..JOBS).map(|_| call("upstream.example")).collect();
    world.store.enqueue(engine.now(), jobs).await.unwrap();
    let mut all = Vec::new();
    while all.len() < JOBS {
        let some = elsewhere.take(1_000).await;
        assert!(!some.is_empty(), "nobody knows yet that it is sick: everything goes");
        all.extend(some);
    }
    while !all.is_empty() {
        let some = all.split_off(all.len().saturating_sub(1_000));
        elsewhere.end(some, false).await;
    }
    let healed = start().after(HEALS_AFTER).millis();
    let mut retries = Vec::new();
    let mut left = JOBS;
    for step in 0..30_000_u32 {
        world.clock.advance(STEP);
        let now = world.clock.now().millis();
        loop {
            let some = elsewhere.take(1_000).await;
            if some.is_empty() {
                break;
            }
            assert!(some.iter().all(|has| has.leased.attempt > 1));
            retries.extend(some.iter().map(|_| now));
            let well = now >= healed;
            left -= if well { some.len() } else { 0 };
            elsewhere.end(some, well).await;
        }
        if step % 100 == 0 {
            let worker = world.store.register(engine.now(), "tidy".to_owned(), STEP).await.unwrap();
            engine.maintain(worker).await.unwrap();
        }
        if left == 0 {
            return (retries, healed);
        }
    }
    panic!("{left} jobs are left after five minutes");
}

/// R-P15, reliability "retry storms": from the first retry to the last no bin of 100 ms holds more than twice the mean, and the
/// recovery brings no second wave.
fn stays_calm(seed: u64) {
    run(async {
        let (retries, healed) = storm(PROTECTED, seed).await;
        let (mean, most) = check(&retries, retries[0]).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        let after: Vec<i64> = retries.iter().copied().filter(|time| *time >= healed).collect();
        let (mean_after, most_after) =
            check(&after, healed).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        let told = format!(
            "seed {seed}: {mean:.1} and at most {most}; healed: {mean_after:.1} and at most {most_after}"
        );
        let before = retries.len() - after.len();
        assert!(before <= 20, "{before} calls went to a target that is known to be sick; {told}");
        assert_eq!(after.len(), JOBS, "{told}");
    });
}

#[test]
fn ten_thousand_that_fail_together_come_back_spread() {
    stays_calm(1);
}

#[test]
fn ten_thousand_that_fail_together_come_back_spread_by_other_chances() {
    stays_calm(20_261_116);
}

#[test]
fn ten_thousand_that_fail_together_come_back_spread_by_yet_other_chances() {
    stays_calm(u64::MAX - 3);
}

/// The control: without jitter and without protection the same checker finds the storm.
#[test]
fn without_protection_the_checker_finds_the_storm() {
    run(async {
        let (retries, healed) = storm(UNPROTECTED, 1).await;
        let wrong = check(&retries, retries[0]).unwrap_err();
        assert!(wrong.contains("holds 10000"), "{wrong}");
        let after: Vec<i64> = retries.into_iter().filter(|time| *time >= healed).collect();
        assert!(check(&after, healed).unwrap_err().contains("holds 10000"), "the recovery is a wave as well");
    });
}
