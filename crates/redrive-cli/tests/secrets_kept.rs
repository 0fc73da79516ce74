//! Reliability row 62, invariant I8, on the real processes: a secret that is planted in the environment, in headers, addresses, payloads,
//! command lines, configuration and panics stands in no event, log, metric, alert, problem or default export, in no way of writing it.
//!
//! What a job was given is kept as it is, since it must be sent again, and shown to who has `read:payload`; so the store is encrypted
//! once, and then no byte of it may hold a secret, and once it is not, and then payloads and what was set up may stand in it.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod canaries;
mod serve_home;

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use canaries::aviary::*;
use canaries::{Canary, Everything, canary};
use serde_json::{Value, json};
use serve_home::{Home, Serving};

/// Adds what fails in every way, and sees that each secret was where it was planted.
fn plant(aviary: &mut Aviary, serving: &Serving) {
    let at = aviary.parrot.address;
    let script = format!(
        "env > ran.txt; echo \"$@\" >> ran.txt; printf %s \"$DEPLOY_TOKEN\" | base64 >&2; \
         echo \"marker-exec $DEPLOY_TOKEN $BILLING_PASSWORD $DATABASE_URL\" >&2; echo \"$@\" >&2; \
         echo \"{ARGV_OPTION} and {ARGV_HEADER} and {ARGV_ADDRESS}\" >&2; echo marker-stdout; env; exit 77"
    );
    let option = format!("--password={ARGV_OPTION}");
    let header = format!("Authorization: Bearer {ARGV_HEADER}");
    let address = format!("postgres://u:{ARGV_ADDRESS}@db.example/x");
    let words = [
        "enqueue", "--queue", CONTROL, "--exec", "sh", "-c", &script, "sh", &option, "-H", &header, &address,
    ];
    let added = aviary.run(&words);
    aviary.told.add("enqueue", added);
    let url = format!("http://ada:{CALL_USER}@{at}/http/{CALL_PATH}?api_key={CALL_QUERY}#{CALL_FRAGMENT}");
    let headers = [
        format!("X-Acme-Ticket: {CALL_TICKET}"),
        format!("Authorization: Acme {CALL_AUTH}"),
        format!("Cookie: sid={CALL_COOKIE}"),
    ];
    let body = json!({ "user": "ada", "password": CALL_BODY }).to_string();
    let mut words = vec!["enqueue", "--http", "POST", &url, "--body", &body];
    words.extend(headers.iter().flat_map(|header| ["--header", header]));
    aviary.run(&words);
    // The same without headers of its own, so that the client makes one of the name and the password.
    aviary.run(&["enqueue", "--http", "GET", &url]);
    let call = json!({ "kind": "http", "payload": {
        "method": "POST", "url": format!("http://{at}/apihttp/{CALL_PATH}?api_key={CALL_QUERY}"),
        "headers": [["X-Acme-Ticket", CALL_TICKET]], "body": body,
    }});
    let key = "Idempotency-Key: once-1\r\n";
    assert_eq!(aviary.ask_and_tell(serving, "POST /v1/jobs", key, &call.to_string()).0, 201);
    // Workers elsewhere: by push, and by pull.
    let pushed = json!({ "queue": "pushed", "kind": "note", "payload": { "api_key": PUSH_PAYLOAD } });
    assert_eq!(aviary.ask_and_tell(serving, "POST /v1/jobs", "", &pushed.to_string()).0, 201);
    let endpoint = json!({ "queue": "pushed-too", "url": format!("http://{at}/apipush/{PUSH_API_PATH}") });
    let (status, made) = aviary.ask(serving, "looks", "PUT /v1/push/crm2", "", &endpoint.to_string());
    assert_eq!(status, 200, "{made}");
    let pushed = json!({ "queue": "pushed-too", "kind": "note", "payload": { "api_key": PUSH_PAYLOAD } });
    assert_eq!(aviary.ask_and_tell(serving, "POST /v1/jobs", "", &pushed.to_string()).0, 201);
    for outcome in ["failed", "dead", "succeeded", "released", "cancelled"] {
        let job =
            json!({ "queue": "pulled", "kind": "note", "payload": { "card": { "secret": PULL_PAYLOAD } } });
        assert_eq!(aviary.ask_and_tell(serving, "POST /v1/jobs", "", &job.to_string()).0, 201);
        let (_, answer) = aviary.ask(serving, "works", "POST /v1/queues/pulled/lease", "", r#"{"max":1}"#);
        let leased: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
        assert_eq!(leased["items"][0]["payload"]["card"]["secret"], PULL_PAYLOAD, "{leased}");
        let said = format!("marker-pull {PULL_PAYLOAD} is wrong");
        let error = json!({
            "type": said, "message": said, "code": PULL_PAYLOAD, "stack": format!("at pay({PULL_PAYLOAD})"),
            "cause": "validation_error", "retryable": false,
        });
        let end = json!({ "items": [{
            "lease": leased["items"][0]["lease"], "outcome": outcome, "reason": said, "output": said,
            "error": (outcome == "failed").then_some(error),
        }]});
        let (status, settled) = aviary.ask(serving, "works", "POST /v1/leases/settle", "", &end.to_string());
        assert!(status == 200 && settled.contains("\"settled\""), "{settled}");
        aviary.told.add("the answer to settle", settled);
    }
    // What waits, and a task.
    let exec = format!("curl --password={SCHEDULE_ARGV} https://example.com");
    aviary.run(&["schedule", "add", "yearly", "0 0 1 1 *", "--exec", "sh", "-c", &exec]);
    let header = format!("X-Acme-Ticket: {OUTBOX_HEADER}");
    let body = json!({ "password": OUTBOX_BODY }).to_string();
    let url = format!("http://{at}/outbox");
    aviary.run(&["outbox", "add", "--header", &header, "--data", &body, &url]);
    let flushed = aviary.run(&["outbox", "flush"]);
    aviary.told.add("outbox flush", flushed);
    let plan = format!(
        "name = \"steps\"\n[[subtasks]]\nid = \"one\"\nenv = {{ STEP_TOKEN = \"{STEP_ENV}\" }}\n\
         command = [\"sh\", \"-c\", \"echo $STEP_TOKEN >> ran.txt; echo marker-step $STEP_TOKEN >&2; exit 77\"]\n"
    );
    std::fs::write(aviary.home.path("plan.toml"), plan).unwrap();
    // What a step writes passes through to whoever has started it, as with `run`; what is said about it is ours.
    let output = aviary.command(&["task", "run", "plan.toml", "--plain"]).output().unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    let ours: Vec<&str> = said.lines().filter(|line| !line.contains("one │ marker-step")).collect();
    aviary.told.add("task run", ours.join("\n"));
    let redriven = json!({ "where": "queue=pulled", "rate": "1/h", "reason": format!("token={ASKED_WHY}") });
    let (status, begun) = aviary.ask_and_tell(serving, "POST /v1/redrives", "", &redriven.to_string());
    assert!(status < 300, "{begun}");
    // Requests that are wrong, with a secret where it hurts.
    let wrong =
        json!({ "password": ASKED_QUERY, "kind": { "token": ASKED_QUERY }, "headers": [ASKED_QUERY] });
    for line in
        ["POST /v1/jobs", "POST /v1/leases/settle", "POST /v1/redrives", "PUT /v1/push/x", "POST /v1/nothing"]
    {
        let line = format!("{line}?access_token={ASKED_QUERY}");
        assert!(aviary.ask_and_tell(serving, &line, "", &wrong.to_string()).0 >= 400, "{line}");
    }
    let (status, refused) = aviary.ask(serving, ASKED_TOKEN, "GET /v1/events", "", "");
    assert_eq!(status, 401, "{refused}");
    aviary.told.add("the answer to a bad token", refused);
    assert_eq!(aviary.ask_and_tell(serving, &format!("POST /v1/queues/{CONTROL}/pause"), "", "{}").0, 200);
    assert_eq!(aviary.ask_and_tell(serving, &format!("POST /v1/queues/{CONTROL}/resume"), "", "{}").0, 200);
}

/// Each secret was where it was planted, or the search proves nothing.
fn was_planted(aviary: &Aviary) {
    let ran = std::fs::read_to_string(aviary.home.path("ran.txt")).unwrap();
    for secret in [ENV_TOKEN, ENV_PASSWORD, ENV_ADDRESS, ARGV_OPTION, ARGV_HEADER, ARGV_ADDRESS, STEP_ENV] {
        assert!(ran.contains(secret), "no command had {secret}: {ran}");
    }
    let paged = std::fs::read_to_string(aviary.home.path("paged.txt")).unwrap();
    assert!(paged.contains(ALERT_ARGV), "{paged}");
    let heard = |path: &str| -> String {
        let heard = aviary.parrot.heard(path);
        heard.iter().map(|heard| [heard.head.as_str(), &heard.body].concat()).collect::<Vec<_>>().join("\n")
    };
    for (path, secrets) in [
        ("/http", &[CALL_TICKET, CALL_AUTH, CALL_COOKIE, CALL_PATH, CALL_QUERY, CALL_BODY][..]),
        ("/http", &[&*STANDARD.encode(format!("ada:{CALL_USER}"))]),
        ("/apihttp", &[CALL_TICKET, CALL_PATH, CALL_QUERY, CALL_BODY]),
        ("/push", &[PUSH_PATH, PUSH_QUERY, PUSH_PAYLOAD]),
        ("/apipush", &[PUSH_API_PATH, PUSH_PAYLOAD]),
        ("/alerts", &[ALERT_PATH, ALERT_HEADER]),
        ("/outbox", &[OUTBOX_HEADER, OUTBOX_BODY]),
    ] {
        for secret in secrets {
            assert!(heard(path).contains(secret), "{path} did not hear {secret}: {}", heard(path));
        }
    }
}

/// All that can be had from outside: commands, answers, streams, deliveries, bytes.
fn gather(aviary: &mut Aviary, serving: &Serving) {
    for line in [
        "events --json --limit 1000",
        "events --verbose --plain --limit 1000",
        "export",
        "export --report -",
        "dlq list -v",
        "dlq --json",
        "dlq export",
        "dlq export --csv",
        "dlq groups --json",
        "failed -v",
        "retry-candidates -v",
        "status -v",
        "status --json",
        "metrics --json",
        "prometheus",
        "queue --json",
        "targets --json",
        "doctor -v",
        "doctor --json",
        "config show -v",
        "token list --json",
        "alerts list --json",
        "alerts check --json",
        "schedule list --json",
        "push list -v",
        "push list --json",
        "push show crm --json",
        "escalations list --json",
        "idempotency list --json",
        "outbox list --json",
        "outbox show 1 --json",
        "task status --json",
        "task status plan.toml -v",
        "store check",
    ] {
        aviary.look(line);
    }
    let events = aviary.run(&["events", "--json", "--limit", "1000"]);
    let events: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ids: BTreeSet<&str> = events.iter().filter_map(|event| event["data"]["job_id"].as_str()).collect();
    let ids: Vec<String> = ids.into_iter().map(str::to_owned).collect();
    let events: Vec<String> =
        events.iter().map(|event| event["event_id"].as_str().unwrap().to_owned()).collect();
    for id in &ids {
        for words in ["detail", "trace", "escalations show", "explain", "dlq show"] {
            aviary.look(&format!("{words} {id} --json --lang ja"));
        }
        aviary.look(&format!("explain {id} -v"));
        aviary.look(&format!("dlq show {id} -v"));
    }
    let document: Value = serde_json::from_str(include_str!("../../../docs/openapi.json")).unwrap();
    let groups = aviary.run(&["dlq", "groups", "--json"]);
    let groups: Value = serde_json::from_str(groups.lines().next().unwrap()).unwrap();
    let group =
        groups["items"][0]["fingerprint"].as_str().or(groups["fingerprint"].as_str()).unwrap().to_owned();
    let (_, runs) = aviary.ask_and_tell(serving, "GET /v1/redrives", "", "");
    let runs: Value = serde_json::from_str(runs.split_once("\r\n\r\n").unwrap().1).unwrap();
    let redrive = runs["items"][0]["id"].as_str().unwrap().to_owned();
    let mut silent = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        if methods.get("get").is_none() {
            continue;
        }
        let whats: Vec<String> = match path.split_once('{').map(|(before, _)| before) {
            None => vec![String::new()],
            Some("/v1/jobs/" | "/v1/dead-letters/" | "/v1/escalations/") => ids.clone(),
            Some("/v1/events/") => events.clone(),
            Some("/v1/idempotency/") => (1..=60).map(|id| id.to_string()).collect(),
            Some("/v1/redrives/") => vec![redrive.clone()],
            Some("/v1/groups/") => vec![group.clone()],
            Some("/v1/queues/") => vec![CONTROL.to_owned(), "pushed".to_owned()],
            Some("/v1/push/") => vec!["crm2".to_owned()],
            Some("/v1/schedules/") => vec!["yearly".to_owned()],
            Some("/v1/tasks/") => vec!["task-1".to_owned(), "task_1".to_owned(), "1".to_owned()],
            Some("/v1/policies/") => vec!["quick".to_owned()],
            Some("/v1/targets/") => vec![format!("host:{}", aviary.parrot.address)],
            Some(_) => vec!["1".to_owned()],
        };
        let mut answered = false;
        for what in whats {
            let (before, after) =
                (path.split('{').next().unwrap(), path.split('}').nth(1).unwrap_or_default());
            let (status, _) = aviary.ask_and_tell(serving, &format!("GET {before}{what}{after}"), "", "");
            answered |= status == 200;
        }
        if !answered {
            silent.push(path.as_str());
        }
    }
    assert!(silent.is_empty(), "nothing was read of {silent:?}");
    let accept = "Accept: text/event-stream\r\nLast-Event-ID: 0\r\n";
    assert_eq!(aviary.ask_and_tell(serving, "GET /v1/events", accept, "").0, 200);
    for heard in aviary.parrot.heard("/alerts") {
        aviary.told.add("the body of an alert", heard.body);
        // Where it goes and how it gets in are its own.
        let head = heard.head.replace(ALERT_PATH, "…").replace(ALERT_HEADER, "…");
        aviary.told.add("the head of an alert", head);
    }
    let paged = std::fs::read_to_string(aviary.home.path("paged.txt")).unwrap();
    aviary.told.add("what an alert gave to a command", paged.replace(ALERT_ARGV, "…"));
}

/// R-D7, I8, the canaries: once with the log as JSON on an encrypted store, once with the log as text.
fn nothing_sings(shape: &str, encrypted: bool) {
    let mut aviary = Aviary::new(encrypted);
    let words = format!("serve --listen 127.0.0.1:0 --log {shape} -v --concurrency 4");
    let mut serving = Serving::started(aviary.command(&words.split_whitespace().collect::<Vec<_>>()));
    let working = Talking::started(aviary.command(&["work", "-v", "--concurrency", "4"]));
    plant(&mut aviary, &serving);
    // Nobody is told at once of what has just failed, and the first delivery fails.
    until("two deliveries", || {
        aviary.parrot.heard("/alerts").len() > 1 && aviary.home.path("paged.txt").exists()
    });
    until("the pushes", || {
        !aviary.parrot.heard("/push").is_empty() && !aviary.parrot.heard("/apipush").is_empty()
    });
    until("the calls", || {
        aviary.parrot.heard("/http").len() > 2 && !aviary.parrot.heard("/apihttp").is_empty()
    });
    until("the letters", || aviary.run(&["dlq", "--json", "--limit", "100"]).matches("marker-").count() >= 8);
    was_planted(&aviary);
    gather(&mut aviary, &serving);
    serving.signal("TERM");
    serving.ends();
    aviary.told.add("the log of the server", serving.said());
    aviary.told.add("the log of the worker", working.ended());
    let secrets = aviary.secrets();
    let mut leaks = aviary.told.found(&secrets);
    // The store itself, and a copy.
    aviary.run(&["store", "backup", "copy.db"]);
    let mut stored = Everything::default();
    for entry in std::fs::read_dir(aviary.home.folder.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.to_string_lossy().contains(".db") {
            stored.add(path.to_string_lossy(), String::from_utf8_lossy(&std::fs::read(&path).unwrap()));
        }
    }
    assert!(stored.0.len() >= 2, "{stored:?}");
    let never_stored = |one: &Canary| {
        ["variable called", "DATABASE_URL", "request", "reason", "receiver", "a token", "the key"]
            .iter()
            .any(|word| one.place.contains(word))
    };
    let looked_for: Vec<Canary> =
        secrets.iter().filter(|one| encrypted || never_stored(one)).cloned().collect();
    leaks.extend(stored.found(&looked_for));
    leaks.dedup();
    assert!(leaks.is_empty(), "{} leaks:\n{}", leaks.len(), leaks.join("\n"));
    // The words that the secrets stood in are there: it is the secrets that are not.
    for place in
        ["events --json", "export", "dlq export", "dlq list", "explain", "GET /v1/events", "event-stream"]
    {
        for marker in [
            "marker-exec",
            "marker-http",
            "marker-apihttp",
            "marker-push",
            "marker-apipush",
            "marker-pull",
            "marker-step",
        ] {
            let told = aviary.told.at(place);
            assert!(told.contains(marker), "{marker} is not in {place}: {told}");
        }
        assert!(aviary.told.at(place).contains("[redacted]"), "{place}");
    }
    // What a command wrote is nobody's who may not read payloads.
    assert!(aviary.told.at("events --json").contains("marker-stdout"));
    assert!(
        !aviary.told.at("the answer to ").contains("marker-stdout"),
        "{}",
        aviary.told.at("the answer to ")
    );
    assert!(
        aviary.told.at("the body of an alert").contains("marker-"),
        "{}",
        aviary.told.at("the body of an alert")
    );
    // Whichever of the two did the work.
    assert!(aviary.told.at("the log of the ").contains("marker-"), "{}", aviary.told.at("the log of the "));
    // And the search finds what is not hidden, in all of them.
    let found = aviary.told.found(&[canary("a queue", CONTROL)]).join("\n");
    for place in [
        "events --json",
        "export",
        "dlq export",
        "explain",
        "prometheus",
        "GET /metrics",
        "GET /v1/jobs/",
        "event-stream",
    ] {
        assert!(found.contains(place), "the search does not look into {place}: {found}");
    }
}

/// R-D7, I8, reliability row 62.
#[test]
fn nothing_sings_with_a_log_in_json_and_an_encrypted_store() {
    nothing_sings("json", true);
}

/// R-D7, I8, reliability row 62.
#[test]
fn nothing_sings_with_a_log_in_text_and_a_store_as_it_is() {
    nothing_sings("text", false);
}

/// I8: the search finds a secret in every way of writing it, or it would prove nothing.
#[test]
fn the_search_finds_a_secret_however_it_is_written() {
    let secret = canary("here", ENV_TOKEN);
    for told in [
        format!("said {ENV_TOKEN}!"),
        json!({ "said": ENV_TOKEN }).to_string(),
        json!({ "said": json!({ "said": ENV_TOKEN }).to_string() }).to_string(),
        "?q=Kestrel%2BVane%2F%22One%22&x".to_owned(),
        "?q=kestrel%2bvane%2f%22one%22".to_owned(),
        STANDARD.encode(ENV_TOKEN),
        STANDARD.encode(format!("a{ENV_TOKEN}b")),
        STANDARD.encode(format!("ada:{ENV_TOKEN}")),
    ] {
        let mut everything = Everything::default();
        everything.add("a place", told.clone());
        assert!(!everything.found(std::slice::from_ref(&secret)).is_empty(), "{told}");
        everything.0[0].text = "nothing".to_owned();
        assert!(everything.found(std::slice::from_ref(&secret)).is_empty());
    }
}

/// R-D7, row 73: what is wrong with a configuration is told without what stands in it where secrets stand.
#[test]
fn a_broken_configuration_is_told_without_its_secrets() {
    let home = Home::new();
    let mut told = Everything::default();
    let receivers = [
        format!("webhook = \"ftp://example.com/in/{ALERT_PATH}\""),
        format!("webhook = \"{ALERT_PATH}\""),
        format!("webhook = [\"{ALERT_PATH}\"]"),
        format!("headers = \"X-Route: {ALERT_HEADER}\""),
        format!("headers = {{ X-Route = [\"{ALERT_HEADER}\"] }}"),
        format!("headers = {{ X-Route = \"{ALERT_HEADER}\\n\" }}"),
    ];
    let pushes = [
        format!("url = \"ftp://example.com/{PUSH_PATH}\""),
        format!("url = \"{PUSH_PATH}\""),
        format!("url = \"https://example.com/\"\nsecret = \"{PUSH_QUERY}\""),
        format!("url = \"https://example.com/\"\nsecret_env = \"{PUSH_QUERY}\""),
    ];
    let alerts = receivers.iter().enumerate();
    let alerts = alerts.map(|(n, receiver)| format!("[[alerts.receivers]]\nname = \"a{n}\"\n{receiver}\n"));
    let pushes = pushes.iter().enumerate();
    let pushes = pushes.map(|(n, push)| format!("[[push]]\nname = \"p{n}\"\nqueue = \"q\"\n{push}\n"));
    let store = format!("store = \"mysql://u:{ENV_ADDRESS}@h/db\"\npassword = \"{ENV_ADDRESS}\"\n");
    let proxy = format!("[proxy]\nupstream = \"ftp://u:{ENV_ADDRESS}@h\"\n");
    let unfit: String = [store, proxy].into_iter().chain(alerts).chain(pushes).collect();
    for toml in [
        unfit,
        format!("[[alerts.receivers]]\nname = \"a\"\nwebhook = \"https://example.com/{ALERT_PATH}\n"),
        format!("[[alerts.receivers]]\nname = \"a\"\nwebhook = https://example.com/{ALERT_PATH}\n"),
        format!("store = postgres://u:{ENV_ADDRESS}@h/db\n"),
    ] {
        home.configure(&toml);
        let (code, out, err) = home.redrive("config check");
        assert_eq!(code, Some(1), "it is not broken: {toml}{out}{err}");
        told.add("config check", out + &err);
        for line in [
            "serve --listen 127.0.0.1:0",
            "work --until-empty",
            "config check",
            "config show",
            "doctor",
            "proxy",
        ] {
            for form in ["--json", "--lang ja"] {
                let (_, out, err) = home.redrive(&format!("{line} {form}"));
                told.add(format!("{line} {form}"), out + &err);
            }
        }
    }
    for place in
        ["alerts.receivers[1].webhook", "alerts.receivers[3].headers", "push[1].url", "push[3].secret_env"]
    {
        assert!(
            told.at("config check").contains(place),
            "{place} is not told of: {}",
            told.at("config check")
        );
    }
    let secrets = [ALERT_PATH, ALERT_HEADER, PUSH_PATH, PUSH_QUERY, ENV_ADDRESS];
    let leaks = told.found(&secrets.map(|secret| canary("a secret", secret)));
    assert!(leaks.is_empty(), "{} leaks:\n{}", leaks.len(), leaks.join("\n"));
}

/// R-T8: the password of a store that cannot be reached is told by nobody, and the search sees its user.
#[test]
fn the_password_of_a_store_is_told_by_nobody() {
    let home = Home::new();
    let mut told = Everything::default();
    for url in [
        format!("postgres://Chiffchaff:{ENV_ADDRESS}@127.0.0.1:1/db"),
        format!("postgres://Chiffchaff@127.0.0.1:1/db?password={ENV_ADDRESS}"),
        format!("postgres://Chiffchaff:{ENV_ADDRESS}@127.0.0.1:none/db"),
        format!("mysql://Chiffchaff:{ENV_ADDRESS}@127.0.0.1/db"),
    ] {
        let lines = [
            "status",
            "doctor --json",
            "config show -v",
            "serve --listen 127.0.0.1:0 -v",
            "work --until-empty -v",
        ];
        let asked = lines.iter().map(|line| line.split_whitespace().collect::<Vec<_>>()).flat_map(|words| {
            let mut by_flag = home.command(&words);
            by_flag.args(["--store", &url]);
            let mut by_variable = home.command(&words);
            by_variable.env("REDRIVE_STORE", &url);
            [by_flag, by_variable].map(|command| (words[0], Talking::started(command)))
        });
        // Who waits for a database says so at once.
        let asked: Vec<_> = asked.collect();
        std::thread::sleep(Duration::from_secs(4));
        for (name, talking) in asked {
            told.add(name, talking.ended());
        }
    }
    let leaks = told.found(&[canary("the password of a store", ENV_ADDRESS)]);
    assert!(leaks.is_empty(), "{} leaks:\n{}", leaks.len(), leaks.join("\n"));
    assert!(!told.found(&[canary("its user", "Chiffchaff")]).is_empty());
}

/// R-D7, R-I1: what goes through the proxy is told by its log, its numbers and its list of keys without secrets.
#[test]
fn the_proxy_tells_no_secret_that_passes_through_it() {
    let mut aviary = Aviary::new(true);
    let at = aviary.parrot.address;
    let upstream = format!("http://{at}");
    let proxy = aviary.command(&["proxy", "--listen", "127.0.0.1:0", "--upstream", &upstream, "-v"]);
    let mut proxy = Serving::started(proxy);
    for key in ["", "Idempotency-Key: once-1\r\n", "Idempotency-Key: once-1\r\n"] {
        let line = format!("POST /proxied/{CALL_PATH}?api_key={CALL_QUERY}");
        let body = json!({ "password": CALL_BODY }).to_string();
        let (status, answer) = aviary.ask(&proxy, ASKED_TOKEN, &line, key, &body);
        // Who asks gets the answer as it is.
        assert!(status == 422 && answer.contains("marker-proxied") && answer.contains(CALL_BODY), "{answer}");
    }
    assert_eq!(aviary.parrot.heard("/proxied").len(), 2);
    for path in ["/.redrive/metrics", "/.redrive/readyz"] {
        aviary.ask_and_tell(&proxy, &format!("GET {path}"), "", "");
    }
    for line in ["idempotency list --json", "idempotency list -v", "events --json", "export", "prometheus"] {
        aviary.look(line);
    }
    proxy.signal("TERM");
    proxy.ends();
    aviary.told.add("the log of the proxy", proxy.said());
    let leaks = aviary.told.found(&aviary.secrets());
    assert!(leaks.is_empty(), "{} leaks:\n{}", leaks.len(), leaks.join("\n"));
    assert!(aviary.told.at("idempotency list").contains("once-1"));
    assert!(aviary.told.at("the log of the proxy").contains(&at.to_string()), "{}", proxy.said());
}

/// R-D7: a panic of this program is told without secrets. It panics in a process of its own: this very test, called again.
#[test]
fn a_panic_is_told_without_secrets() {
    if std::env::var_os("PANICS_HERE").is_some() {
        redrive_cli::tell_panics_without_secrets();
        let token = std::env::var("DEPLOY_TOKEN").unwrap();
        panic!("marker-panic {token} is refused, password={CALL_BODY}, postgres://u:{CALL_USER}@h/x");
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_panic_is_told_without_secrets", "--nocapture"])
        .envs([("PANICS_HERE", "1"), ("DEPLOY_TOKEN", ENV_TOKEN), ("RUST_BACKTRACE", "full")])
        .output()
        .unwrap();
    let mut told = Everything::default();
    told.add("the panic", String::from_utf8_lossy(&output.stderr));
    assert!(told.at("the panic").contains("marker-panic [redacted] is refused"), "{}", told.at("the panic"));
    let leaks = told.found(&[ENV_TOKEN, CALL_BODY, CALL_USER].map(|secret| canary("a panic", secret)));
    assert!(leaks.is_empty(), "{}", leaks.join("\n"));
}
