//! One command on both sides, its answers compared; and the comparison of all that can be seen afterwards.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use redrive_policy::Cause;
use redrive_store::{
    Ending, Enqueued, JobId, LeaseRequest, LeaseToken, NewEvent, NewJob, Redriven, Renewal, RunNow, Settled,
    Settlement, Store, WorkerId,
};

use crate::command::{Command, End};
use crate::given::{self, SECOND, at};
use crate::reference::{Known, LANES, LEASE_MS, Place, Present, Reference};

type Reached = Vec<&'static str>;
type Outcome<T> = Result<T, TestCaseError>;

const LEASE: Duration = Duration::from_millis(LEASE_MS.unsigned_abs());

fn millis(count: i64) -> Duration {
    Duration::from_millis(count.unsigned_abs())
}

fn pick<T: Copy>(from: &[T], number: usize) -> Option<T> {
    (!from.is_empty()).then(|| from[number % from.len()])
}

pub(crate) async fn run(store: &dyn Store, model: &mut Reference, command: &Command) -> Outcome<Reached> {
    let now = model.now;
    let mut reached = Reached::new();
    let ids: Vec<JobId> = model.jobs.keys().copied().collect();
    let live: Vec<LeaseToken> =
        model.tokens.iter().copied().filter(|token| model.held(*token).is_some()).collect();
    match command {
        Command::Clock(step) => {
            model.now += step;
            if *step < 0 {
                reached.push("clock back");
            }
        }
        Command::Register { presence } => {
            let worker = store.register(at(now), "model".to_owned(), millis(*presence)).await.unwrap();
            prop_assert!(!model.all_workers.contains(&worker), "{worker} twice");
            model.workers.insert(worker, Present { expires_at: now + presence, lasts: *presence });
            model.all_workers.push(worker);
            reached.push("worker came");
        }
        Command::Unregister(number) => {
            let Some(worker) = pick(&model.all_workers, *number) else { return Ok(reached) };
            store.unregister(at(now), worker).await.unwrap();
            model.workers.remove(&worker);
            set_free(model, worker, usize::MAX);
            reached.push("worker left");
        }
        Command::Enqueue { .. } => enqueue(store, model, command, &mut reached).await?,
        Command::Lease { worker, lanes, max, begin } => {
            let Some(worker) = pick(&model.all_workers, *worker) else { return Ok(reached) };
            lease(store, model, worker, (*lanes, *max, *begin), &mut reached).await?;
        }
        Command::Begin(number) => {
            let Some(token) = pick(&live, *number).or(pick(&model.tokens, *number)) else {
                return Ok(reached);
            };
            let said = store.begin(at(now), vec![token]).await.unwrap()[0];
            let may = |known: &Known| {
                let begun = matches!(known.place, Place::Leased { begun: true, .. });
                begun || known.deadline.is_none_or(|deadline| now < deadline)
            };
            prop_assert_eq!(said, model.held(token).is_some_and(may));
            reached.push(if said { begin(model, token.job) } else { "refused to begin" });
        }
        Command::Renew(number) => {
            let from = if number % 4 == 0 || live.is_empty() { &model.tokens } else { &live };
            let Some(token) = pick(from, *number) else { return Ok(reached) };
            renew(store, model, token, &mut reached).await?;
        }
        Command::Settle { token, end } => {
            let Some(token) = pick(&live, *token) else { return Ok(reached) };
            settle(store, model, token, *end, &mut reached).await?;
        }
        Command::SettleOld { token, end } => {
            let Some(token) = pick(&model.tokens, *token) else { return Ok(reached) };
            settle(store, model, token, *end, &mut reached).await?;
        }
        Command::Seize { worker, max } => {
            let Some(worker) = pick(&model.all_workers, *worker) else { return Ok(reached) };
            seize(store, model, worker, *max, &mut reached).await?;
        }
        Command::RunNow(number) => {
            let Some(id) = pick(&ids, *number) else { return Ok(reached) };
            run_now(store, model, id, &mut reached).await?;
        }
        Command::Cancel(number) => {
            // Half of the time something that is running.
            let leased = pick(&live, *number).filter(|_| number % 2 == 0).map(|token| token.job);
            let Some(id) = leased.or(pick(&ids, *number)) else { return Ok(reached) };
            cancel(store, model, id, &mut reached).await?;
        }
        Command::Redrive(number) => {
            // Letters mostly, and now and then anything.
            let letters: Vec<_> = ids.iter().copied().filter(|id| model.jobs[id].is_dead()).collect();
            let from = if number % 4 == 0 || letters.is_empty() { &ids } else { &letters };
            let Some(id) = pick(from, *number) else { return Ok(reached) };
            redrive(store, model, id, &mut reached).await?;
        }
        Command::Prune { age, limit } => prune(store, model, now - age, *limit, &mut reached).await?,
        Command::Append => {
            let event = NewEvent { event_type: "note".into(), source: "model".into(), ..NewEvent::default() };
            store.append(at(now), vec![event]).await.unwrap();
            model.stream.push((None, now, false));
        }
    }
    Ok(reached)
}

fn begin(model: &mut Reference, id: JobId) -> &'static str {
    let known = model.jobs.get_mut(&id).unwrap();
    let Place::Leased { begun, .. } = &mut known.place else { unreachable!() };
    if *begun {
        return "begun twice";
    }
    *begun = true;
    known.attempts += 1;
    model.tell(id, "attempt_started");
    "begun"
}

async fn enqueue(
    store: &dyn Store,
    model: &mut Reference,
    command: &Command,
    reached: &mut Reached,
) -> Outcome<()> {
    let Command::Enqueue { lane, priority, delay, key, held, deadline } = command else { unreachable!() };
    let (now, (queue, kind)) = (model.now, LANES[*lane]);
    let held_for = held.and_then(|number| pick(&model.all_workers, number));
    let new = NewJob {
        queue: queue.to_owned(),
        priority: *priority,
        run_at: (*delay > 0).then(|| at(now + delay)),
        unique_key: key.map(|key| key.to_string()),
        deadline_at: deadline.map(|deadline| at(now + deadline)),
        held_for,
        ..NewJob::new(kind, "x")
    };
    let said = store.enqueue(at(now), vec![new]).await.unwrap()[0];
    model.made[*lane] = true;
    if let Some(id) = key.and_then(|key| model.holder(*lane, key)) {
        prop_assert_eq!(said, Enqueued { id, existing: true });
        reached.push("duplicate");
        return Ok(());
    }
    prop_assert!(!said.existing && !model.jobs.contains_key(&said.id), "{:?}", said);
    let known = Known {
        lane: *lane,
        rank: *priority,
        key: *key,
        deadline: deadline.map(|deadline| now + deadline),
        allowed: *deadline,
        place: Place::Ready { run_at: now + delay, held_for },
        fence: 0,
        attempts: 0,
        retries: 0,
        crashes: 0,
        redrives: 0,
        hint: None,
        delay: None,
        story: Vec::new(),
    };
    model.jobs.insert(said.id, known);
    model.tell(said.id, "job_enqueued");
    model.reserve(held_for);
    reached.push(if held_for.is_some() { "reserved" } else { "enqueued" });
    Ok(())
}

async fn lease(
    store: &dyn Store,
    model: &mut Reference,
    worker: WorkerId,
    (lanes, max, begins): (u8, usize, bool),
    reached: &mut Reached,
) -> Outcome<()> {
    let now = model.now;
    // The lanes of a request are a product: bits 0 and 1 choose kinds, 2 and 3 queues; none is every one.
    let chosen = |bits: u8, names: [&str; 2]| -> Vec<String> {
        (0..2).filter(|bit| bits & (1 << bit) != 0).map(|bit| names[bit].to_owned()).collect()
    };
    let (kinds, queues) = (chosen(lanes, ["a", "b"]), chosen(lanes >> 2, ["p", "q"]));
    let mut mask = 0_u8;
    for (number, (queue, kind)) in LANES.iter().enumerate() {
        let asked = (kinds.is_empty() || kinds.iter().any(|one| one == kind))
            && (queues.is_empty() || queues.iter().any(|one| one == queue));
        mask |= u8::from(asked) << number;
    }
    let request =
        LeaseRequest { queues, kinds, lease_for: LEASE, begin: begins, ..given::wants(worker, &[], max) };
    let leased = store.lease(at(now), request).await.unwrap();
    let due = model.due(worker, mask, max);
    prop_assert_eq!(leased.iter().map(|leased| leased.token.job).collect::<Vec<_>>(), due.clone());
    if due.is_empty() {
        reached.push("found nothing");
    }
    for leased in leased {
        let id = leased.token.job;
        let known = model.jobs.get_mut(&id).unwrap();
        let Place::Ready { held_for, .. } = known.place else { unreachable!() };
        known.fence += 1;
        known.place = Place::Leased {
            worker,
            expires_at: now + LEASE_MS,
            begun: false,
            cancel: false,
            was_held: held_for,
        };
        let begun = begins && known.deadline.is_none_or(|deadline| now < deadline);
        reached.push(if begins && !begun { "leased past its deadline" } else { "leased" });
        prop_assert_eq!(
            (leased.token.fence, leased.attempt, leased.retries, leased.crashes, leased.begun),
            (known.fence, known.attempts + 1, known.retries, known.crashes, begun)
        );
        prop_assert_eq!((&leased.hint, leased.last_delay), (&known.hint, known.delay.map(millis)));
        prop_assert_eq!(leased.expires_at, at(now + LEASE_MS));
        if begun {
            begin(model, id);
        }
        model.tokens.push(leased.token);
    }
    Ok(())
}

async fn renew(
    store: &dyn Store,
    model: &mut Reference,
    token: LeaseToken,
    reached: &mut Reached,
) -> Outcome<()> {
    let now = model.now;
    let number = usize::try_from(token.fence).unwrap();
    let Some(worker) = pick(&model.all_workers, number) else { return Ok(()) };
    let said = store.renew(at(now), worker, LEASE, vec![token]).await.unwrap()[0];
    // Also when it was taken for gone.
    model.workers.insert(worker, Present { expires_at: now + LEASE_MS, lasts: LEASE_MS });
    let held = model.held(token).is_some();
    let expected = match &mut model.jobs.get_mut(&token.job).unwrap().place {
        Place::Leased { expires_at, cancel, .. } if held => {
            *expires_at = now + LEASE_MS;
            if *cancel { Renewal::CancelRequested } else { Renewal::Extended }
        }
        _ => Renewal::Lost,
    };
    prop_assert_eq!(said, expected);
    reached.push(match said {
        Renewal::Extended => "renewed",
        Renewal::CancelRequested => "told to cancel",
        Renewal::Lost => "renewal lost",
    });
    Ok(())
}

async fn settle(
    store: &dyn Store,
    model: &mut Reference,
    token: LeaseToken,
    end: End,
    reached: &mut Reached,
) -> Outcome<()> {
    let now = model.now;
    let place = model.jobs[&token.job].place.clone();
    let worker = if let Place::Leased { worker, .. } = place { Some(worker) } else { None };
    let held_for = |held: bool| if held { worker } else { None };
    let ending = match end {
        End::Succeeded => given::success(),
        End::Retry { cause, delay, held, hint } => Ending::Retry {
            run_at: at(now + delay),
            delay: SECOND,
            held_for: held_for(held),
            hint: hint.then(|| cause.name().to_owned()),
            failure: given::failure(cause, "it failed"),
        },
        End::Dead(cause) => given::dead(cause, "it died"),
        End::Snoozed { delay, held } => Ending::Snoozed { run_at: at(now + delay), held_for: held_for(held) },
        End::Parked { delay, held } => given::parked(at(now + delay), held_for(held)),
        End::Cancelled => given::cancelled(),
        End::Released => given::released(),
    };
    let said = store.settle(at(now), vec![Settlement { token, ending }]).await.unwrap()[0];
    prop_assert_eq!(said == Settled::Stale, model.held(token).is_none());
    if said == Settled::Stale {
        reached.push("stale");
        if !model.jobs[&token.job].is_forgotten() {
            model.tell_beside(token.job, "stale_settle");
        }
        return Ok(());
    }
    let Place::Leased { begun, was_held, cancel, .. } = place else { unreachable!() };
    let puts_back =
        matches!(end, End::Retry { .. } | End::Snoozed { .. } | End::Parked { .. } | End::Released);
    prop_assert_eq!(matches!(said, Settled::Cancelled { .. }), cancel && puts_back);
    if cancel && puts_back {
        reached.push("cancelled instead of put back");
        end_cancelled(model, token.job);
        return Ok(());
    }
    let known = model.jobs.get_mut(&token.job).unwrap();
    let lane = known.lane;
    let mut reserved = None;
    let event_type = match end {
        End::Succeeded => {
            known.place = Place::Ended;
            model.succeeded[lane] += 1;
            reached.push("succeeded");
            "attempt_succeeded"
        }
        End::Retry { cause, delay, held, hint } => {
            reserved = held_for(held);
            known.place = Place::Ready { run_at: now + delay, held_for: reserved };
            known.hint = hint.then(|| cause.name().to_owned());
            known.delay = Some(1_000);
            if cause == Cause::Crashed {
                known.crashes += 1;
                reached.push("crashed");
            } else {
                known.retries += 1;
                reached.push("retried");
            }
            "attempt_failed"
        }
        End::Dead(cause) => {
            known.place = Place::Dead { died_at: now, cause };
            reached.push("dead");
            "job_dead"
        }
        End::Snoozed { delay, held } => {
            reserved = held_for(held);
            known.place = Place::Ready { run_at: now + delay, held_for: reserved };
            known.attempts -= u32::from(begun);
            reached.push("snoozed");
            "job_snoozed"
        }
        End::Parked { delay, held } => {
            reserved = held_for(held);
            known.place = Place::Ready { run_at: now + delay, held_for: reserved };
            known.attempts -= u32::from(begun);
            reached.push("parked");
            "job_parked"
        }
        End::Cancelled => {
            known.place = Place::Ended;
            model.cancelled[lane] += 1;
            reached.push("cancelled by its worker");
            "job_cancelled"
        }
        End::Released => {
            reserved = was_held;
            known.place = Place::Ready { run_at: now, held_for: reserved };
            known.attempts -= u32::from(begun);
            reached.push("released");
            "job_released"
        }
    };
    model.tell(token.job, event_type);
    model.reserve(reserved);
    Ok(())
}

fn end_cancelled(model: &mut Reference, id: JobId) {
    let known = model.jobs.get_mut(&id).unwrap();
    known.place = Place::Ended;
    model.cancelled[known.lane] += 1;
    model.tell(id, "job_cancelled");
}

async fn seize(
    store: &dyn Store,
    model: &mut Reference,
    reaper: WorkerId,
    max: usize,
    reached: &mut Reached,
) -> Outcome<()> {
    let now = model.now;
    let seized = store.seize_expired(at(now), reaper, LEASE, max).await.unwrap();
    model.clamp();
    let mut expired: Vec<_> = model
        .jobs
        .iter()
        .filter_map(|(id, known)| match known.place {
            Place::Leased { expires_at, cancel, .. } if expires_at <= now => Some((expires_at, *id, cancel)),
            _ => None,
        })
        .collect();
    // The longest expired come first.
    expired.sort_unstable();
    expired.truncate(max);
    let taken: Vec<_> = expired.iter().filter(|(.., cancel)| !cancel).map(|(_, id, _)| *id).collect();
    prop_assert_eq!(seized.iter().map(|one| one.leased.token.job).collect::<Vec<_>>(), taken);
    for (_, id, _) in expired.iter().filter(|(.., cancel)| *cancel) {
        reached.push("over with its lease");
        end_cancelled(model, *id);
    }
    for one in &seized {
        let known = model.jobs.get_mut(&one.leased.token.job).unwrap();
        let Place::Leased { worker, expires_at, begun, .. } = &mut known.place else {
            return Err(TestCaseError::fail("seized what was not leased"));
        };
        prop_assert!(*expires_at <= now, "seized before its time");
        known.fence += 1;
        prop_assert_eq!((one.from, one.begun, one.leased.token.fence), (*worker, *begun, known.fence));
        prop_assert_eq!(one.leased.attempt, known.attempts + u32::from(!*begun));
        reached.push(if *begun { "seized begun" } else { "seized unbegun" });
        (*worker, *expires_at) = (reaper, now + LEASE_MS);
        model.tokens.push(one.leased.token);
    }
    let room = max - seized.len();
    let gone: Vec<WorkerId> =
        model.workers.iter().filter(|(_, present)| present.expires_at <= now).map(|(id, _)| *id).collect();
    for worker in gone {
        let freed = set_free(model, worker, room);
        reached.extend(std::iter::repeat_n("set free", freed));
        if freed < room {
            model.workers.remove(&worker);
        }
    }
    Ok(())
}

/// What is reserved for a worker becomes everybody's, at most so much; answers how much.
fn set_free(model: &mut Reference, worker: WorkerId, most: usize) -> usize {
    let mut reserved: Vec<_> = model
        .jobs
        .iter()
        .filter_map(|(id, known)| match known.place {
            Place::Ready { run_at, held_for: Some(owner) } if owner == worker => {
                Some((-known.rank, run_at, *id))
            }
            _ => None,
        })
        .collect();
    reserved.sort_unstable();
    reserved.truncate(most);
    for (_, run_at, id) in &reserved {
        model.jobs.get_mut(id).unwrap().place = Place::Ready { run_at: *run_at, held_for: None };
    }
    reserved.len()
}

async fn cancel(store: &dyn Store, model: &mut Reference, id: JobId, reached: &mut Reached) -> Outcome<()> {
    let said = store.cancel(at(model.now), id, "model".to_owned()).await.unwrap();
    let known = model.jobs.get_mut(&id).unwrap();
    let forgotten = known.is_forgotten();
    let (expected, name) = match &mut known.place {
        Place::Ended if forgotten => (None, None),
        Place::Ended => (Some(true), None),
        Place::Leased { cancel, .. } => {
            *cancel = true;
            (Some(false), Some("cancel asked"))
        }
        Place::Dead { .. } => (Some(true), Some("cancelled dead")),
        Place::Ready { .. } => (Some(true), Some("cancelled waiting")),
    };
    prop_assert_eq!(said, expected);
    reached.extend(name);
    if matches!(known.place, Place::Dead { .. } | Place::Ready { .. }) {
        known.place = Place::Ended;
        model.cancelled[known.lane] += 1;
        model.tell(id, "job_cancelled");
    }
    Ok(())
}

async fn redrive(store: &dyn Store, model: &mut Reference, id: JobId, reached: &mut Reached) -> Outcome<()> {
    let now = model.now;
    let said = store.redrive(at(now), vec![id], "redriven").await.unwrap()[0];
    let known = &model.jobs[&id];
    if !known.is_dead() {
        prop_assert_eq!(said, Redriven::NotDead);
        reached.push("not dead");
        return Ok(());
    }
    if let Some(of) = known.key.and_then(|key| model.holder(known.lane, key)) {
        prop_assert_eq!(said, Redriven::Duplicate { of });
        reached.push("redrive refused: duplicate");
        return Ok(());
    }
    prop_assert_eq!(said, Redriven::Ready);
    let known = model.jobs.get_mut(&id).unwrap();
    known.place = Place::Ready { run_at: now, held_for: None };
    (known.attempts, known.retries, known.crashes) = (0, 0, 0);
    (known.hint, known.delay) = (None, None);
    known.redrives += 1;
    // A deadline that has passed is renewed.
    if known.deadline.is_some_and(|deadline| deadline <= now) {
        known.deadline = known.allowed.map(|allowed| now + allowed);
    }
    model.tell(id, "redriven");
    reached.push("redriven");
    Ok(())
}

async fn run_now(store: &dyn Store, model: &mut Reference, id: JobId, reached: &mut Reached) -> Outcome<()> {
    let said = store.run_now(at(model.now), id).await.unwrap();
    let known = model.jobs.get_mut(&id).unwrap();
    let forgotten = known.is_forgotten();
    let expected = match &mut known.place {
        Place::Ready { run_at, .. } => {
            *run_at = model.now;
            RunNow::Due
        }
        Place::Leased { .. } => RunNow::Running,
        Place::Dead { .. } => RunNow::Dead,
        Place::Ended if forgotten => RunNow::Unknown,
        Place::Ended => RunNow::Ended,
    };
    prop_assert_eq!(said, expected);
    if said == RunNow::Due {
        model.tell(id, "manual_retry");
        reached.push("hurried");
    }
    Ok(())
}

async fn prune(
    store: &dyn Store,
    model: &mut Reference,
    before: i64,
    limit: u32,
    reached: &mut Reached,
) -> Outcome<()> {
    let gone = store.prune(at(model.now), at(before), at(before), limit).await.unwrap();
    let mut old: Vec<_> = model
        .jobs
        .iter()
        .filter_map(|(id, known)| match known.place {
            Place::Dead { died_at, .. } if died_at < before => Some((died_at, *id)),
            _ => None,
        })
        .collect();
    old.sort_unstable();
    old.truncate(limit as usize);
    for (_, id) in &old {
        model.jobs.get_mut(id).unwrap().place = Place::Ended;
        model.tell(*id, "letter_expired");
        reached.push("letters purged");
    }
    let events = model.prune(before, limit as usize);
    prop_assert_eq!((gone.events, gone.letters), (events, old.len() as u64));
    if events > 0 {
        reached.push("events pruned");
    }
    Ok(())
}
