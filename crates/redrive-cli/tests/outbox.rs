//! `outbox` as a process, on both back ends, against a far side that counts what it did (R-I7).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

mod counting_server;
mod process_store;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use counting_server::{Counting, Mood};
use process_store::{Home, Ran};
use serde_json::Value;

const QUICK: &str = "[policies.quick]\nextends = 'standard'\n[policies.quick.backoff]\ntype = 'constant'\ninitial_delay_ms = 20\n";

/// A store of its own.
struct Place {
    home: Home,
    flags: String,
}

impl Place {
    fn new(home: Home, flags: String) -> Place {
        std::fs::write(home.folder.path().join("redrive.toml"), QUICK).unwrap();
        Place { home, flags }
    }

    fn sqlite() -> Place {
        let home = Home::new();
        let flags = format!("--store sqlite:{}", home.store.display());
        Place::new(home, flags)
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
        Some(Place::new(Home::new(), flags))
    }

    fn run(&self, words: &str, more: &[&str]) -> Ran {
        self.home.redrive(&format!("{} outbox {words}", self.flags), more)
    }

    /// Adds a call with this body, and gives its id.
    fn add(&self, far: &Counting, body: &str) -> String {
        let ran = self.run("add --data", &[body, &far.url()]);
        assert_eq!(ran.code, 0, "{ran}");
        ran.stdout.trim().to_owned()
    }

    fn flush(&self, flags: &str) -> Ran {
        self.run(&format!("flush --policy quick {flags}"), &[])
    }

    fn items(&self, flags: &str) -> Vec<Value> {
        let page = self.home.json(&format!("{} outbox list {flags}", self.flags));
        assert_eq!(page["schema"], "redrive/outbox.v1");
        page["items"].as_array().unwrap().clone()
    }
}

/// Offline, three are added; the network is back; in order and once each; and what people are told on the way.
fn offline_and_back(place: &Place) {
    let far = Counting::away();
    let nothing = place.flush("");
    assert_eq!((nothing.code, nothing.stdout.as_str()), (3, "Nothing is pending.\n"), "{nothing}");
    let ids: Vec<String> = ["{\"n\":1}", "{\"n\":2}", "{\"n\":3}"].map(|body| place.add(&far, body)).into();
    assert!(ids[0].starts_with("outbox-"), "{ids:?}");
    let again = place.run("add --data", &["{\"n\":1}", &far.url()]);
    assert_eq!((again.code, again.stdout.trim()), (0, ids[0].as_str()), "{again}");
    assert!(again.stderr.contains("is there already"), "{again}");

    for _ in 0..4 {
        let ran = place.flush("");
        assert_eq!(ran.code, 4, "{ran}");
        let line = format!("redrive: {} POST {}: not reached: ", ids[0], far.url());
        assert!(ran.stderr.starts_with(&line) && ran.stderr.lines().count() == 1, "{ran}");
        assert!(ran.stdout.contains("waits for the network"), "{ran}");
    }
    assert!(place.items("").iter().all(|item| item["state"] == "pending" && item["sends"] == 0));

    far.comes();
    let ran = place.flush("");
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "Sent: 3. Failed: 0.\n"), "{ran}");
    assert!(ran.stderr.lines().all(|line| line.contains(": sent (HTTP 201, ")), "{ran}");
    assert_eq!(far.bodies(), ["{\"n\":1}", "{\"n\":2}", "{\"n\":3}"]);
    assert_eq!((far.effects(), far.requests()), (3, 3));
    let sent = place.items("--state sent");
    assert_eq!(sent.iter().map(|item| item["id"].as_str().unwrap()).collect::<Vec<_>>(), ids);
    assert_eq!((&sent[0]["last_status"], &sent[0]["sends"]), (&201.into(), &1.into()));
    let again = place.run("add --data", &["{\"n\":1}", &far.url()]);
    assert!(again.stderr.contains("was sent already"), "{again}");
    assert_eq!(place.flush("").code, 3);
}

/// R-I7: offline, back online, in order, once each.
#[test]
fn what_waits_is_sent_when_the_network_is_back() {
    offline_and_back(&Place::sqlite());
}

/// R-I7: the same on PostgreSQL.
#[test]
fn what_waits_is_sent_when_the_network_is_back_on_postgres() {
    if let Some(place) = Place::postgres() {
        offline_and_back(&place);
    }
}

/// R-I7: three sends, then failed; a person looks, retries and discards; and what is behind it goes on.
#[test]
fn failed_items_are_retried_by_hand() {
    let place = Place::sqlite();
    let far = Counting::there();
    far.says(Mood::Broken);
    let id = place.add(&far, "{\"n\":1}");
    let ran = place.flush("--json");
    assert_eq!(ran.code, 4, "{ran}");
    let page: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(page["schema"], "redrive/outbox_flushed.v1");
    assert_eq!((&page["failed"], &page["items"][0]["result"]), (&1.into(), &"failed".into()), "{page}");
    assert_eq!((far.requests(), far.effects()), (3, 0));
    assert_eq!(ran.stderr.lines().filter(|line| line.contains("HTTP 500: it broke; again in ")).count(), 2);

    far.says(Mood::Well);
    let other = place.add(&far, "{\"n\":2}");
    assert_eq!(place.flush("").code, 0, "what has failed holds back nobody");
    let shown = place.run("show", &[&id]);
    for said in ["state: failed", "sends: 3", "last answer: HTTP 500: it broke", &format!("retry {id}")] {
        assert!(shown.stdout.contains(said), "{said}: {shown}");
    }
    let retried = place.run("retry", &[&id, &other, "99999"]);
    assert_eq!(retried.code, 4, "{retried}");
    assert_eq!(retried.stdout, format!("{id} is pending again.\n"), "{retried}");
    assert_eq!(retried.stderr.lines().filter(|line| line.starts_with("error: ")).count(), 2, "{retried}");
    assert_eq!((place.flush("").code, far.effects()), (0, 2));
    assert_eq!(far.keys().len(), 2, "one key each, whoever sent it");
    assert_eq!(place.run("retry --all", &[]).code, 3);

    far.says(Mood::Refusing);
    let id = place.add(&far, "{\"n\":3}");
    assert_eq!((place.flush("").code, far.requests()), (4, 6), "what cannot succeed is sent once");
    let asked = place.run("discard", &[&id]);
    assert_eq!((asked.code, asked.stdout.as_str()), (2, ""), "{asked}");
    let gone = place.run("discard --yes", &[&id, &other]);
    assert_eq!((gone.code, &*gone.stdout), (4, &*format!("{id} is gone.\n")));
    let error = format!("error: {other} was sent already, or is not there\n");
    assert!(gone.stderr.contains(&error), "{gone}");
    assert_eq!(place.run("show", &[&id]).code, 3);
}

/// R-I7, R-I3: a flush ends while the far side says that it is at it, which uses up no send; and what was done is sent.
#[test]
fn a_flush_ends_and_what_was_done_is_sent() {
    let place = Place::sqlite();
    let far = Counting::there();
    far.says(Mood::AboutTheKey("in-flight"));
    let id = place.add(&far, "1");
    let began = Instant::now();
    let ran = place.flush("--wait 2s --max-sends 1");
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    assert_eq!(ran.code, 4, "{ran}");
    assert!(ran.stdout.contains("the far side is still working on an earlier send"), "{ran}");
    assert!((1..=3).contains(&far.requests()), "{}", far.requests());
    assert_eq!(place.items("")[0]["sends"], 0);
    far.says(Mood::AboutTheKey("response-not-kept"));
    let ran = place.flush("");
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "Sent: 1. Failed: 0.\n"), "{ran}");
    assert!(ran.stderr.contains("done by an earlier send, whose answer was not kept"), "{ran}");
    assert_eq!(place.items("")[0]["id"], id.as_str());
    assert_eq!(place.items("")[0]["state"], "sent");
}

/// R-I7: what cannot be sent is refused with advice that fits this command.
#[test]
fn hints_name_the_flags_of_the_outbox() {
    let place = Place::sqlite();
    let large = place.home.folder.path().join("large");
    std::fs::File::create(&large).unwrap().set_len(70 << 20).unwrap();
    let data = format!("@{}", large.display());
    for (more, code, says) in [
        (["--data", "1", "ftp://h/"], 2, "redrive outbox add --method"),
        (["--method", "P OST", "http://h/"], 2, "redrive outbox add --method"),
        (["--data", &data, "http://h/"], 1, "send its address with --data"),
    ] {
        let ran = place.run("add", &more);
        assert!(ran.code == code && ran.stderr.contains(says), "{more:?}: {ran}");
        assert!(!ran.stderr.contains("--http") && !ran.stderr.contains("job"), "{more:?}: {ran}");
    }
}

/// R-I7: a key is for one call, and a save is one item however often it is added.
#[test]
fn keys_and_saves() {
    let place = Place::sqlite();
    let far = Counting::there();
    let first = place.run("add --key order-7 --data", &["1", &far.url()]);
    assert_eq!(first.code, 0, "{first}");
    let other = place.run("add --key order-7 --data", &["2", &far.url()]);
    assert_eq!((other.code, other.stdout.as_str()), (1, ""), "{other}");
    assert!(other.stderr.contains("has the key order-7 already, with another call"), "{other}");
    let saved = place.run("add --save draft --data", &["1", &far.url()]);
    assert_ne!(saved.stdout, first.stdout);
    assert_eq!(place.run("add --save draft --data", &["1", &far.url()]).stdout, saved.stdout);
    assert_eq!(place.flush("").code, 0);
    assert!(far.keys().contains("order-7") && far.keys().len() == 2, "{:?}", far.keys());
    let next = place.run("add --save draft --data", &["2", &far.url()]);
    assert!(next.code == 0 && next.stdout != saved.stdout, "{next}");

    for (words, says) in [
        ("add --key a,b http://h/", "visible ASCII"),
        ("add --key a --save b http://h/", "--save"),
        ("add ftp://h/", "its scheme is ftp"),
        ("add --method CONNECT http://h/", "CONNECT"),
        ("add --header Host:x http://h/", "Host"),
        ("show 12x", "outbox-7"),
        ("retry", "missing"),
        ("list --state lost", "pending, sent, failed"),
    ] {
        let ran = place.run(words, &[]);
        assert!(ran.code == 2 && ran.stderr.contains(says), "{words}: {ran}");
    }
}

/// R-I7, R-D7: secrets are sent as they were given, and shown nowhere; control characters move nothing.
#[test]
fn secrets_are_sent_and_not_shown() {
    let place = Place::sqlite();
    let far = Counting::there();
    let url = far.url().replace("http://", "http://ada:hunter2-pass@") + "?token=hunter2-token";
    let headers = ["--header", "Authorization: Bearer hunter2-bearer", "--header", "X-Api-Key: hunter2-key"];
    let body = "{\"text\":\"\\u001b[2J\",\"password\":\"hunter2-body\"}";
    let added = place.run("add --lane", &[&["mail\u{202e}", "--data", body], &headers[..], &[&url]].concat());
    assert_eq!(added.code, 0, "{added}");
    let id = added.stdout.trim();
    far.says(Mood::Repeating);
    let mut said = added.to_string();
    for (words, more) in [
        ("flush", &[][..]),
        ("list", &[]),
        ("list --json", &[]),
        ("show", &[id]),
        ("show --with-payload", &[id]),
        ("show --with-payload --json", &[id]),
    ] {
        said += &place.run(words, more).to_string();
    }
    said += &place.home.redrive(&format!("{} events --json", place.flags), &[]).to_string();
    assert!(!said.contains("hunter2"), "{said}");
    assert!(!said.contains(['\u{1b}', '\u{202e}']), "{said}");
    let request = far.last_request();
    for sent in ["hunter2-token", "Bearer hunter2-bearer", "hunter2-key", "hunter2-body"] {
        assert!(request.contains(sent), "{sent}: {request}");
    }
}

/// Killed at random moments, and with answers that get lost: every item arrives, and under one key.
fn killed(place: &Place) {
    const ITEMS: usize = 24;
    let far = Counting::there();
    far.says(Mood::LosingAnswers);
    far.takes(Duration::from_millis(15));
    let bodies: Vec<String> = (0..ITEMS).map(|n| format!("{{\"n\":{n}}}")).collect();
    for body in &bodies {
        place.add(&far, body);
    }
    let mut chance = u64::from(std::process::id()) | 1;
    let mut kills = 0;
    while far.keys().len() < ITEMS && kills < 5 {
        let before = far.requests();
        let command = format!("{} outbox flush --policy quick --max-sends 1000", place.flags);
        let flushing = place.home.spawn(&command, &[]);
        let began = Instant::now();
        while far.requests() == before {
            assert!(began.elapsed() < Duration::from_secs(30), "nothing is sent");
            std::thread::sleep(Duration::from_millis(1));
        }
        // Anywhere between before, during and behind a send.
        chance ^= chance << 13;
        chance ^= chance >> 7;
        chance ^= chance << 17;
        std::thread::sleep(Duration::from_millis(chance % 60));
        flushing.signal("KILL");
        flushing.finish();
        kills += 1;
    }
    assert!(kills >= 2, "it was over before it was killed");
    let ran = place.flush("--max-sends 1000");
    assert_eq!(ran.code, 0, "{ran}");
    assert!(place.items("").iter().all(|item| item["state"] == "sent"));
    let arrived: BTreeSet<String> = far.bodies().into_iter().collect();
    assert_eq!(arrived, bodies.into_iter().collect(), "nothing is lost");
    assert_eq!((far.effects(), far.keys().len()), (ITEMS, ITEMS), "one effect and one key each");
    assert_eq!(far.most_at_once(), 1, "nobody sends an item twice at the same time");
    let mut order = far.bodies();
    order.dedup();
    assert_eq!(order.len(), ITEMS, "in order, whoever sends: {order:?}");
}

/// R-I7: SIGKILL of a flush at random moments: effects are as many as keys, and nothing is lost.
#[test]
fn a_flush_that_is_killed_loses_and_doubles_nothing() {
    killed(&Place::sqlite());
}

/// R-I7: the same on PostgreSQL.
#[test]
fn a_flush_that_is_killed_loses_and_doubles_nothing_on_postgres() {
    if let Some(place) = Place::postgres() {
        killed(&place);
    }
}

/// R-I7: watching sends what comes and what could not be reached, and ends as it is asked to.
#[test]
fn watching_goes_on_until_it_is_asked_to_end() {
    let place = Place::sqlite();
    let far = Counting::away();
    place.add(&far, "1");
    let mut watching =
        place.home.spawn(&format!("{} outbox flush --watch --policy quick --json", place.flags), &[]);
    watching.wait_for("\"result\":\"not_reached\"");
    far.comes();
    watching.wait_for("\"result\":\"sent\"");
    let id = place.add(&far, "2");
    watching.wait_for(&format!("{{\"id\":\"{id}\""));
    watching.signal("TERM");
    let ran = watching.finish();
    assert_eq!((ran.code, far.bodies()), (0, vec!["1".to_owned(), "2".to_owned()]), "{ran}");
    assert!(ran.stdout.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{ran}");
}
