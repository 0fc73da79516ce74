//! `escalations` as a process, on both back ends: what waits for a person, and that somebody has seen it (R-T7, R-T10).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

mod process_store;

use process_store::{Home, Ran};
use serde_json::Value;

/// A store of its own.
struct Place {
    home: Home,
    flags: String,
}

impl Place {
    fn sqlite() -> Place {
        let home = Home::new();
        let flags = format!("--store sqlite:{}", home.store.display());
        Place { home, flags }
    }

    /// Nothing where PostgreSQL is missing, which is told, and a failure in CI.
    fn postgres() -> Option<Place> {
        let Some(shared) = redrive_testing::shared() else {
            assert!(std::env::var_os("CI").is_none(), "PostgreSQL is missing");
            eprintln!("SKIPPED: PostgreSQL is missing");
            return None;
        };
        let joint = if shared.url().contains('?') { '&' } else { '?' };
        let flags = format!("--store {}{joint}schema={}", shared.url(), shared.schema());
        Some(Place { home: Home::new(), flags })
    }

    fn run(&self, words: &str, more: &[&str]) -> Ran {
        self.home.redrive(&format!("{} {words}", self.flags), more)
    }

    fn listed(&self, words: &str) -> Vec<Value> {
        let page = self.home.json(&format!("{} escalations {words}", self.flags));
        assert_eq!(page["schema"], "redrive/escalations.v1");
        page["items"].as_array().unwrap().clone()
    }

    fn ids(&self, words: &str) -> Vec<String> {
        self.listed(words).iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
    }
}

fn seen_and_unseen(place: &Place) {
    assert_eq!(place.run("escalations", &[]).code, 0, "no store is no trouble");
    place.run("run -q --name nightly -- sh -c", &["echo 'HTTP 401 unauthorized' >&2; exit 1"]);
    place.run("run -q --name fetch --max-retries 0 -- sh -c", &["echo 'connection refused' >&2; exit 1"]);
    let items = place.listed("");
    assert_eq!(place.ids(""), ["job_2", "job_1"]);
    assert_eq!((&items[0]["level"], &items[1]["level"]), (&Value::from(2), &Value::from(3)));
    assert_eq!(items[1]["reason_type"], "FATAL_ERROR");
    assert_eq!(items[1]["name"], "nightly");
    assert_eq!(items[1]["acknowledged_at"], Value::Null);

    let shown = place.run("escalations show 1", &[]);
    assert_eq!(shown.code, 0, "{shown}");
    for said in ["AUTHENTICATION_FAILED", "3 | analysis", "redrive trace job_1", "HTTP 401 unauthorized"] {
        assert!(shown.stdout.contains(said), "{said}: {shown}");
    }
    let page = place.home.json(&format!("{} escalations show job_1", place.flags));
    assert_eq!(page["schema"], "redrive/escalation.v1");
    assert_eq!(page["report"]["fatal_error"], "AUTHENTICATION_FAILED");
    assert_eq!(page["report"]["level"], 3);

    let acked = place.run("escalations ack job_1 job_77 --note", &["Sato renews the key"]);
    assert_eq!((acked.code, acked.stdout.as_str()), (4, "job_1 is acknowledged.\n"), "{acked}");
    assert!(acked.stderr.contains("job_77 does not wait for a person"), "{acked}");
    assert_eq!(place.ids(""), ["job_2"]);
    assert_eq!(place.ids("--all"), ["job_2", "job_1"]);
    assert_eq!(place.listed("list --all")[1]["note"], "Sato renews the key");
    assert_eq!(place.ids("--all --limit 1"), ["job_2"]);
    let page = place.home.json(&format!("{} escalations --all --limit 1", place.flags));
    let after = format!("--all --after {}", page["next"].as_str().unwrap());
    assert_eq!(place.ids(&after), ["job_1"]);
    for unknown in ["escalations show job_77", "escalations ack task-3", "escalations show task-3"] {
        let ran = place.run(unknown, &[]);
        assert_eq!((ran.code, ran.stdout.as_str()), (3, ""), "{unknown}: {ran}");
        assert!(ran.stderr.contains("redrive escalations lists"), "{ran}");
    }
    assert_eq!(place.run("escalations show nonsense", &[]).code, 2);
    let piped = place.run("escalations ack job_2", &[]);
    assert_eq!((piped.code, place.ids("")), (0, Vec::new()));
}

/// R-T7, R-T10: listed with their levels, shown with the report, acknowledged; exit code 3 for what is unknown.
#[test]
fn what_waits_for_a_person_is_listed_shown_and_seen() {
    seen_and_unseen(&Place::sqlite());
}

/// R-T7, reliability, Security: an HTTP call is told by whom it calls, everywhere; what else its address holds is told nowhere.
#[test]
fn a_call_is_known_by_its_host() {
    let place = Place::sqlite();
    let url = "http://ada:hunter2@169.254.169.254/latest?token=hunter2";
    assert_eq!(place.run("enqueue --http POST", &[url]).code, 0);
    assert_eq!(place.run("work --until-empty", &[]).code, 0);
    assert_eq!(place.listed("")[0]["name"], "POST 169.254.169.254");
    // Secrets in odd places: a host that looks like one, a password that ends the host.
    for (url, name) in [
        ("http://sk_live_51H8x0YzQwErTyUiOpAsDfGh.example.invalid/", "POST [redacted].example.invalid"),
        ("http://ada:hun/ter2@127.0.0.1:1/x", "http"),
    ] {
        let payload = format!("{{\"method\":\"POST\",\"url\":\"{url}\"}}");
        assert_eq!(place.run("enqueue --kind http --payload", &[&payload]).code, 0);
        assert_eq!(place.run("work --until-empty", &[]).code, 0);
        assert_eq!(place.listed("")[0]["name"], name);
    }
    for words in ["escalations show job_1", "trace job_1", "--lang ja escalations show job_1"] {
        let shown = place.run(words, &[]);
        assert!(
            shown.stdout.contains("POST 169.254.169.254") && !shown.stdout.contains("hunter2"),
            "{shown}"
        );
    }
}

/// The same on PostgreSQL.
#[test]
fn what_waits_for_a_person_is_listed_shown_and_seen_on_postgres() {
    if let Some(place) = Place::postgres() {
        seen_and_unseen(&place);
    }
}
