//! Names of queues that somebody chose to do harm: very many of them, and very odd ones.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::line::Line;
use crate::serve_home::{Home, Serving};

/// How many names there are; a build that is tested is slow, and so are the machines that do it.
const NAMES: usize = 100_000;

/// What it has in memory, in mebibytes.
fn resident(serving: &Serving) -> usize {
    let text = std::fs::read_to_string(format!("/proc/{}/status", serving.child.id())).unwrap();
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() / 1024
}

/// The values of the label `queue` by family, and how many samples there are.
fn labels(metrics: &str) -> (BTreeMap<String, BTreeSet<String>>, usize) {
    let mut by_family: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let samples = metrics.lines().filter(|line| !line.starts_with('#'));
    let count = samples.clone().count();
    for line in samples {
        let Some((family, rest)) = line.split_once('{') else { continue };
        if let Some(value) = rest.split("queue=\"").nth(1) {
            let value = value.split('"').next().unwrap().to_owned();
            by_family.entry(family.to_owned()).or_default().insert(value);
        }
    }
    (by_family, count)
}

/// Reliability row 71, R-C4: a hundred thousand queues are no more samples than a few are, what is not named stands under `other` and is counted there, and asking for
/// work of ever new queues leaves nothing behind.
#[test]
fn many_names_fill_neither_metrics_nor_memory() {
    let home = Home::new();
    let serving = home.serve("--concurrency 0");
    let mut line = Line::open(&serving.address).unwrap();
    for batch in 0..NAMES / 500 {
        let job = |n: usize| json!({ "kind": "k", "queue": format!("queue-{:06}", batch * 500 + n) });
        let jobs: Vec<Value> = (0..500).map(job).collect();
        let (status, said) = line.ask("POST", "/v1/jobs", &json!({ "jobs": jobs }).to_string()).unwrap();
        assert!(status == 201, "{status} {said}");
    }
    let before = resident(&serving);
    for n in 0..20_000 {
        let path = format!("/v1/queues/nobody-{n}/lease");
        assert_eq!(line.ask("POST", &path, "{}").unwrap(), (200, r#"{"items":[]}"#.to_owned()));
    }
    let asked = resident(&serving);
    assert!(asked < before + 32, "{before} MiB became {asked} MiB");
    let (mut samples, mut bytes) = (0, 0);
    for _ in 0..3 {
        let (status, metrics) = serving.get("/metrics");
        assert_eq!(status, 200);
        let (by_family, count) = labels(&metrics);
        for (family, values) in &by_family {
            assert!(values.len() <= 51, "{family} has {} queues", values.len());
        }
        assert!(by_family.values().any(|values| values.contains("other")), "{:?}", by_family.keys());
        (samples, bytes) = (count, metrics.len());
        let ready = metrics
            .lines()
            .filter(|line| line.starts_with("redrive_jobs{") && line.contains("state=\"ready\""));
        let ready: f64 = ready.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum();
        assert!((ready - 100_000.0).abs() < 0.5, "every job is counted once: {ready}");
    }
    let after = resident(&serving);
    println!("{samples} samples of {bytes} bytes; {before} MiB, then {after} MiB");
    assert!(samples < 5_000, "{samples}");
    assert!(after < 256, "{before} MiB became {after} MiB");
    // All of them are told, a page at a time.
    let (mut cursor, mut told) = (String::new(), 0);
    loop {
        let (status, page) = serving.get(&format!("/v1/queues?cursor={cursor}"));
        let page: Value = serde_json::from_str(&page).unwrap();
        let items = page["items"].as_array().unwrap();
        assert!(status == 200 && items.len() <= 1_000, "{status}");
        told += items.len();
        let Some(next) = page["next"].as_str().filter(|_| told < 5_000) else { break };
        assert!(next > cursor.as_str());
        next.clone_into(&mut cursor);
    }
    assert_eq!(told, 5_000);
}

/// The queue of our own messages.
const OURS: &str = "redrive-alerts";

/// Percent-encoded, so that any name can stand in a path.
fn in_path(name: &str) -> String {
    name.bytes().flat_map(|byte| format!("%{byte:02X}").into_bytes()).map(char::from).collect()
}

/// Reliability row 72: what cannot be printed or seen, is empty, too long or ours is no name of a queue, wherever it is named; everything else is itself and nothing
/// else: its twin in another script, its neighbour in a path, a pattern, a statement.
#[test]
fn odd_names_are_refused_or_are_themselves() {
    let home = Home::new();
    let serving = home.serve("--concurrency 0");
    let post = |path: &str, body: Value| {
        let (status, said) = serving.ask("POST", path, &body.to_string()).unwrap();
        (status, serde_json::from_str::<Value>(&said).unwrap_or_default())
    };
    let long = "q".repeat(256);
    let bad = ["", "a\0b", "a\nb", "a\rb", "\u{1b}[2J", "a\u{7f}", "a\u{85}b", long.as_str(), OURS];
    let unseen = ["orders ", " orders", "orders\u{200b}", "\u{202e}sredro", "or\u{ad}ders", "\u{feff}orders"];
    for bad in bad.into_iter().chain(unseen) {
        let (status, problem) = post("/v1/jobs", json!({ "kind": "k", "queue": bad }));
        assert!((400..500).contains(&status) && problem["field"] == "queue", "{bad:?}: {status} {problem}");
        let all = json!({ "jobs": [{ "kind": "k" }, { "kind": "k", "queue": bad }] });
        let (status, problem) = post("/v1/jobs", all);
        assert!((400..500).contains(&status), "{bad:?}: {status} {problem}");
        // Who operates may pause what is ours.
        for act in ["lease", "pause"].into_iter().filter(|act| *act == "lease" || bad != OURS) {
            if unseen.contains(&bad) {
                // What was made here by other ways can be had.
                continue;
            }
            let (status, answer) = post(&format!("/v1/queues/{}/{act}", in_path(bad)), json!({}));
            let nothing = status == 200 && answer["items"] == json!([]);
            assert!((400..500).contains(&status) || nothing, "{act} {bad:?}: {status} {answer}");
        }
    }
    assert_eq!(home.json("status")["queues"], json!([]), "nothing of it was done");
    let odd = [
        "orders",
        "оrders",
        "ORDERS",
        "..",
        "../orders",
        "a/b",
        "a%2Fb",
        "*",
        "orders*",
        "?",
        "%",
        "_",
        "'; DROP TABLE job; --",
        "\"",
        "\\",
        "{queue}",
        "null",
        "0",
        "-1",
        "queue:orders",
        "注文",
        "other",
        "e\u{301}",
        "é",
        "select",
        ".fifo",
    ];
    for (n, name) in odd.into_iter().enumerate() {
        let (status, said) = post("/v1/jobs", json!({ "kind": "k", "queue": name, "payload": n }));
        assert_eq!(status, 201, "{name:?}: {said}");
    }
    let (_, metrics) = serving.get("/metrics");
    assert!(
        metrics
            .lines()
            .all(|line| line.starts_with('#') || line.rsplit(' ').next().unwrap().parse::<f64>().is_ok()),
        "{metrics}"
    );
    for (n, name) in odd.into_iter().enumerate() {
        let (status, handed) = post(&format!("/v1/queues/{}/lease", in_path(name)), json!({ "max": 10 }));
        let items = handed["items"].as_array().cloned().unwrap_or_default();
        assert_eq!((status, items.len()), (200, 1), "{name:?}: {handed}");
        assert_eq!((&items[0]["payload"], &items[0]["queue"]), (&json!(n), &json!(name)));
    }
    // Who may have the queue orders has it, and none of its twins.
    let (code, token, said) = home.redrive("token create only-orders --scope work,produce --queue orders");
    assert_eq!(code, Some(0), "{said}");
    let auth = format!("Bearer {}", token.trim());
    for name in odd {
        let body = json!({ "kind": "k", "queue": name }).to_string();
        let headers = [("Authorization", auth.as_str())];
        let answer =
            crate::serve_home::ask(&serving.address, &serving.address, "POST", "/v1/jobs", &headers, &body);
        let wanted = if name == "orders" { 201 } else { 403 };
        assert_eq!(answer.as_ref().map(|(status, _)| *status), Some(wanted), "{name:?}: {answer:?}");
    }
    assert_eq!(home.redrive("store check").0, Some(0));
}
