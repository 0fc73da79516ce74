//! Looking through the living jobs: every one of them is found, in pages, and says what its record says.

use std::collections::BTreeSet;

use redrive_policy::Cause;
use redrive_store::{JobHead, JobId, JobPage, JobQuery, JobState, JobStateName, NewJob, Origin};

use crate::back_end::Given;
use crate::given::{Hand, at, job, retry, success};

async fn list(given: &Given, query: JobQuery) -> JobPage {
    given.store.list_jobs(at(100), query).await.unwrap()
}

fn query() -> JobQuery {
    JobQuery { limit: 100, ..JobQuery::default() }
}

fn ids(page: &JobPage) -> Vec<JobId> {
    page.jobs.iter().map(|job| job.id).collect()
}

/// A job in each state, and one that is over, by name.
async fn filled(given: &Given) -> Vec<JobId> {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let plain = hand.add(job("a")).await;
    let all = NewJob {
        queue: "mail".to_owned(),
        run_at: Some(at(101)),
        priority: 7,
        unique_key: Some("once".to_owned()),
        caller_id: Some("order-1".to_owned()),
        policy: Some("patient".to_owned()),
        target: Some("far".to_owned()),
        origin: Origin::Api,
        ..job("b")
    };
    let later = hand.add(all).await;
    let running = hand.add(NewJob { caller_id: Some("order-1".to_owned()), ..job("c") }).await;
    let taken = hand.take(at(3), worker, &["c"]).await;
    assert_eq!(taken.token.job, running);
    given.store.cancel(at(4), running, "enough".to_owned()).await.unwrap();
    let dead =
        hand.letter(at(5), worker, NewJob { queue: "mail".to_owned(), ..job("d") }, Cause::Network).await;
    let again = hand.add(job("e")).await;
    let leased = hand.take(at(6), worker, &["e"]).await;
    hand.done(at(6), leased.token, retry(at(100))).await;
    let over = hand.add(job("f")).await;
    let leased = hand.take(at(7), worker, &["f"]).await;
    hand.done(at(7), leased.token, success()).await;
    let held = hand.add(NewJob { held_for: Some(worker), ..job("g") }).await;
    vec![plain, later, running, dead, again, over, held]
}

/// R-D3: each living job is listed once, the newest first, as its record says; what is over is not.
pub(crate) async fn a_job_is_listed_as_it_stands(given: &Given) {
    let jobs = filled(given).await;
    let page = list(given, query()).await;
    let mut living: Vec<JobId> = jobs.iter().copied().filter(|id| *id != jobs[5]).collect();
    living.reverse();
    assert_eq!((ids(&page), page.next), (living, None));
    for head in &page.jobs {
        let record = Hand(&*given.store).record(head.id).await;
        let job = record.job.expect("it lives");
        let said = JobHead {
            id: job.id,
            queue: job.queue,
            kind: job.kind,
            enqueued_at: job.enqueued_at,
            priority: job.priority,
            policy: job.policy,
            caller_id: job.caller_id,
            unique_key: job.unique_key,
            target: job.target,
            origin: job.origin,
            attempts: record.attempts,
            retries: record.retries,
            crashes: record.crashes,
            state: JobStateName::Dead,
            run_at: None,
            held_for: None,
            leased_by: None,
            lease_expires_at: None,
            begun_at: None,
            cancel_requested: false,
        };
        let said = match record.state {
            JobState::Ready { run_at, held_for } => {
                let state = if run_at > at(100) { JobStateName::Scheduled } else { JobStateName::Ready };
                JobHead { state, run_at: Some(run_at), held_for, ..said }
            }
            JobState::Leased { worker, expires_at, begun_at, cancel_requested, .. } => JobHead {
                state: JobStateName::Leased,
                leased_by: Some(worker),
                lease_expires_at: Some(expires_at),
                begun_at,
                cancel_requested,
                ..said
            },
            JobState::Dead(_) => said,
            JobState::Ended => panic!("it is over"),
        };
        assert_eq!(*head, said);
    }
    let running = page.jobs.iter().find(|head| head.id == jobs[2]).expect("it runs");
    assert!(running.cancel_requested && running.begun_at.is_some() && running.attempts == 1, "{running:?}");
    let again = page.jobs.iter().find(|head| head.id == jobs[4]).expect("it waits");
    assert_eq!((again.attempts, again.retries, again.state), (1, 1, JobStateName::Ready));
}

/// R-D3: every filter chooses, alone and with others.
pub(crate) async fn filters_choose(given: &Given) {
    let jobs = filled(given).await;
    let [plain, later, running, dead, again, _, held] = jobs[..] else { panic!("seven") };
    let state = |state| JobQuery { state: Some(state), ..query() };
    let caller = || JobQuery { caller_id: Some("order-1".to_owned()), ..query() };
    let queue = |name: &str| JobQuery { queue: Some(name.to_owned()), ..query() };
    for (query, expected) in [
        (state(JobStateName::Ready), vec![held, again, plain]),
        (state(JobStateName::Scheduled), vec![later]),
        (state(JobStateName::Leased), vec![running]),
        (state(JobStateName::Dead), vec![dead]),
        (caller(), vec![running, later]),
        (JobQuery { state: Some(JobStateName::Leased), ..caller() }, vec![running]),
        (JobQuery { state: Some(JobStateName::Dead), ..caller() }, vec![]),
        (JobQuery { queue: Some("mail".to_owned()), ..caller() }, vec![later]),
        (queue("mail"), vec![dead, later]),
        (queue("default"), vec![held, again, running, plain]),
        (JobQuery { state: Some(JobStateName::Dead), ..queue("mail") }, vec![dead]),
        (JobQuery { state: Some(JobStateName::Dead), ..queue("default") }, vec![]),
        (JobQuery { kind: Some("e".to_owned()), ..query() }, vec![again]),
        (JobQuery { kind: Some("e".to_owned()), ..queue("mail") }, vec![]),
        (queue("nobody's"), vec![]),
        (JobQuery { caller_id: Some("a\0b".to_owned()), ..query() }, vec![]),
    ] {
        let page = list(given, query.clone()).await;
        assert_eq!((ids(&page), page.next), (expected, None), "{query:?}");
    }
}

/// R-D3: pages follow each other without a gap or a repetition, also while jobs come and go.
pub(crate) async fn pages_follow_each_other(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let mut added = BTreeSet::new();
    for number in 0..25 {
        added.insert(hand.add(job(if number % 3 == 0 { "a" } else { "b" })).await);
    }
    let (mut seen, mut query) = (Vec::new(), JobQuery { limit: 7, ..query() });
    loop {
        let page = list(given, query.clone()).await;
        assert!(page.jobs.len() <= 7);
        seen.extend(ids(&page));
        hand.add(job("new")).await;
        let Some(next) = page.next else { break };
        query.after = Some(next);
    }
    let expected: Vec<JobId> = added.iter().rev().copied().collect();
    assert_eq!(seen, expected);
    // A page that is just full and the last says so.
    let running = hand.take(at(0), worker, &["a"]).await.token.job;
    let leased = JobQuery { state: Some(JobStateName::Leased), limit: 1, ..JobQuery::default() };
    let page = list(given, leased).await;
    assert_eq!((ids(&page), page.next), (vec![running], None));
    let none = JobQuery { limit: 0, ..JobQuery::default() };
    assert_eq!(list(given, none).await.jobs.len(), 1, "one is the least");
}

/// R-D3: what is looked for among many is looked for in stretches, each of which says where the next begins.
pub(crate) async fn a_look_is_bounded(given: &Given) {
    let hand = Hand(&*given.store);
    let first = hand.add(job("needle")).await;
    given.store.enqueue(at(0), vec![job("hay"); 52]).await.unwrap();
    let needle = JobQuery { kind: Some("needle".to_owned()), look_at: Some(50), ..query() };
    let page = list(given, needle.clone()).await;
    assert!(page.jobs.is_empty(), "it is further than one look");
    let next = page.next.expect("there is more to look at");
    let page = list(given, JobQuery { after: Some(next), ..needle }).await;
    assert_eq!((ids(&page), page.next), (vec![first], None));
}
