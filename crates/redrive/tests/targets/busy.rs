//! A limit under traffic: workers that lease here and settle there, engines that are dropped in the middle of it.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redrive::engine::Engine;
use redrive_store::{LeaseToken, Postgres, PostgresOptions, Store};

use super::support::{Elsewhere, Has, call, config, run};

const LIMIT: usize = 4;
const ENGINES: usize = 3;
const WORKERS: usize = 12;
const JOBS: usize = 300;

/// The engines that live, each with a pool of its own.
struct Doors {
    url: String,
    schema: String,
    open: Mutex<Vec<Arc<Elsewhere>>>,
    turn: AtomicUsize,
}

impl Doors {
    async fn engine(&self) -> Arc<Elsewhere> {
        let options =
            PostgresOptions { create: true, schema: Some(self.schema.clone()), ..Default::default() };
        let store: Arc<dyn Store> = Arc::new(Postgres::open(&self.url, options).await.unwrap());
        let settings = config(&format!("[targets.\"key:a.example\"]\nconcurrency = {LIMIT}\n"));
        let engine = Engine::builder(store).config(&settings).build().unwrap();
        Arc::new(Elsewhere::new(&engine).await)
    }

    /// Now this one, now that.
    fn next(&self) -> Arc<Elsewhere> {
        let open = self.open.lock().unwrap();
        Arc::clone(&open[self.turn.fetch_add(1, Ordering::Relaxed) % open.len()])
    }
}

/// What workers do at the moment.
#[derive(Default)]
struct Work {
    running: Mutex<HashSet<LeaseToken>>,
    most: AtomicUsize,
    done: AtomicUsize,
    over: AtomicBool,
}

/// One worker: it takes a job from one engine and ends it through another, which may be dropped before it has told anybody.
async fn work(doors: &Doors, work: &Work, number: usize) {
    let mut round = number;
    while !work.over.load(Ordering::SeqCst) {
        let door = doors.next();
        for has in door.take(1).await {
            let token = has.leased.token;
            {
                let mut running = work.running.lock().unwrap();
                running.insert(token);
                work.most.fetch_max(running.len(), Ordering::SeqCst);
            }
            round += 1;
            tokio::time::sleep(Duration::from_millis(10 + 20 * u64::try_from(round % 4).unwrap())).await;
            if round.is_multiple_of(5) {
                let door = doors.next();
                let held = door.remote.read(&has.lease).unwrap();
                door.remote.extend(&[held]).await.unwrap();
            }
            work.running.lock().unwrap().remove(&token);
            if round.is_multiple_of(7) {
                // Nobody hears the answer: whoever asked goes away at some point of it, and asks another one.
                let again = Has { leased: has.leased.clone(), lease: has.lease.clone() };
                let patience = Duration::from_micros(u64::try_from(round % 13).unwrap() * 400);
                let _ = tokio::time::timeout(patience, doors.next().end(vec![again], true)).await;
            }
            doors.next().end(vec![has], true).await;
            work.done.fetch_add(1, Ordering::SeqCst);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// R-P15, reliability rows 2 and 29: whoever lets work through and whoever hears of its end, never more runs than may; and no place is lost
/// for long, so that everything ends although engines go again and again.
#[test]
fn a_busy_limit_is_neither_passed_nor_lost() {
    let Some(shared) = redrive_testing::shared() else { return };
    run(async {
        let (url, schema) = (shared.url().to_owned(), shared.schema());
        let doors = Arc::new(Doors { url, schema, open: Mutex::default(), turn: AtomicUsize::new(0) });
        for _ in 0..ENGINES {
            let door = doors.engine().await;
            doors.open.lock().unwrap().push(door);
        }
        let first = doors.next();
        let jobs = (0..JOBS).map(|_| call("a.example")).collect();
        first.engine.store().enqueue(first.engine.now(), jobs).await.unwrap();
        let busy = Arc::new(Work::default());
        let mut crew = tokio::task::JoinSet::new();
        for number in 0..WORKERS {
            let (doors, busy) = (Arc::clone(&doors), Arc::clone(&busy));
            crew.spawn(async move { work(&doors, &busy, number).await });
        }
        let began = Instant::now();
        let mut replaced = 0;
        while busy.done.load(Ordering::SeqCst) < JOBS {
            assert!(
                began.elapsed() < Duration::from_secs(100),
                "{} of {JOBS} are done",
                busy.done.load(Ordering::SeqCst)
            );
            tokio::time::sleep(Duration::from_millis(150)).await;
            let door = doors.engine().await;
            doors.open.lock().unwrap()[replaced % ENGINES] = door;
            replaced += 1;
        }
        busy.over.store(true, Ordering::SeqCst);
        while let Some(ended) = crew.join_next().await {
            ended.unwrap();
        }
        println!(
            "{} ran at most, {replaced} engines replaced, in {:?}",
            busy.most.load(Ordering::SeqCst),
            began.elapsed()
        );
        let most = busy.most.load(Ordering::SeqCst);
        assert!((2..=LIMIT).contains(&most), "{most} ran at a time, and {LIMIT} may");
        // An end that an engine did not live to tell is found by whoever comes next, within seconds.
        let ended = Instant::now();
        loop {
            let door = doors.next();
            door.engine.store().enqueue(door.engine.now(), vec![call("a.example")]).await.unwrap();
            let had = door.take(1).await;
            door.end(had, true).await;
            let seen = door.engine.target("key:a.example").await.unwrap().unwrap();
            if seen.standing.running == 0 {
                break;
            }
            assert!(ended.elapsed() < Duration::from_secs(30), "a place is left over: {seen:?}");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    });
}
