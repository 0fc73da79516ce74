//! A server that pushes is killed before the service has answered, and after it has but before anybody knows.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::serve_home::{Home, Serving};
use crate::{until, until_within};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const IN_A_BATCH: usize = 10;
const AT_ONCE: usize = 4;

/// A message as it came.
struct Came {
    id: String,
    key: Option<String>,
    attempt: Option<u64>,
    body: Value,
}

/// What a service has done and what it has seen. It does each key once.
#[derive(Default)]
struct Seen {
    calls: Vec<Came>,
    effects: BTreeMap<String, usize>,
    /// How many calls wait for an answer.
    waiting: usize,
    /// While it is set nobody is answered, but for so many of each kind once it is told.
    holds: bool,
    may_answer: BTreeMap<&'static str, usize>,
    answered: usize,
    /// Items that it lists as failed, once each.
    fails: BTreeSet<u64>,
}

#[derive(Default)]
struct Service {
    seen: Mutex<Seen>,
    changed: Condvar,
}

impl Service {
    fn start() -> (Arc<Service>, String) {
        let service = Arc::new(Service::default());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let one = Arc::clone(&service);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, service) = (stream.unwrap(), Arc::clone(&one));
                // A client that is killed breaks off: that is its right.
                std::thread::spawn(move || drop(service.hear(stream)));
            }
        });
        (service, address)
    }

    fn hear(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut headers = BTreeMap::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if line.trim().is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(": ") {
                headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
            }
        }
        let mut body = vec![0; headers["content-length"].parse().unwrap()];
        reader.read_exact(&mut body)?;
        let body: Value = serde_json::from_slice(&body).unwrap();
        let (kind, said) = self.takes_in(&headers, body);
        let mut seen = self.seen.lock().unwrap();
        seen.waiting += 1;
        self.changed.notify_all();
        while seen.holds {
            let may = seen.may_answer.entry(kind).or_default();
            if *may > 0 {
                *may -= 1;
                break;
            }
            seen = self.changed.wait(seen).unwrap();
        }
        seen.waiting -= 1;
        drop(seen);
        write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{said}",
            said.len()
        )?;
        stream.flush()?;
        self.seen.lock().unwrap().answered += 1;
        self.changed.notify_all();
        Ok(())
    }

    /// Does what is asked for and was not done before; what it will say.
    fn takes_in(&self, headers: &BTreeMap<String, String>, body: Value) -> (&'static str, String) {
        let mut seen = self.seen.lock().unwrap();
        let (id, key) = (headers["webhook-id"].clone(), headers.get("idempotency-key").cloned());
        let attempt = headers.get("redrive-attempt").map(|attempt| attempt.parse().unwrap());
        let told = match body["items"].as_array() {
            None => {
                *seen.effects.entry(format!("{id} {body}")).or_default() +=
                    usize::from(!seen.calls.iter().any(|call| call.id == id));
                ("one", String::new())
            }
            Some(items) => {
                let mut failed = Vec::new();
                for item in items {
                    if seen.fails.remove(&item["payload"].as_u64().unwrap()) {
                        failed.push(json!({ "itemIdentifier": item["itemIdentifier"] }));
                        continue;
                    }
                    let effect = format!("{} {}", item["idempotency_key"], item["payload"]);
                    seen.effects.entry(effect).or_insert(1);
                }
                ("batch", json!({ "batchItemFailures": failed }).to_string())
            }
        };
        seen.calls.push(Came { id, key, attempt, body });
        told
    }

    fn hold(&self) {
        self.seen.lock().unwrap().holds = true;
    }

    /// Answers one of each kind.
    fn answers_one_of_each(&self) {
        let mut seen = self.seen.lock().unwrap();
        let before = seen.answered;
        seen.may_answer = BTreeMap::from([("one", 1), ("batch", 1)]);
        self.changed.notify_all();
        while seen.answered < before + 2 {
            seen = self.changed.wait(seen).unwrap();
        }
    }

    /// Nobody waits any longer; those who did have gone.
    fn lets_go(&self) {
        self.seen.lock().unwrap().holds = false;
        self.changed.notify_all();
    }
}

/// R-D2, R-P15, issue 8: whether the server dies before the answer of a service or behind it, nothing is lost: the message comes again under
/// the same id, so that a service that knows ids does everything once; and of a batch whose answer was heard only what failed comes again.
#[test]
fn killed_around_the_answer_nothing_is_lost_or_done_twice() {
    let (service, address) = Service::start();
    let home = Home::new();
    home.configure(&format!(
        "[[push]]\nname = \"one\"\nqueue = \"single\"\nurl = \"http://{address}/one\"\nsecret_env = [\"HOOK\"]\ntimeout = \"5s\"\nconcurrency = {AT_ONCE}\n\
         [[push]]\nname = \"many\"\nqueue = \"batches\"\nurl = \"http://{address}/many\"\nsecret_env = [\"HOOK\"]\ntimeout = \"5s\"\n\
         concurrency = 1\nbatch = {IN_A_BATCH}\nkinds = [\"part\"]\n"
    ));
    let serve = || {
        let mut command = home.command(&["serve", "--listen", "127.0.0.1:0", "--concurrency", "0"]);
        command.env("HOOK", SECRET);
        Serving::started(command)
    };
    let add = |server: &Serving, round: usize| {
        let single =
            (0..AT_ONCE).map(|n| json!({ "queue": "single", "kind": "order", "payload": round * 100 + n }));
        let part = (0..IN_A_BATCH)
            .map(|n| json!({ "queue": "batches", "kind": "part", "payload": round * 100 + n }));
        let body = json!({ "jobs": single.chain(part).collect::<Vec<Value>>() }).to_string();
        let (status, said) = server.ask("POST", "/v1/jobs", &body).unwrap();
        assert_eq!(status, 201, "{said}");
    };
    let rounds = 2;
    for round in 0..rounds {
        let mut server = serve();
        service.hold();
        // Of each batch two are refused the first time: before the kill, so that nobody hears of it, and again behind it.
        let fails = |n: usize| u64::try_from(round * 100 + n).unwrap();
        service.seen.lock().unwrap().fails.extend([fails(3), fails(7)]);
        add(&server, round);
        // A batch may be filled in two calls; then the second waits behind the first.
        until("nobody calls", || service.seen.lock().unwrap().waiting > AT_ONCE);
        // The answer is on its way, and nobody will ever read it.
        server.signal("STOP");
        service.answers_one_of_each();
        server.signal("KILL");
        assert_eq!(server.ends(), None, "it was killed");
        service.lets_go();
        service.seen.lock().unwrap().fails.extend([fails(3), fails(7)]);
    }
    let server = serve();
    let all = u64::try_from(rounds * (AT_ONCE + IN_A_BATCH)).unwrap();
    let stands = || home.json("status");
    until_within(Duration::from_mins(3), "not everything ends", || {
        let status = stands();
        let queues = status["queues"].as_array().unwrap();
        queues.iter().filter_map(|queue| queue["succeeded"].as_u64()).sum::<u64>() == all
    });
    assert_eq!(stands()["dead_letter_queue"], 0, "{}", stands());
    drop(server);
    let seen = service.seen.lock().unwrap();
    assert_eq!(seen.effects.len() as u64, all, "each thing has one key: {:?}", seen.effects);
    assert!(seen.effects.values().all(|times| *times == 1), "{:?}", seen.effects);
    singles_keep_their_id(&seen.calls, rounds);
    batches_repeat_what_was_not_heard(&seen.calls, rounds);
    assert_eq!(home.redrive("store check").0, Some(0));
}

/// Each came twice, under one id: once to the server that died, and once more.
fn singles_keep_their_id(calls: &[Came], rounds: usize) {
    let mut by_thing: BTreeMap<u64, Vec<&Came>> = BTreeMap::new();
    for call in calls.iter().filter(|call| call.body.is_u64()) {
        by_thing.entry(call.body.as_u64().unwrap()).or_default().push(call);
    }
    assert_eq!(by_thing.len(), rounds * AT_ONCE);
    for (thing, calls) in by_thing {
        let ids: BTreeSet<&str> = calls.iter().map(|call| call.id.as_str()).collect();
        let attempts: Vec<Option<u64>> = calls.iter().map(|call| call.attempt).collect();
        assert_eq!((ids.len(), attempts), (1, vec![Some(1), Some(2)]), "{thing}");
        assert!(calls.iter().all(|call| call.key.as_deref() == Some(call.id.as_str())), "{thing}");
    }
}

/// What was in the batch whose answer nobody heard comes again, failed or not; of the next one only what failed.
fn batches_repeat_what_was_not_heard(calls: &[Came], rounds: usize) {
    let mut by_thing: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut by_members: BTreeMap<Vec<&str>, BTreeSet<&str>> = BTreeMap::new();
    for call in calls {
        let Some(items) = call.body["items"].as_array() else { continue };
        let mut members: Vec<&str> =
            items.iter().filter_map(|item| item["itemIdentifier"].as_str()).collect();
        members.sort_unstable();
        by_members.entry(members).or_default().insert(&call.id);
        for item in items {
            by_thing
                .entry(item["payload"].as_u64().unwrap())
                .or_default()
                .push(item["attempt"].as_u64().unwrap());
        }
    }
    assert_eq!(by_thing.len(), rounds * IN_A_BATCH);
    for (thing, attempts) in &by_thing {
        let fails = matches!(thing % 100, 3 | 7);
        // One that had not been in the first call, for its batch was not full, was never refused before the kill.
        let most: &[u64] = if fails { &[1, 2, 3] } else { &[1, 2] };
        assert!(most.starts_with(attempts) && attempts.len() + 1 >= most.len(), "{thing}: {attempts:?}");
    }
    let again = by_thing.values().filter(|attempts| attempts.len() > 1).count();
    assert!(again > rounds, "whole batches came again: {by_thing:?}");
    let ids: Vec<&BTreeSet<&str>> = by_members.values().collect();
    assert!(
        ids.iter().all(|ids| ids.len() == 1),
        "the same jobs together are the same message: {by_members:?}"
    );
    let different: BTreeSet<&str> = ids.iter().flat_map(|ids| ids.iter().copied()).collect();
    assert_eq!(different.len(), by_members.len(), "others are another: {by_members:?}");
}
