//! A recorded outage, and three other policies: every number worked out by hand.
//!
//! Six jobs call a target that is down from minute 1 to minute 5 (60 s ≤ t < 300 s). Attempts take no time, and nothing is left
//! to chance. They run under A: 60 s between attempts, three retries. F is a failure, S a success:
//!
//! ```text
//! job 1  30S
//! job 2  60F 120F 180F 240F           lost at 240
//! job 3       90F 150F 210F 270F      lost at 270
//! job 4           150F 210F 270F 330S recovered 180 s after its first failure
//! job 5                210F 270F 330S recovered 120 s after
//! job 6                     270F 330S recovered  60 s after
//! ```
//!
//! So the target was seen good at 30, bad from 60 to 270, and good at 330. Between 270 and 330 nobody looked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use redrive::engine::{Clock, Simulated};
use redrive::{Backoff, Cause, Curve, Fail, Policy, PolicySpec, fail};
use redrive_policy::simulate::{Between, Tally};
use redrive_store::JobId;

use crate::world::{World, beside, candidate, on_both, second};

fn every(name: &str, seconds: u64, max_retries: u32) -> Policy {
    Policy::from(PolicySpec {
        name: name.to_owned(),
        max_retries,
        backoff: Backoff::new(Curve::constant(Duration::from_secs(seconds))),
        entries: Vec::new(),
        ..(*Policy::standard()).clone()
    })
}

/// Records the outage; the answer is the jobs.
async fn outage(world: &World) -> Vec<JobId> {
    let clock = Arc::clone(&world.clock);
    let worker = world.worker().handle("charge", move |(): (), _cx| {
        let now = clock.now();
        async move {
            if now >= second(60) && now < second(300) {
                return Err::<(), Fail>(fail(Cause::Network, "connection refused"));
            }
            Ok(())
        }
    });
    beside(worker, async {
        let mut jobs = Vec::new();
        for at in [30, 60, 90, 150, 210, 270] {
            world.until(second(at), &jobs).await;
            jobs.push(world.engine.job("charge", &()).enqueue().await.unwrap().id);
            world.at(second(at), &jobs).await;
        }
        world.until(second(600), &jobs).await;
        jobs
    })
    .await
}

fn exactly(number: u64) -> Between<u64> {
    Between { least: number, most: number }
}

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

fn waits(number: u64) -> Between<Duration> {
    Between { least: seconds(number), most: seconds(number) }
}

/// The load of each minute from the first.
fn load(tally: &Tally) -> Vec<u64> {
    let first = second(0).millis() / 60_000;
    let of: BTreeMap<i64, u64> = tally.load.iter().map(|(minute, load)| (minute - first, *load)).collect();
    let last = of.keys().copied().max().unwrap();
    (0..=last).map(|minute| of.get(&minute).copied().unwrap_or(0)).collect()
}

fn jobs_of(simulated: &Simulated) -> Vec<JobId> {
    simulated.differences.iter().map(|difference| difference.job).collect()
}

/// R-P4, issue 5, "must show": policies simulated against a recorded outage; the numbers checked by hand.
#[test]
fn the_numbers_of_an_outage_are_those_worked_out_by_hand() {
    let furnish = |builder: redrive::engine::EngineBuilder| {
        let policies = [every("a", 60, 3), every("b", 45, 6), every("c", 60, 1), every("d", 45, 5)];
        policies.into_iter().fold(builder, redrive::engine::EngineBuilder::policy).default_policy("a")
    };
    on_both(&furnish, |world| async move {
        let jobs = outage(&world).await;
        let simulation = world.simulate(["a", "b", "c", "d"].map(candidate).to_vec()).await;
        let recorded = &simulation.recorded;

        // Job 1 never failed: it is load, and nothing else. 4 + 4 + 4 + 3 + 2 attempts; the first of each job is no retry.
        assert_eq!(recorded.jobs, 5);
        assert_eq!(recorded.attempts, exactly(17));
        assert_eq!(recorded.retries, exactly(12));
        // Twelve waits of a minute.
        assert_eq!(recorded.waited, waits(720));
        assert_eq!((recorded.recovered, recorded.lost, recorded.set_aside), (3, 2, exactly(2)));
        // Of 60, 120 and 180 s the second and the third.
        assert_eq!((recorded.recovery(50), recorded.recovery(95)), (Some(waits(120)), Some(waits(180))));
        // 30 | 60 90 | 120 150 150 | 180 210 210 210 | 240 270 270 270 270 | 330 330 330
        assert_eq!(load(recorded), [1, 2, 3, 4, 5, 3]);
        assert_eq!(recorded.peak(), 5);
        assert_eq!(recorded.causes[&Cause::Network].jobs, 5);

        let [a, b, c, d] = &simulation.simulated[..] else { panic!("four were asked for") };

        // The same policy gives the record back.
        assert_eq!(&a.tally, recorded);
        assert_eq!((a.departing, a.differing), (0, 0));

        // B: 45 s, six retries. In brackets an estimate, ? where nobody looked, c where the last look was good:
        //   job 2   60F (105F) (150F) (195F) 240F (285?) (330S)   240 was due at that moment; 330 was seen good
        //   job 3   90F (135F) (180F) (225F) 270F (315?) (360c)
        //   job 4  150F (195F) (240F) (285?) 330S
        //   job 5  210F (255F) (300?) (345c)
        //   job 6  270F (315?) (360c)
        // At most 7 + 7 + 5 + 4 + 3 attempts. Had each ? succeeded: 6 + 6 + 4 + 3 + 2.
        let tally = &b.tally;
        assert_eq!(tally.attempts, Between { least: 21, most: 26 });
        assert_eq!(tally.retries, Between { least: 16, most: 21 });
        assert_eq!(tally.waited, Between { least: seconds(16 * 45), most: seconds(21 * 45) });
        // 5 + 5 + 3 + 3 + 2 in brackets, one ? each, three c.
        assert_eq!((tally.estimated_attempts, tally.unknown_attempts, tally.carried), (18, 5, 3));
        // Every estimated failure lies between two of the job's own, a minute apart.
        assert_eq!(tally.widest_gap, seconds(60));
        // All recover whatever the ? are, and none by observation alone.
        assert_eq!((tally.recovered, tally.recovered_estimated), (0, 5));
        assert_eq!((tally.lost, tally.lost_estimated, tally.unknown), (0, 0, 0));
        assert_eq!(tally.set_aside, exactly(0));
        // At most 330-60, 360-90, 330-150, 345-210, 360-270: of 90, 135, 180, 270, 270 the third and the fifth.
        // At least up to the ?: 285-60, 315-90, 285-150, 300-210, 315-270: of 45, 90, 135, 225, 225 the same.
        let between = |least, most| Some(Between { least: seconds(least), most: seconds(most) });
        assert_eq!((tally.recovery(50), tally.recovery(95)), (between(135, 180), between(225, 270)));
        // 30 | 60 90 105 | 135 150 150 | 180 195 195 210 225 | 240 240 255 270 270 285 285 | 300 315 315 330 330 345 | 360 360
        assert_eq!(load(tally), [1, 3, 3, 5, 7, 6, 2]);
        assert_eq!(tally.peak(), 7);
        // Jobs 2 and 3 are no longer lost.
        assert_eq!(b.differing, 2);
        assert_eq!(jobs_of(b), [jobs[1], jobs[2]]);
        assert_eq!(b.departing, 5);

        // C: 60 s, one retry. It only stops earlier, so everything it does was seen:
        //   job 2 60F 120F   job 3 90F 150F   job 4 150F 210F   job 5 210F 270F   job 6 270F 330S
        let tally = &c.tally;
        assert_eq!((tally.attempts, tally.retries, tally.waited), (exactly(10), exactly(5), waits(300)));
        assert_eq!(tally.estimated_attempts, 0);
        assert_eq!((tally.recovered, tally.recovered_estimated), (1, 0));
        assert_eq!((tally.lost, tally.lost_estimated, tally.set_aside), (4, 0, exactly(4)));
        assert_eq!((tally.recovery(50), tally.recovery(95)), (Some(waits(60)), Some(waits(60))));
        // 30 | 60 90 | 120 150 150 | 210 210 | 270 270 | 330
        assert_eq!(load(tally), [1, 2, 3, 2, 2, 1]);
        // Jobs 4 and 5 would have been lost; job 6 is as it was.
        assert_eq!(jobs_of(c), [jobs[3], jobs[4]]);
        assert_eq!((c.differing, c.departing), (2, 4));

        // D is B with one retry less: jobs 2 and 3 end with their ?, and whether they recover nobody can say.
        let tally = &d.tally;
        assert_eq!((tally.recovered + tally.recovered_estimated, tally.unknown), (3, 2));
        assert_eq!((tally.lost, tally.lost_estimated), (0, 0));
        assert_eq!(tally.attempts, Between { least: 21, most: 24 });
        assert_eq!(tally.set_aside, Between { least: 0, most: 2 });
    });
}
