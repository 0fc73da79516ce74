//! `run --idempotency-key` as a process, on both back ends: a command line under a key is run once, whoever dies (design.md §5).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

mod process_store;

use std::time::{Duration, Instant};

use process_store::{Home, Ran, Running};
use redrive_store::{Claimed, Idempotency, KeyClaim, Sqlite, SqliteOptions, Timestamp};

/// A key lapses after ten seconds, and nothing here takes much longer.
const PATIENCE: Duration = Duration::from_mins(1);

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

    fn redrive(&self, words: &str) -> Ran {
        self.home.redrive(&format!("{} {words}", self.flags), &[])
    }

    /// A script under a key, tried once.
    fn run(&self, key: &str, script: &str) -> Ran {
        self.home.redrive(&self.words(key), &[script])
    }

    fn spawn(&self, key: &str, script: &str) -> Running {
        self.home.spawn(&self.words(key), &[script])
    }

    fn words(&self, key: &str) -> String {
        format!("{} run --max-retries 0 --idempotency-key {key} -- sh -c", self.flags)
    }

    /// What a script left behind: a line for each time that it was run.
    fn effects(&self, file: &str) -> usize {
        std::fs::read_to_string(self.home.folder.path().join(file)).unwrap_or_default().lines().count()
    }

    fn shown(&self, key: &str) -> serde_json::Value {
        self.home.json(&format!("{} idempotency show {key}", self.flags))
    }

    fn is_sound(&self) {
        let checked = self.redrive("store check");
        assert_eq!(checked.code, 0, "{checked}");
    }
}

fn once_and_no_more(place: &Place) {
    let script =
        "echo effect >> effects; echo to stdout; echo to stderr >&2; echo $REDRIVE_IDEMPOTENCY_KEY; exit 7";
    let first = place.run("order-7", script);
    assert_eq!((first.code, first.stdout.as_str()), (7, "to stdout\norder-7\n"), "{first}");
    let again = place.run("order-7", script);
    assert_eq!((again.code, again.stdout.as_str()), (7, "to stdout\norder-7\n"), "{again}");
    assert!(again.stderr.starts_with("to stderr\n") && again.stderr.contains("nothing was run"), "{again}");
    assert_eq!(place.effects("effects"), 1);

    let other = place.run("order-7", "echo effect >> effects");
    assert_eq!((other.code, other.stdout.as_str()), (2, ""), "{other}");
    assert!(other.stderr.contains("another command line (run sh, "), "{other}");
    assert!(other.stderr.contains("redrive idempotency show key-"), "{other}");
    assert_eq!(place.effects("effects"), 1);
    let other_key = place.run("order-8", script);
    assert_eq!((other_key.code, place.effects("effects")), (7, 2), "{other_key}");

    let shown = place.shown("order-7");
    assert_eq!((&shown["state"], &shown["response_status"]), (&"completed".into(), &7.into()));
    assert_eq!((&shown["endpoint"], &shown["job_id"]), (&"run sh".into(), &"job_1".into()));
    let reset = place.redrive("idempotency reset order-7 --yes");
    assert_eq!(reset.code, 0, "{reset}");
    assert_eq!((place.run("order-7", script).code, place.effects("effects")), (7, 3));

    let numbers = place.home.json(&format!("{} metrics", place.flags));
    let keys = &numbers["idempotency"];
    assert_eq!((&keys["used"], &keys["taken"]), (&5.into(), &3.into()), "{keys}");
    assert_eq!((&keys["replayed"], &keys["mismatched"]), (&1.into(), &1.into()), "{keys}");
    place.is_sound();
}

/// R-I3, design.md §5: same key and argv: the stored output and code, and nothing is run; other argv: 2; a reset runs it anew.
#[test]
fn a_command_line_is_run_once_on_sqlite() {
    once_and_no_more(&Place::sqlite());
}

/// R-I3, design.md §5: the same on PostgreSQL.
#[test]
fn a_command_line_is_run_once_on_postgres() {
    if let Some(place) = Place::postgres() {
        once_and_no_more(&place);
    }
}

fn at_the_same_time(place: &Place) {
    let script = "echo effect >> effects; sleep 0.3; echo answer";
    // The store is made first: making it is not what is tried here.
    assert_eq!(place.run("other", "true").code, 0);
    let all: Vec<Running> = (0..8).map(|_| place.spawn("same", script)).collect();
    let ended: Vec<Ran> = all.into_iter().map(Running::finish).collect();
    assert_eq!(place.effects("effects"), 1);
    for ran in &ended {
        match ran.code {
            0 => assert_eq!(ran.stdout, "answer\n", "{ran}"),
            75 => assert!(ran.stdout.is_empty() && ran.stderr.contains("nothing was run"), "{ran}"),
            _ => panic!("{ran}"),
        }
    }
    assert!(ended.iter().any(|ran| ran.code == 0));
    assert_eq!(place.run("same", script).stdout, "answer\n");
    assert_eq!(place.effects("effects"), 1);
    place.is_sound();
}

/// R-I4: of eight at the same time one runs; the others get its answer, or are told to come later.
#[test]
fn one_of_many_runs_on_sqlite() {
    at_the_same_time(&Place::sqlite());
}

/// R-I4: the same on PostgreSQL.
#[test]
fn one_of_many_runs_on_postgres() {
    if let Some(place) = Place::postgres() {
        at_the_same_time(&place);
    }
}

/// Asks until it answers with something else than that it still runs.
fn until_it_is_not_running(place: &Place, key: &str, script: &str) -> Ran {
    let began = Instant::now();
    loop {
        let ran = place.run(key, script);
        if ran.code != 75 || !ran.stderr.contains("runs this command line already") {
            return ran;
        }
        assert!(began.elapsed() < PATIENCE, "the key of a dead process is still held: {ran}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn killed_between(place: &Place) {
    // The first attempt hangs until its process is killed; a worker's attempt ends by itself.
    let good = "echo effect >> good; echo begun; test $REDRIVE_ATTEMPT = 1 && sleep 60; echo done";
    let bad = "echo effect >> bad; echo begun; test $REDRIVE_ATTEMPT = 1 && sleep 60; echo 'HTTP 401 unauthorized' >&2; exit 9";
    let mut running = [("good", good), ("bad", bad)].map(|(key, script)| place.spawn(key, script));
    for one in &mut running {
        one.wait_for("begun");
        one.signal("KILL");
    }
    for one in running {
        one.finish();
    }
    let soon = place.run("good", good);
    assert_eq!((soon.code, soon.stdout.as_str()), (75, ""), "{soon}");
    assert!(soon.stderr.contains("job_"), "which job: {soon}");
    for (key, script) in [("good", good), ("bad", bad)] {
        let later = until_it_is_not_running(place, key, script);
        assert_eq!((later.code, later.stdout.as_str()), (75, ""), "{later}");
        assert!(later.stderr.contains("is gone") && later.stderr.contains("redrive work"), "{later}");
        assert_eq!((place.effects(key), &place.shown(key)["state"]), (1, &"unknown_outcome".into()));
    }
    // A worker finds that it was begun and never ended, and does not begin it again: a person decides.
    let worked = place.redrive("work --until-empty");
    assert!(worked.code == 0 || worked.code == 1, "{worked}");
    for (key, script) in [("good", good), ("bad", bad)] {
        let dead = place.run(key, script);
        assert_eq!((dead.code, dead.stdout.as_str()), (125, ""), "{dead}");
        assert!(dead.stderr.contains("nobody knows") && dead.stderr.contains("redrive retry job_"), "{dead}");
        assert_eq!(place.effects(key), 1, "once by run, and nobody else");
    }
    let letters: serde_json::Value = serde_json::from_str(&place.redrive("dlq list --json").stdout).unwrap();
    for letter in letters["items"].as_array().unwrap() {
        let retried = place.redrive(&format!("retry {} --yes", letter["id"].as_str().unwrap()));
        assert_eq!(retried.code, 0, "{retried}");
    }
    let worked = place.redrive("work --until-empty");
    assert!(worked.code == 0 || worked.code == 1, "{worked}");
    let finished = place.run("good", good);
    assert_eq!((finished.code, finished.stdout.as_str()), (0, "begun\ndone\n"), "{finished}");
    assert!(finished.stderr.contains("a worker finished job_"), "{finished}");
    let dead = place.run("bad", bad);
    assert_eq!(dead.code, 9, "{dead}");
    assert!(dead.stderr.contains("is a dead letter") && dead.stderr.contains("redrive retry job_"), "{dead}");
    assert_eq!((place.effects("good"), place.effects("bad")), (2, 2), "once by run, once by a person's word");
    place.is_sound();
}

/// R-I4: a run that was killed is answered from its job: it waits, a worker finished it, or it is a dead letter.
#[test]
fn a_killed_run_is_answered_from_its_job_on_sqlite() {
    killed_between(&Place::sqlite());
}

/// R-I4: the same on PostgreSQL.
#[test]
fn a_killed_run_is_answered_from_its_job_on_postgres() {
    if let Some(place) = Place::postgres() {
        killed_between(&place);
    }
}

/// R-I3: what was stopped on purpose, and what never began, leaves the key free.
#[test]
fn a_key_is_free_after_a_signal_and_after_a_command_that_is_not_there() {
    let place = Place::sqlite();
    let script = "echo effect >> effects; echo begun; test -e stopped || sleep 60; echo done";
    let mut first = place.spawn("k", script);
    first.wait_for("begun");
    first.signal("TERM");
    assert_eq!(first.finish().code, 143);
    assert!(place.home.json("idempotency")["items"].as_array().unwrap().is_empty());
    std::fs::write(place.home.folder.path().join("stopped"), "").unwrap();
    let second = place.run("k", script);
    assert_eq!(
        (second.code, second.stdout.as_str(), place.effects("effects")),
        (0, "begun\ndone\n", 2),
        "{second}"
    );

    for (key, command, code) in [("missing", "./not-there", 127), ("plain", "./stopped", 126)] {
        let ran = place.redrive(&format!("run --idempotency-key {key} -- {command}"));
        assert_eq!(ran.code, code, "{ran}");
        assert_eq!(place.redrive(&format!("idempotency show {key}")).code, 3);
    }
}

/// R-I5: output that is no text comes back to the byte; of much of it the beginning is kept, and the replay says so.
#[test]
fn output_comes_back_to_the_byte_and_is_bounded() {
    let place = Place::sqlite();
    let bytes = "printf '\\377\\000\\001\\n'; printf '\\376' >&2";
    let output =
        |key: &str, script: &str| place.home.command(&place.words(key)).arg(script).output().unwrap();
    let first = output("bytes", bytes);
    let again = output("bytes", bytes);
    assert_eq!((first.stdout.as_slice(), &first.stdout), (b"\xff\x00\x01\n".as_slice(), &again.stdout));
    assert!(again.stderr.starts_with(b"\xfe"), "{:?}", String::from_utf8_lossy(&again.stderr));

    let much = "head -c 1500000 /dev/zero; echo end";
    assert_eq!(output("much", much).stdout.len(), 1_500_004);
    let again = output("much", much);
    let said = String::from_utf8_lossy(&again.stderr);
    assert_eq!((again.status.code(), again.stdout.len()), (Some(0), 1 << 20), "{said}");
    assert!(said.contains("only the first 1048576 of 1500004 bytes"), "{said}");

    // Whoever stops reading ends a replay as it ends a command.
    let mut reader_goes = place.home.command(&place.words("much")).arg(much).spawn().unwrap();
    drop(reader_goes.stdout.take());
    assert_eq!(reader_goes.wait().unwrap().code(), Some(141));
}

/// R-I4, R-I5: a process that died before it stored its job leaves what a person must look at; nothing is run until a reset.
#[test]
fn what_nobody_knows_waits_for_a_person() {
    let place = Place::sqlite();
    let script = "echo effect >> effects";
    assert_eq!(place.run("k", script).code, 0);
    let hash = place.shown("k")["request_hash"].as_str().unwrap().to_owned();
    assert_eq!(place.redrive("idempotency reset k --yes").code, 0);
    let claim = KeyClaim {
        principal: "run".into(),
        key: "k".into(),
        endpoint: "run sh".into(),
        request_hash: hash,
        hold_for: Duration::from_millis(1),
        keep_for: Duration::from_hours(72),
        rerun: false,
        job: None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Sqlite::open(&place.home.store, SqliteOptions::default()).unwrap();
        let now = Timestamp::from_system(std::time::SystemTime::now()).before(Duration::from_secs(5));
        assert!(matches!(store.claim_key(now, claim).await.unwrap(), Claimed::Taken { .. }));
    });
    let refused = place.run("k", script);
    assert_eq!((refused.code, place.effects("effects")), (125, 1), "{refused}");
    assert!(refused.stderr.contains("nobody knows how it ended"), "{refused}");
    assert!(refused.stderr.contains("redrive idempotency reset key-"), "{refused}");
    assert_eq!(place.home.events("--type idempotency_unknown").len(), 1);
    assert_eq!(place.redrive("idempotency reset k --yes").code, 0);
    assert_eq!((place.run("k", script).code, place.effects("effects")), (0, 2));
}

/// R-C1: a key needs a run that somebody waits for, and a key that can be one.
#[test]
fn what_makes_no_sense_is_refused() {
    let place = Place::sqlite();
    for words in ["run --detach --idempotency-key k -- true", "run --idempotency-key= -- true"] {
        let ran = place.redrive(words);
        assert_eq!(ran.code, 2, "{ran}");
    }
    // The command may want to send its key on, so it is one that can be sent.
    let long = "k".repeat(256);
    for key in ["a b", "schlüssel", "a,b", "\"a\"", "a\\b", "a\tb", &long] {
        for (lang, said) in
            [("en", "1 to 255 visible ASCII characters"), ("ja", "1〜255 文字で指定してください")]
        {
            let words = format!("{} --lang {lang} run --idempotency-key", place.flags);
            let ran = place.home.redrive(&words, &[key, "--", "true"]);
            assert_eq!(ran.code, 2, "{key}: {ran}");
            assert!(ran.stderr.contains("error") || ran.stderr.contains("エラー"), "{ran}");
            assert!(ran.stderr.contains(said), "{ran}");
        }
    }
    assert!(!place.home.store.exists());
}

/// R-I3: a reader that goes away does not free the key: the command had begun, and nobody asked for a stop.
#[test]
fn whose_reader_goes_away_is_run_once() {
    let place = Place::sqlite();
    for _ in 0..3 {
        // A reader that closes its end after the first line, as `head -n 1` does.
        let mut command = place.home.command(&place.words("piped"));
        command.arg("echo effect >> effects; seq 1 200000").stdout(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut reader = std::io::BufReader::with_capacity(16, child.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut reader, &mut line).unwrap();
        drop(reader);
        assert_eq!((line.as_str(), child.wait().unwrap().code()), ("1\n", Some(141)));
    }
    assert_eq!(place.effects("effects"), 1);
    place.is_sound();
}

/// R-I3: what failed, was put back by a person and succeeded is answered as what it is now.
#[test]
fn a_failed_run_that_was_mended_is_answered_anew() {
    let place = Place::sqlite();
    let script =
        "echo effect >> effects; test -e mended || { echo 'HTTP 401 unauthorized' >&2; exit 9; }; echo done";
    assert_eq!(place.run("k", script).code, 9);
    assert_eq!(place.run("k", script).code, 9);
    std::fs::write(place.home.folder.path().join("mended"), "").unwrap();
    let retried = place.redrive("retry job_1 --yes");
    assert_eq!(retried.code, 0, "{retried}");
    let soon = place.run("k", script);
    assert_eq!(soon.code, 75, "{soon}");
    assert_eq!(place.redrive("work --until-empty").code, 0);
    let mended = place.run("k", script);
    assert_eq!((mended.code, mended.stdout.as_str()), (0, "done\n"), "{mended}");
    assert_eq!(place.effects("effects"), 2, "once by run, once by a person's word");
    place.is_sound();
}
