//! What somebody sees who looks at a system for the first time, at night: that what is said is true (R-C1, R-C3).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod serve_home;

use serde_json::Value;
use serve_home::{Home, PATIENCE, ask};

/// Acts and refusals in their order: type, act and target, and who it was.
fn acts(home: &Home) -> Vec<(String, String, String)> {
    let (_, out, _) = home.redrive("events --json --limit 1000");
    let events = out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let acts = events.filter(|event| event["event_type"].as_str().unwrap().starts_with("operator_"));
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let told = |event: Value| {
        let data = &event["data"];
        let act = format!("{} {}", word(&data["act"]), word(&data["target"]));
        (word(&event["event_type"]), act, word(&data["who"]))
    };
    acts.map(told).collect()
}

/// A job that no retry heals.
fn dies(home: &Home) {
    let status = home.command(&["enqueue", "--exec", "sh", "-c", "exit 65"]).status().unwrap();
    assert!(status.success());
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = std::time::Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// R-C1, R-D2: a server that runs no jobs is no worker, and nobody is told that all is well while jobs are due that nobody takes.
/// Workers that ask over HTTP are seen, before and while they work.
#[test]
fn what_nobody_takes_is_told() {
    let home = Home::new();
    let serving = home.serve("--concurrency 0");
    assert_eq!(home.redrive("enqueue --exec true").0, Some(0));
    assert_eq!(home.redrive("enqueue --queue q2 --kind greet --payload {}").0, Some(0));
    let (_, out, _) = home.redrive("status");
    assert!(!out.contains("All is well") && out.contains("no worker is present: 2"), "{out}");
    assert!(out.contains("Next: redrive doctor"), "{out}");
    let (_, out, _) = home.redrive("status --lang ja");
    assert!(
        !out.contains("問題はありません") && out.contains("実行されずに残っているジョブがあります"),
        "{out}"
    );
    assert_eq!(home.json("status")["workers"], 0);
    assert!(serving.get("/metrics").1.contains("\nredrive_workers 0\n"));

    // One who takes greet asks: then only the command waits for somebody.
    let body = r#"{"kinds":["greet"],"max":1,"lease_ms":60000}"#;
    let (status, leased) = serving.ask("POST", "/v1/queues/q2/lease", body).unwrap();
    assert!(status == 200 && leased.contains("greet"), "{leased}");
    assert_eq!(home.redrive("enqueue --queue q2 --kind greet --payload {}").0, Some(0));
    let json = home.json("status");
    assert_eq!(json["workers"], 1, "{json}");
    assert_eq!(json["nobody_takes"], serde_json::json!([{"queue": "default", "kind": "exec", "ready": 1}]));
    let (_, out, _) = home.redrive("status");
    assert!(
        out.contains("Nobody takes exec jobs of queue default; due: 1") && !out.contains("greet jobs"),
        "{out}"
    );
    assert!(out.contains("Next: redrive work"), "{out}");
    let (_, out, _) = home.redrive("doctor");
    assert!(out.contains("redrive work --queue default") && !out.contains("greet jobs"), "{out}");

    let worker = home.serve("--queue default");
    until("nobody does it", || home.json("status")["nobody_takes"].is_null());
    assert_eq!(home.json("status")["workers"], 2);
    assert!(home.redrive("status").1.contains("All is well"));
    drop((serving, worker));
}

/// R-D8, R-E1: an edit is told as an edit, and no attempt is told that never was.
#[test]
fn an_edit_is_no_attempt() {
    let home = Home::new();
    dies(&home);
    home.redrive("work --until-empty");
    let edit = home.redrive("dlq edit job_1 --payload {\"argv\":[\"true\"]} --yes --redrive");
    assert_eq!(edit.0, Some(0), "{edit:?}");
    home.redrive("work --until-empty");
    let (_, out, _) = home.redrive("explain job_1");
    assert!(out.contains("payload edited by ") && out.contains("; version 1 is kept"), "{out}");
    assert_eq!(out.matches("succeeded after").count(), 1, "{out}");
    let (_, out, _) = home.redrive("explain job_1 --lang ja");
    assert!(out.contains("がペイロードを編集しました") && out.matches("試行が成功").count() == 1, "{out}");
    // What is over has no payloads any more, and that is what is said.
    let (code, _, err) = home.redrive("dlq show job_1 --versions");
    assert!(code == Some(3) && err.contains("is over") && !err.contains("no job"), "{err}");
}

/// R-C3, issue 8 (safety): the record of acts holds what was done and by whom, apart from what was refused; what was only asked about
/// is not in it.
#[test]
fn the_record_tells_acts_from_refusals() {
    let home = Home::new();
    for _ in 0..2 {
        dies(&home);
    }
    home.redrive("enqueue --exec true");
    home.redrive("work --until-empty");
    // Nobody is there to ask.
    assert_eq!(home.redrive("retry job_1").0, Some(2));
    assert_eq!(acts(&home), []);
    assert_eq!(home.redrive("retry job_3").0, Some(3));
    assert_eq!(home.redrive("queue resume nowhere").0, Some(3));
    assert_eq!(home.redrive("dlq edit job_9999 --set a=1").0, Some(3));
    let schedule = |words: &[&str]| home.command(words).output().unwrap().status.code();
    assert_eq!(schedule(&["schedule", "add", "a", "0 7 * * *", "--exec", "true"]), Some(0));
    assert_eq!(schedule(&["schedule", "add", "a", "0 8 * * *", "--exec", "true"]), Some(2));
    assert_eq!(schedule(&["schedule", "add", "0 9 * * *", "--exec", "true"]), Some(0));
    assert_eq!(home.redrive("dlq discard job_1 job_2 --yes").0, Some(0));
    let acts = acts(&home);
    let told: Vec<(&str, &str)> = acts.iter().map(|(kind, act, _)| (kind.as_str(), act.as_str())).collect();
    let expected = [
        ("operator_refused", "job.retry job_3"),
        ("operator_act", "schedule.add a 0 7 * * *"),
        ("operator_refused", "schedule.add a 0 8 * * *"),
        ("operator_act", "schedule.add 0_9_x_x_x 0 9 * * *"),
        ("operator_act", "letter.discard 2 letters: job_1 job_2"),
    ];
    assert_eq!(told, expected);
    // Without a word in the environment it is whoever the process belongs to.
    let owner = std::process::Command::new("id").arg("-un").output().unwrap().stdout;
    let owner = format!("cli:{}", String::from_utf8(owner).unwrap().trim());
    assert!(acts.iter().all(|(_, _, who)| *who == owner), "{acts:?}");
}

/// R-C2, issue 8 (operations): what `serve` would refuse is found by `config check` and by `doctor`, and the code that it ends with is the
/// documented one; `config show` tells what holds for the server.
#[test]
fn what_serve_refuses_is_found_before() {
    let home = Home::new();
    let wrong = |toml: &str| {
        home.configure(toml);
        let check = home.redrive("config check");
        let doctor = home.redrive("doctor");
        (check, doctor)
    };
    let own = "[server]\nlisten = [\"127.0.0.1:7599\"]\n[[alerts.receivers]]\nname = \"self\"\nwebhook = \"http://localhost:7599/x\"\n";
    let (check, doctor) = wrong(own);
    assert!(check.0 == Some(1) && check.1.contains("this very server"), "{check:?}");
    assert!(doctor.0 == Some(1) && doctor.1.contains("this very server"), "{doctor:?}");
    assert_eq!(home.redrive("serve").0, Some(1));

    let (check, doctor) = wrong("[server]\ntls = { cert = \"nope.pem\", key = \"nope.key\" }\n");
    assert!(check.0 == Some(0) && check.1.contains("nope.pem"), "{check:?}");
    assert!(doctor.0 == Some(1) && doctor.1.contains("nope.pem"), "{doctor:?}");

    // What a server has and we have not may still be given to it.
    let push = "[[push]]\nname = \"crm\"\nqueue = \"crm\"\nurl = \"http://127.0.0.1:9/x\"\nsecret_env = [\"CRM_SECRET\"]\n";
    let (check, doctor) = wrong(push);
    assert!(check.0 == Some(0) && check.1.contains("CRM_SECRET"), "{check:?}");
    assert!(doctor.1.contains("CRM_SECRET") && doctor.0 != Some(0), "{doctor:?}");
    assert_eq!(home.redrive("serve").0, Some(1));

    let template = "[[alerts.receivers]]\nname = \"chat\"\ncommand = [\"true\"]\ntemplate = \"nofile.j2\"\n";
    let (check, _) = wrong(template);
    assert!(check.0 == Some(0) && check.1.contains("nofile.j2"), "{check:?}");

    home.configure("\n[server]\nconcurrency = \"many\"\n");
    let check = home.redrive("config check");
    assert!(check.0 == Some(1) && check.1.contains("3: server.concurrency"), "{check:?}");
    home.configure("[server]\nconcurrency = 3\n[[alerts.receivers]]\nname = \"chat\"\nwebhook = \"https://chat.example/T0P-S3CRET\"\n");
    let (_, out, _) = home.redrive("config show --plain");
    let said: Vec<Vec<&str>> = out.lines().map(|line| line.split_whitespace().collect()).collect();
    for words in [
        ["server.concurrency", "3"].as_slice(),
        &["server.max_connections", "10000"],
        &["alerts.receivers.chat", "webhook", "https://chat.example/..."],
    ] {
        assert!(said.iter().any(|line| line == words), "{words:?}: {out}");
    }
    assert!(!out.contains("T0P-S3CRET"), "{out}");
}

/// R-D5, R-C3: a dead call says whom it called and nothing more of the address; letters that somebody has acknowledged wait for nobody; what
/// happens to redrive itself is told with what it is about, and is no failed work.
#[test]
fn a_look_at_a_bad_night() {
    let home = Home::new();
    let refused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{refused}/hooks/T0P-S3CRET");
    home.configure("[policies.once]\nmax_retries = 0\n");
    assert_eq!(home.redrive(&format!("enqueue --http POST {url} --policy once")).0, Some(0));
    home.redrive("work --until-empty");
    for words in ["explain job_1", "dlq show job_1"] {
        let (_, out, _) = home.redrive(words);
        assert!(out.contains(&format!("POST {refused}")) && !out.contains("T0P-S3CRET"), "{words}: {out}");
    }
    let group = home.json("dlq groups")["items"][0]["fingerprint"].as_str().unwrap().to_owned();
    assert!(home.redrive("status").1.contains("Dead letters that wait for somebody: 1"));
    assert_eq!(home.redrive(&format!("dlq ack {group}")).0, Some(0));
    let (_, out, _) = home.redrive("status");
    assert!(out.contains("somebody has acknowledged, and no others: 1"), "{out}");
    let (_, out, _) = home.redrive("doctor");
    assert!(!out.contains("dead letters: 1"), "{out}");

    home.configure("[server]\nconcurrency = 2\n");
    let mut serving = home.serve("--queue default --queue mail");
    serving.says("jobs of default, mail alone");
    home.configure("[server]\nconcurrency = \"many\"\n");
    serving.signal("HUP");
    serving.says("concurrency");
    home.configure("[server]\nconcurrency = 2\nmax_connections = 77\n");
    serving.signal("HUP");
    until("it is not read again", || home.redrive("events").1.contains("configuration read again"));
    let (_, out, _) = home.redrive("events --plain");
    let refused = out.lines().find(|line| line.contains("configuration not obeyed")).unwrap();
    assert!(refused.contains("server.concurrency") && !refused.contains("failed "), "{refused}");
    let read = out.lines().find(|line| line.contains("configuration read again")).unwrap();
    assert!(read.contains("server.max_connections"), "{read}");
    assert_eq!(home.json("status")["failed_events"], 0);

    // What it could not finish in time is counted where somebody reads.
    let slow = home.command(&["enqueue", "--exec", "sleep", "30"]).status().unwrap();
    assert!(slow.success());
    until("it does not run", || home.json("status")["queues"].to_string().contains("\"leased\":1"));
    serving.signal("TERM");
    serving.says("finishing what runs");
    serving.signal("TERM");
    assert_eq!(serving.ends(), Some(0));
    serving.says("given back unfinished: 1");
}

/// R-C2: a slip is told as one: a target that nobody knows, a language that nobody speaks, a queue that is redrive's own; and what is
/// missing is named in words that can be typed.
#[test]
fn slips_are_told_as_slips() {
    let home = Home::new();
    assert_eq!(home.redrive("enqueue --exec true").0, Some(0));
    for words in ["targets show host:typo", "targets reset host:typo"] {
        let (code, out, err) = home.redrive(words);
        assert!(code == Some(3) && err.contains("host:typo"), "{words}: {code:?} {out}{err}");
    }
    let (code, _, err) = home.redrive("enqueue --queue redrive-alerts --exec true");
    assert!(code == Some(2) && err.contains("alerts of redrive itself"), "{err}");
    let (code, _, err) = home.redrive("redrive");
    assert!(code == Some(2) && err.contains("<ID>..., --group, --where or --all"), "{err}");
    let missing = home.command(&["schedule", "add", "x", "0 6 * * *"]).output().unwrap();
    let err = String::from_utf8(missing.stderr).unwrap();
    assert!(err.contains("--http, --payload or --exec") && !err.contains('|'), "{err}");
    let odd = home.command(&["status"]).env("REDRIVE_LANG", "fr").output().unwrap();
    assert!(odd.status.success() && String::from_utf8(odd.stderr).unwrap().contains("REDRIVE_LANG=fr"));

    // Of the requests that could have brought a key one of four did.
    let serving = home.serve("--concurrency 0");
    let body = r#"{"kind":"greet","payload":{}}"#;
    for _ in 0..3 {
        assert_eq!(serving.ask("POST", "/v1/jobs", body).unwrap().0, 201);
    }
    assert_eq!(
        ask(&serving.address, &serving.address, "POST", "/v1/jobs", &[("Idempotency-Key", "k-1")], body)
            .unwrap()
            .0,
        201
    );
    until("they are not counted", || {
        let text = serving.get("/metrics").1;
        text.contains("redrive_idempotency_guarded_total 4\n")
            && text.contains("redrive_idempotency_used_total 1\n")
    });
}
