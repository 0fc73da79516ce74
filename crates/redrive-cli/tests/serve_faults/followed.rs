//! Followers of the events that go from one server to the other, while both write and are killed.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::pair::{Doors, Pair};
use crate::serve_home::{PATIENCE, ask};
use crate::workers::{Crew, FarSide};
use crate::{until, until_within};

/// One who follows, and comes back at the other server behind what it has seen.
struct Follower {
    addresses: [String; 2],
    /// How many events it hears before it goes elsewhere.
    at_a_time: usize,
    filter: &'static str,
    seen: Mutex<Vec<(i64, Value)>>,
    came_back: AtomicU64,
}

impl Follower {
    fn new(doors: &Doors, at_a_time: usize, filter: &'static str) -> Arc<Follower> {
        let addresses = (*doors.addresses).clone();
        Arc::new(Follower {
            addresses,
            at_a_time,
            filter,
            seen: Mutex::default(),
            came_back: AtomicU64::new(0),
        })
    }

    fn run(&self, stop: &AtomicBool) {
        let mut turn = 0;
        while !stop.load(Ordering::SeqCst) {
            turn += 1;
            self.came_back.fetch_add(1, Ordering::Relaxed);
            if self.listen(&self.addresses[turn % 2], stop).is_none() {
                // It is down, or went away in the middle.
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }

    /// Hears a few and goes. What broke off in the middle was not heard.
    fn listen(&self, address: &str, stop: &AtomicBool) -> Option<()> {
        let mut stream = TcpStream::connect(address).ok()?;
        stream.set_read_timeout(Some(Duration::from_millis(500))).ok()?;
        let last = self.seen.lock().unwrap().last().map_or(0, |(seq, _)| *seq);
        let filter = self.filter;
        write!(stream, "GET /v1/events{filter} HTTP/1.1\r\nHost: {address}\r\nAccept: text/event-stream\r\nLast-Event-ID: {last}\r\n\r\n").ok()?;
        let mut reader = BufReader::new(stream);
        let (mut id, mut data, mut heard) = (None, None, 0);
        while heard < self.at_a_time && !stop.load(Ordering::SeqCst) {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 || !line.ends_with('\n') {
                return None;
            }
            let line = line.trim_end();
            if let Some(text) = line.strip_prefix("id: ") {
                id = text.parse::<i64>().ok();
            } else if let Some(text) = line.strip_prefix("data: ") {
                data = serde_json::from_str::<Value>(text).ok();
            } else if line.is_empty()
                && let (Some(id), Some(data)) = (id.take(), data.take())
            {
                self.seen.lock().unwrap().push((id, data));
                heard += 1;
            }
        }
        Some(())
    }

    fn heard(&self) -> Vec<i64> {
        self.seen.lock().unwrap().iter().map(|(seq, _)| *seq).collect()
    }
}

/// Everything that is in the store, the oldest first, by pages.
fn everything(pair: &Pair, filter: &str) -> Vec<i64> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    let joint = if filter.is_empty() { '?' } else { '&' };
    loop {
        let more = if cursor.is_empty() { String::new() } else { format!("&cursor={cursor}") };
        let (status, page) =
            pair.server(0).get(&format!("/v1/events{filter}{joint}order=oldest&limit=500{more}"));
        assert_eq!(status, 200, "{page}");
        let page: Value = serde_json::from_str(&page).unwrap();
        all.extend(page["items"].as_array().unwrap().iter().map(|event| event["seq"].as_i64().unwrap()));
        let Some(next) = page["next"].as_str() else { return all };
        next.clone_into(&mut cursor);
    }
}

/// R-E3, issue 8, reliability row 2: whoever comes back with `Last-Event-ID`, over and over and at the other server, hears every event once and in
/// order, although both servers write at the same time, commits come late, and servers are killed.
#[test]
fn a_follower_of_two_servers_hears_everything_once() {
    let Some(mut pair) = Pair::start("", "--concurrency 0") else { return };
    let followers = [
        Follower::new(&pair.doors, 1, ""),
        Follower::new(&pair.doors, 7, ""),
        Follower::new(&pair.doors, 150, ""),
        Follower::new(&pair.doors, 3, "?type=job_enqueued"),
    ];
    let stop = Arc::new(AtomicBool::new(false));
    let (far, written) = (Arc::new(FarSide::default()), Arc::new(AtomicBool::new(false)));
    let listening = followers.each_ref().map(|follower| {
        let (follower, stop) = (Arc::clone(follower), Arc::clone(&stop));
        std::thread::spawn(move || follower.run(&stop))
    });
    // Both servers write: jobs come in, one by one and many at a time, and are done.
    let writers: Vec<_> = (0..6)
        .map(|number| {
            let (doors, written) = (pair.doors.clone(), Arc::clone(&written));
            std::thread::spawn(move || {
                let mut added = 0_u64;
                while !written.load(Ordering::SeqCst) {
                    let queue = if number % 2 == 0 { "loud" } else { "quiet" };
                    let count = if number < 4 { 1 } else { 8 };
                    let jobs: Vec<Value> =
                        (0..count).map(|n| json!({ "kind": "k", "queue": queue, "payload": n })).collect();
                    let address = &doors.addresses[number % 2];
                    let said =
                        ask(address, address, "POST", "/v1/jobs", &[], &json!({ "jobs": jobs }).to_string());
                    added += said.map_or(0, |(status, _)| if status == 201 { count } else { 0 });
                    std::thread::sleep(Duration::from_millis(120));
                }
                added
            })
        })
        .collect();
    let crew = Crew::work(&pair.doors, &far, "loud", 4, Duration::ZERO);
    for kill in 0..5 {
        std::thread::sleep(Duration::from_millis(1_200));
        pair.kill(kill % 2);
    }
    std::thread::sleep(Duration::from_millis(800));
    written.store(true, Ordering::SeqCst);
    let added: u64 = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
    drop(crew);
    // Nobody adds anything any more; what a killed server had leased may still lapse.
    let newest = || {
        let (_, page) = pair.server(0).get("/v1/events?limit=1");
        let page: Value = serde_json::from_str(&page).unwrap();
        page["items"][0]["seq"].as_i64()
    };
    until_within(2 * PATIENCE, "somebody hears no more", || {
        let last = newest();
        followers[..3].iter().all(|follower| follower.heard().last().copied() >= last)
    });
    std::thread::sleep(Duration::from_millis(300));
    let (all, some) = (everything(&pair, ""), everything(&pair, "?type=job_enqueued"));
    until("who listens to one type hears no more", || followers[3].heard().last() >= some.last());
    stop.store(true, Ordering::SeqCst);
    for one in listening {
        one.join().unwrap();
    }
    println!("{added} jobs acknowledged, {} events", all.len());
    assert!(all.len() as u64 >= added && added > 200, "{added}");
    for (follower, wanted) in followers.iter().zip([&all, &all, &all, &some]) {
        let heard = follower.heard();
        let came_back = follower.came_back.load(Ordering::Relaxed);
        println!("{} at a time: {} heard, came back {came_back} times", follower.at_a_time, heard.len());
        assert!(came_back > 10, "{came_back}");
        if let Some(at) = heard.windows(2).position(|two| two[0] >= two[1]) {
            panic!("{:?} is out of order", &heard[at..at + 2]);
        }
        let heard: std::collections::BTreeSet<i64> = heard.into_iter().collect();
        let missed: Vec<&i64> = wanted.iter().filter(|seq| !heard.contains(seq)).take(5).collect();
        assert!(missed.is_empty(), "{} at a time missed {missed:?}", follower.at_a_time);
    }
}
