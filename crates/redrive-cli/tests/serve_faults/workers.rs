//! Workers over HTTP that ask whichever server answers, and what they call: a far side that counts how many calls it has at a time.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::pair::Doors;

/// What the workers call.
#[derive(Default)]
pub(crate) struct FarSide {
    pub(crate) down: AtomicBool,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    now: usize,
    most: usize,
    began: Vec<SystemTime>,
    done: HashMap<String, usize>,
}

impl FarSide {
    /// One call, which takes so long: its status.
    fn call(&self, key: &str, takes: Duration) -> u16 {
        {
            let mut seen = self.seen.lock().unwrap();
            seen.now += 1;
            seen.most = seen.most.max(seen.now);
            seen.began.push(SystemTime::now());
        }
        std::thread::sleep(takes);
        let mut seen = self.seen.lock().unwrap();
        seen.now -= 1;
        if self.down.load(Ordering::SeqCst) {
            return 503;
        }
        *seen.done.entry(key.to_owned()).or_default() += 1;
        200
    }

    pub(crate) fn most_at_once(&self) -> usize {
        self.seen.lock().unwrap().most
    }

    /// When calls began, in their order.
    pub(crate) fn began(&self) -> Vec<SystemTime> {
        self.seen.lock().unwrap().began.clone()
    }

    /// How many things were done, and how many of them more than once.
    pub(crate) fn done(&self) -> (usize, usize) {
        let seen = self.seen.lock().unwrap();
        (seen.done.len(), seen.done.values().filter(|times| **times > 1).count())
    }
}

/// Workers, each with one job at a time; they end with the test.
pub(crate) struct Crew {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Crew {
    pub(crate) fn work(
        doors: &Doors,
        far: &Arc<FarSide>,
        queue: &str,
        count: usize,
        takes: Duration,
    ) -> Crew {
        let stop = Arc::new(AtomicBool::new(false));
        let worker = |_| {
            let (doors, far, stop, queue) =
                (doors.clone(), Arc::clone(far), Arc::clone(&stop), queue.to_owned());
            std::thread::spawn(move || {
                while !stop.load(Ordering::SeqCst) {
                    for item in leased(&doors, &queue) {
                        let key = item["idempotency_key"].as_str().unwrap_or_default();
                        let status = far.call(key, takes);
                        settle(&doors, &item["lease"], status, &stop);
                    }
                }
            })
        };
        let threads = (0..count).map(worker).collect();
        Crew { stop, threads }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "a worker broke");
        }
    }
}

/// A job, if there is one in time and the server lives.
fn leased(doors: &Doors, queue: &str) -> Vec<Value> {
    let asks = json!({ "max": 1, "lease_ms": 15_000, "wait_ms": 1_000 });
    match doors.ask(&format!("/v1/queues/{queue}/lease"), &asks) {
        Some((200, answer)) => answer["items"].as_array().cloned().unwrap_or_default(),
        Some((503, _)) | None => {
            std::thread::sleep(Duration::from_millis(20));
            Vec::new()
        }
        Some((status, answer)) => panic!("{status} {answer}"),
    }
}

/// Tells how it ended until somebody has heard it. Told again, it may be over already.
fn settle(doors: &Doors, lease: &Value, status: u16, stop: &AtomicBool) {
    let item = match status {
        200 => json!({ "lease": lease, "outcome": "succeeded" }),
        _ => {
            json!({ "lease": lease, "outcome": "failed", "error": { "type": "Unavailable", "http_status": status } })
        }
    };
    while !stop.load(Ordering::SeqCst) {
        match doors.ask("/v1/leases/settle", &json!({ "items": [item] })) {
            Some((200, answer)) => {
                let told = answer["items"][0]["status"].as_str().unwrap_or_default();
                assert!(matches!(told, "settled" | "stale"), "{answer}");
                return;
            }
            Some((503, _)) | None => std::thread::sleep(Duration::from_millis(20)),
            Some((status, answer)) => panic!("{status} {answer}"),
        }
    }
}
