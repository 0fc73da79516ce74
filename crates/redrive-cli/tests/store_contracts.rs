//! What other programs rely on when they read a store (design.md §5): shapes of JSON, exit codes, ids.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use serde_json::Value;
use support::stored::{Seeded, seeded};
use support::{Ran, line, redrive};

fn run(command: &str, store: &Seeded) -> Ran {
    line(&format!("{command} {}", store.flags())).run()
}

fn json(command: &str, store: &Seeded) -> Value {
    let ran = run(&format!("{command} --json"), store);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{command}: {ran}");
    serde_json::from_str(&ran.stdout).expect("one JSON document")
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// R-C1: the contract of `status`.
#[test]
fn status_has_its_contract() {
    let store = seeded();
    let status = json("status", &store);
    for key in ["by_cause", "dead_letter_queue", "failed_events", "queues", "retry_candidates", "schema"] {
        assert!(keys(&status).contains(&key), "{key}: {status}");
    }
    assert_eq!(status["schema"], "redrive/status.v1");
    assert_eq!((&status["failed_events"], &status["dead_letter_queue"]), (&1.into(), &2.into()));
    assert_eq!((&status["retry_candidates"], &status["by_cause"]["auth_error"]), (&1.into(), &1.into()));
    let lane = &status["queues"][1];
    assert_eq!((&lane["queue"], &lane["kind"]), (&"default".into(), &"exec".into()));
    for (field, count) in [("ready", 0), ("scheduled", 1), ("leased", 0), ("dead", 1), ("succeeded", 1)] {
        assert_eq!(lane[field], count, "{field}");
    }
    assert!(lane["oldest_due_age_ms"].is_null());
}

/// R-D5, R-D7: letters have every field, and show their payload only when asked.
#[test]
fn letters_have_their_contract() {
    let store = seeded();
    let letters = json("dlq list", &store);
    assert_eq!(letters["schema"], "redrive/dead_letters.v1");
    let items = letters["items"].as_array().unwrap();
    assert_eq!(items.len(), 2, "the newest first: {letters}");
    assert_eq!(items[0]["id"], "job_2");
    let fields = [
        "event_id",
        "timestamp",
        "error_type",
        "error_message",
        "error_category",
        "retry_count",
        "context",
        "original_payload",
        "caller_id",
        "job_type",
        "retryable",
        "id",
        "queue",
        "kind",
        "cause",
        "failure_type",
        "fingerprint",
        "reason",
        "payload_bytes",
    ];
    for item in items {
        for field in fields {
            assert!(item.get(field).is_some(), "{field} is missing: {item}");
        }
        assert!(item["original_payload"].is_null() && item["payload_bytes"].as_u64() > Some(10));
        assert!(item["event_id"].as_str().unwrap().starts_with("EVT-20151021-"), "{item}");
        assert!(item["timestamp"].as_str().unwrap().ends_with('Z'));
    }
    assert_eq!(items[0]["caller_id"], "invoice-7");
    assert_eq!((&items[0]["reason"], &items[1]["reason"]), (&"non_retryable".into(), &"exhausted".into()));
    assert_eq!((&items[1]["retry_count"], &items[1]["job_type"]), (&2.into(), &"exec".into()));
    assert_eq!((&items[0]["retryable"], &items[1]["retryable"]), (&false.into(), &true.into()));
    let with = json("dlq --with-payload", &store);
    assert_eq!(with["items"][1]["original_payload"]["argv"][0], "./nightly.sh");
    for flags in ["--queue billing", "--cause auth_error", "--limit 1", "--caller-id invoice-7"] {
        let some = json(&format!("dlq {flags}"), &store);
        assert_eq!(some["items"].as_array().unwrap().len(), 1, "{flags}");
        assert_eq!(json(&format!("dlq list {flags}"), &store), some, "{flags}");
    }
}

/// R-E2: events are JSON Lines with exactly the agreed fields.
#[test]
fn events_have_their_contract() {
    let store = seeded();
    let ran = run("events --json", &store);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let events: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events.len(), 18);
    for event in &events {
        let mut expected = [
            "event_id",
            "timestamp",
            "event_type",
            "source",
            "data",
            "parent_event_id",
            "related_hypothesis_id",
            "tags",
            "latency_ms",
            "exit_code",
            "importance",
            "status",
            "error_info",
            "retry_info",
            "recovery_actions",
        ];
        expected.sort_unstable();
        assert_eq!(keys(event), expected);
    }
    // The newest last, each led to by the one before.
    assert_eq!((&events[0]["status"], &events[17]["status"]), (&"pending".into(), &"failed".into()));
    assert_eq!(events[1]["parent_event_id"], events[0]["event_id"]);
    let dead = events.iter().find(|event| event["status"] == "dead_letter").unwrap();
    assert_eq!((&dead["importance"], &dead["exit_code"]), (&5.into(), &75.into()));
    assert_eq!(dead["data"]["decision"]["decision"], "ESCALATE");
    let error = keys(&dead["error_info"]);
    assert_eq!(error, ["error_category", "error_message", "error_type", "stack_trace"]);
    let retry = keys(&dead["retry_info"]);
    assert_eq!(retry, ["max_retries", "next_retry_at", "retry_count", "retryable"]);
    let count = |flags: &str| run(&format!("events --json {flags}"), &store).stdout.lines().count();
    for (flags, n) in [
        ("--limit 3", 3),
        ("--job job_1", 7),
        ("--source loader", 1),
        ("--tag batch", 1),
        ("--type job_dead", 2),
        ("--status dead_letter --status failed", 3),
        ("--caller-id invoice-7", 3),
        ("--since 30s", 3),
        ("--since 2015-10-21T07:27:55Z", 1),
    ] {
        assert_eq!(count(flags), n, "{flags}");
    }
}

/// R-C1: a job is known by its id, its number, and the ids of its events.
#[test]
fn ids_are_read_in_every_shape() {
    let store = seeded();
    let told = json("explain job_1", &store);
    assert_eq!((&told["schema"], &told["state"]), (&"redrive/story.v1".into(), &"dead".into()));
    assert_eq!((&told["attempts"], &told["retry_count"]), (&3.into(), &2.into()));
    assert_eq!(told["history"].as_array().unwrap().len(), 3);
    let event = told["events"][2]["event_id"].as_str().unwrap().to_owned();
    for id in ["1", event.as_str()] {
        assert_eq!(json(&format!("explain {id}"), &store), told, "{id}");
    }
    assert_eq!(json("dlq show 1", &store)["id"], "job_1");
    assert_eq!(json("dlq show 1", &store)["schema"], "redrive/dead_letter.v1");
}

/// R-D1: what is enqueued is answered by its id; a unique key answers with the job that has it.
#[test]
fn enqueuing_answers_with_an_id() {
    let store = seeded();
    let first = json("enqueue --kind thumbnail --payload {\"n\":1} --unique image-7 --priority -5", &store);
    assert_eq!(keys(&first), ["existing", "id", "schema"]);
    assert_eq!((&first["schema"], &first["existing"]), (&"redrive/enqueued.v1".into(), &false.into()));
    let second = json("enqueue --kind thumbnail --payload {} --unique image-7", &store);
    assert_eq!((&second["id"], &second["existing"]), (&first["id"], &true.into()));
    let plain = run("enqueue --queue mail --delay 1h --kind send --payload []", &store);
    assert_eq!((plain.code, plain.stdout.as_str()), (0, "job_7\n"), "{plain}");
    assert_eq!(json("explain job_7", &store)["state"], "scheduled");
}

/// R-D7: a payload is kept byte for byte, spaces and order included.
#[test]
fn a_payload_is_kept_as_it_was_typed() {
    let store = seeded();
    let typed = "{ \"b\": 1.50,  \"a\": null }";
    let url = store.path.to_str().unwrap();
    assert_eq!(redrive(["enqueue", "--kind", "k", "--payload", typed, "--store", url]).run().code, 0);
    assert_eq!(support::stored::payload(&store.path, 6), typed);
}

/// R-C1: `--exec` takes the rest of the line, flags of ours included.
#[test]
fn exec_takes_the_rest_of_the_line() {
    let store = seeded();
    let ran = line(&format!("{} enqueue --exec grep --json --lang ja -- -v --store x", store.flags())).run();
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (0, "job_6\n", ""), "{ran}");
    let stored: Value = serde_json::from_str(&support::stored::payload(&store.path, 6)).unwrap();
    assert_eq!(
        stored["argv"],
        serde_json::json!(["grep", "--json", "--lang", "ja", "--", "-v", "--store", "x"])
    );
}

/// R-C1: exit codes of putting back: done, nothing matched, partly failed, and what needs a yes.
#[test]
fn redriving_has_its_exit_codes() {
    for (command, code, redriven) in [
        ("redrive job_1", 0, Some(1)),
        ("redrive 1 2", 0, Some(2)),
        ("redrive --all --yes", 0, Some(2)),
        ("redrive job_1 job_3", 4, Some(1)),
        ("redrive job_3", 3, Some(0)),
        ("redrive job_99", 3, Some(0)),
        ("redrive --all", 2, None),
        ("retry job_1", 0, Some(1)),
        ("retry job_2 --yes", 0, Some(1)),
        ("retry job_2", 2, None),
        ("retry job_4", 0, Some(1)),
        ("retry job_3", 3, None),
        ("retry job_99", 3, None),
    ] {
        let store = seeded();
        let ran = run(&format!("{command} --json"), &store);
        assert_eq!(ran.code, code, "{command}: {ran}");
        match redriven {
            Some(n) => {
                let document: Value = serde_json::from_str(&ran.stdout).unwrap();
                assert_eq!(
                    (&document["schema"], &document["redriven"]),
                    (&"redrive/redriven.v1".into(), &n.into())
                );
            }
            None => assert!(ran.stderr.contains("hint: "), "{command}: {ran}"),
        }
        assert!(support::stored::is_sound(&store.path), "{command}");
    }
    let store = seeded();
    run("redrive --all --yes", &store);
    assert_eq!(run("redrive --all --yes", &store).code, 3);
    assert_eq!(json("status", &store)["dead_letter_queue"], 0);
}

/// R-C1: a person is asked before a permanent failure is put back, and may say no.
#[test]
fn a_person_is_asked() {
    for (answer, code, dead) in [("y\n", 0, 1), ("はい\n", 0, 1), ("n\n", 0, 2), ("\n", 0, 2), ("", 0, 2)] {
        let store = seeded();
        let ran = line(&format!("retry job_2 {}", store.flags())).on_a_terminal().stdin(answer).run();
        assert_eq!(ran.code, code, "{answer:?}: {ran}");
        assert!(ran.stderr.contains("[y/N]") && ran.stderr.contains("auth_error"), "{ran}");
        assert_eq!(json("status", &store)["dead_letter_queue"], dead, "{answer:?}");
    }
}

/// R-C1: a copy is whole, and nothing is overwritten.
#[test]
fn a_backup_is_a_store() {
    let store = seeded();
    let copy = store.folder.path().join("copy.db");
    let backup = || {
        redrive(["store", "backup", copy.to_str().unwrap(), "--store", store.path.to_str().unwrap()]).run()
    };
    assert_eq!(backup().code, 0);
    let again = backup();
    assert!(again.code == 1 && again.stderr.contains("exists already"), "{again}");
    let copied = Seeded { folder: store.folder, path: copy };
    assert_eq!(json("status", &copied)["dead_letter_queue"], 2);
    let report = json("store check", &copied);
    assert_eq!((&report["schema"], &report["ok"]), (&"redrive/store_check.v1".into(), &true.into()));
    assert!(report["checked"].as_array().unwrap().len() >= 10);
}

/// R-C2: every invariant is said in Japanese, too.
#[test]
fn invariants_are_said_in_japanese() {
    let ran = run("store check --lang ja --plain", &seeded());
    assert_eq!(ran.code, 0, "{ran}");
    for line in ran.stdout.lines() {
        let words = line.strip_prefix("正常  ").unwrap_or(line);
        assert!(!words.is_ascii(), "{line}");
    }
}
