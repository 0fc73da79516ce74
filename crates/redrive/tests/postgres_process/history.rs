//! The checker: reads the whole event log, and holds each job's story against the rules and against what processes were told.

use std::collections::BTreeMap;

use redrive_store::{Event, EventFilter, JobId, Order, Store};

/// What is looked at of an event.
#[derive(Debug, Clone)]
pub(crate) struct Fact {
    pub(crate) event_type: String,
    attempt: Option<u64>,
    caller_id: Option<String>,
}

impl Fact {
    fn of(event: Event) -> Fact {
        let attempt = event.data["attempt"].as_u64();
        let caller_id = event.data["caller_id"].as_str().map(str::to_owned);
        Fact { event_type: event.event_type, attempt, caller_id }
    }
}

/// What journals say, together.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// By caller's id.
    pub(crate) enqueued: BTreeMap<String, JobId>,
    /// Everything that was asked for.
    pub(crate) asked: usize,
    /// What callers were told instead.
    pub(crate) refused: Vec<String>,
    /// Settlements that were acknowledged as successes.
    pub(crate) succeeded: Vec<JobId>,
    /// Effects, by payload.
    pub(crate) did: BTreeMap<String, usize>,
    /// Workers that ended with an error.
    pub(crate) broke: Vec<String>,
}

impl Told {
    pub(crate) fn read(journals: impl IntoIterator<Item = String>) -> Told {
        let mut told = Told::default();
        for journal in journals {
            for line in journal.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
                let line = line.trim_end();
                let words: Vec<&str> = line.split(' ').collect();
                let job = |at: usize| JobId(words[at].parse().unwrap());
                match words[0] {
                    "asks" => told.asked += 1,
                    "enqueued" => {
                        told.enqueued.insert(words[1].to_owned(), job(2));
                    }
                    "refused" => told.refused.push(line.to_owned()),
                    "settled" if words[3] == "succeeded" => told.succeeded.push(job(1)),
                    "did" => *told.did.entry(words[1].to_owned()).or_default() += 1,
                    "broke" => told.broke.push(line.to_owned()),
                    "settled" | "ready" | "left" => {}
                    other => panic!("a journal says {other}"),
                }
            }
        }
        told
    }
}

/// Every job's events, in the order of the stream.
pub(crate) struct History {
    pub(crate) jobs: BTreeMap<JobId, Vec<Fact>>,
}

impl History {
    pub(crate) async fn read(store: &dyn Store) -> History {
        let mut jobs: BTreeMap<JobId, Vec<Fact>> = BTreeMap::new();
        let mut after = None;
        loop {
            let filter = EventFilter { order: Order::OldestFirst, after, ..EventFilter::default() };
            let page = store.events(filter, 5_000).await.unwrap();
            let Some(last) = page.last() else { break };
            after = Some(last.seq);
            for event in page {
                if let Some(job) = event.job {
                    jobs.entry(job).or_default().push(Fact::of(event));
                }
            }
        }
        History { jobs }
    }

    pub(crate) fn count(&self, event_type: &str) -> usize {
        self.jobs.values().flatten().filter(|event| event.event_type == event_type).count()
    }

    /// Each story is one that the protocol allows: enqueued once, attempts begin one after the other, each ends once, nothing after
    /// an end (invariants I1 to I3). What is refused leaves `stale_settle`, which changes nothing.
    pub(crate) fn must_be_sound(&self) {
        let mut broken = Vec::new();
        for (job, events) in &self.jobs {
            if let Err(why) = sound(events) {
                let story: Vec<_> =
                    events.iter().map(|fact| format!("{} {:?}", fact.event_type, fact.attempt)).collect();
                broken.push(format!("{job}: {why}: {story:?}"));
            }
        }
        assert!(
            broken.is_empty(),
            "{} of {} stories: {:#?}",
            broken.len(),
            self.jobs.len(),
            &broken[..broken.len().min(20)]
        );
    }

    /// Each job has succeeded exactly once, and nobody innocent was set aside.
    pub(crate) fn all_succeeded(&self) {
        for (job, events) in &self.jobs {
            let of = |name: &str| events.iter().filter(|event| event.event_type == name).count();
            let story: Vec<_> = events.iter().map(|event| &event.event_type).collect();
            assert_eq!((of("attempt_succeeded"), of("job_dead")), (1, 0), "{job}: {story:?}");
        }
    }

    /// What callers were told holds: nothing is lost, nothing is there twice, and no success was acknowledged twice.
    pub(crate) fn must_bear_out(&self, told: &Told) {
        let mut successes = told.succeeded.clone();
        successes.sort();
        let twice: Vec<_> = successes.windows(2).filter(|pair| pair[0] == pair[1]).collect();
        assert!(twice.is_empty(), "acknowledged as a success twice: {twice:?}");
        let lost = self.lost(told);
        assert!(lost.is_empty(), "{} acknowledged and lost: {:?}", lost.len(), &lost[..lost.len().min(20)]);
    }

    /// What was acknowledged and is not there. What is doubled is a failure at once.
    pub(crate) fn lost(&self, told: &Told) -> Vec<String> {
        let mut by_caller: BTreeMap<&str, Vec<JobId>> = BTreeMap::new();
        for (job, events) in &self.jobs {
            for event in events.iter().filter(|event| event.event_type == "job_enqueued") {
                by_caller.entry(event.caller_id.as_deref().unwrap_or_default()).or_default().push(*job);
            }
        }
        by_caller.remove("");
        let doubled: Vec<_> = by_caller.iter().filter(|(_, jobs)| jobs.len() > 1).collect();
        assert!(doubled.is_empty(), "enqueued twice: {doubled:?}");
        let mut lost: Vec<String> = told
            .enqueued
            .iter()
            .filter(|(caller, id)| by_caller.get(caller.as_str()).is_none_or(|jobs| jobs[0] != **id))
            .map(|(caller, id)| format!("{caller} as {id}"))
            .collect();
        for job in &told.succeeded {
            let succeeded = self.jobs.get(job).into_iter().flatten();
            if !succeeded.into_iter().any(|event| event.event_type == "attempt_succeeded") {
                lost.push(format!("the success of {job}"));
            }
        }
        lost
    }
}

fn sound(events: &[Fact]) -> Result<(), String> {
    let mut begun = None;
    let mut attempts = 0;
    let mut over = false;
    let own = events.iter().filter(|event| event.event_type != "stale_settle");
    for (place, event) in own.enumerate() {
        if over {
            return Err(format!("{} after its end", event.event_type));
        }
        if (place == 0) != (event.event_type == "job_enqueued") {
            return Err("it is not enqueued once, and first".to_owned());
        }
        let attempt = event.attempt;
        match event.event_type.as_str() {
            "job_enqueued" => {}
            "attempt_started" => {
                attempts += 1;
                if begun.replace(attempts).is_some() || attempt != Some(attempts) {
                    return Err(format!("attempt {attempt:?} begins where {attempts} should"));
                }
            }
            "attempt_failed" | "attempt_succeeded" | "job_dead" => {
                if begun.take().is_none() || attempt != Some(attempts) {
                    return Err(format!("attempt {attempt:?} ends where {attempts} should"));
                }
                over = event.event_type != "attempt_failed";
            }
            // Given back: the attempt does not count.
            "job_released" => {
                if begun.take().is_some() {
                    attempts -= 1;
                }
            }
            other => return Err(format!("what is {other}?")),
        }
    }
    Ok(())
}

/// I9: the checker sees what it is there for.
#[test]
fn stories_that_must_not_be_are_seen_through() {
    let story = |told: &[(&str, u64)]| {
        let fact = |(name, attempt): &(&str, u64)| Fact {
            event_type: (*name).to_owned(),
            attempt: (*attempt > 0).then_some(*attempt),
            caller_id: None,
        };
        sound(&told.iter().map(fact).collect::<Vec<_>>()).is_ok()
    };
    let (enqueued, started, succeeded) =
        (("job_enqueued", 0), ("attempt_started", 1), ("attempt_succeeded", 1));
    assert!(story(&[enqueued, started, succeeded]));
    assert!(story(&[
        enqueued,
        started,
        ("attempt_failed", 1),
        ("attempt_started", 2),
        ("attempt_succeeded", 2)
    ]));
    assert!(story(&[enqueued, started, ("job_released", 0), started, succeeded, ("stale_settle", 1)]));
    assert!(!story(&[enqueued, started, succeeded, succeeded]), "settled twice");
    assert!(!story(&[enqueued, started, started, succeeded]), "begun twice");
    assert!(!story(&[enqueued, enqueued, started, succeeded]), "enqueued twice");
    assert!(!story(&[enqueued, succeeded]), "never begun");
    assert!(!story(&[enqueued, started, ("attempt_failed", 1), succeeded]), "an end too many");
    assert!(
        !story(&[enqueued, started, ("attempt_failed", 1), ("attempt_started", 3)]),
        "an attempt is missing"
    );
}
