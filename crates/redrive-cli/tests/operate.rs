//! The commands that operate, as processes, on both back ends: groups, edits by real editors, letting go, moving letters from
//! one store to another, and pausing a queue.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

mod process_store;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use process_store::{Home, Ran, Running};
use serde_json::Value;

/// A store of its own, and a folder for its files.
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

    fn run(&self, words: &str) -> Ran {
        self.run_with(words, &[])
    }

    fn run_with(&self, words: &str, more: &[&str]) -> Ran {
        self.home.redrive(&format!("{} {words}", self.flags), more)
    }

    fn json(&self, words: &str) -> Value {
        self.home.json(&format!("{} {words}", self.flags))
    }

    fn spawn(&self, words: &str) -> Running {
        self.home.spawn(&format!("{} {words}", self.flags), &[])
    }

    /// With an editor that is a script of these lines; `$1` is the file.
    fn edit(&self, words: &str, script: &str) -> Ran {
        let editor = self.home.folder.path().join("my editor.sh");
        std::fs::write(&editor, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&editor, PermissionsExt::from_mode(0o755)).unwrap();
        let mut command = self.home.command(&format!("{} dlq edit {words}", self.flags));
        let output = command
            .env("VISUAL", format!("'{}' --wait", editor.display()))
            .env("EDITOR", "false")
            .env("USER", "ada")
            .env("REDRIVE", env!("CARGO_BIN_EXE_redrive"))
            .env("FLAGS", &self.flags)
            .env("TMPDIR", self.home.folder.path())
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ran {
            code: output.status.code().unwrap_or(-1),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }

    /// Letters of these commands, each of which fails for good at once.
    fn letters(&self, commands: &[&str]) {
        for command in commands {
            let ran = self.run_with("enqueue --queue mail --exec sh -c", &[command]);
            assert_eq!(ran.code, 0, "{ran}");
        }
        assert_eq!(self.run("work --until-empty -q").code, 0);
    }

    fn groups(&self) -> Vec<Value> {
        self.json("dlq groups")["items"].as_array().unwrap().clone()
    }

    fn events(&self, flags: &str) -> Vec<Value> {
        let ran = self.run(&format!("events --json {flags}"));
        assert_eq!(ran.code, 0, "{ran}");
        ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn is_sound(&self) {
        let ran = self.run("store check");
        assert_eq!(ran.code, 0, "{ran}");
    }

    /// Files that editors worked on and that are still there.
    fn kept(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.home.folder.path()).unwrap();
        let folders = entries.map(|entry| entry.unwrap().path());
        folders
            .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("redrive-edit-"))
            .collect()
    }
}

fn everywhere(test: impl Fn(&Place)) {
    test(&Place::sqlite());
    if let Some(place) = Place::postgres() {
        test(&place);
    }
}

const REFUSED: &str = "echo 'permission denied for user 17' >&2; exit 77";
const REFUSED_TOO: &str = "echo 'permission denied for user 18' >&2; exit 77";
const INVALID: &str = "echo 'invalid column secret-marker' >&2; exit 65";

/// R-D10, R-D8: three letters are two errors; one is mended in an editor and put back, which the group and the numbers tell.
#[test]
fn a_letter_is_mended_in_an_editor_and_its_group_follows() {
    everywhere(|place| {
        place.letters(&[REFUSED, REFUSED_TOO, INVALID]);
        let groups = place.groups();
        assert_eq!(groups.len(), 2, "{groups:?}");
        assert_eq!((&groups[0]["count"], &groups[0]["cause"]), (&2.into(), &"auth_error".into()));
        assert_eq!((&groups[0]["state"], &groups[1]["count"]), (&"open".into(), &1.into()));
        let fingerprint = groups[0]["fingerprint"].as_str().unwrap();
        let other = groups[1]["fingerprint"].as_str().unwrap();

        let ran = place.run_with(&format!("dlq ack {} --note", &fingerprint[..6]), &["asked the provider"]);
        assert_eq!(ran.code, 0, "{ran}");
        let group = place.json(&format!("dlq show --group {fingerprint}"));
        assert_eq!((&group["state"], &group["note"]), (&"acknowledged".into(), &"asked the provider".into()));
        assert_eq!(group["letters"]["items"].as_array().unwrap().len(), 2);
        let listed = place.json(&format!("dlq list --group {}", &other[..6]));
        assert_eq!(listed["items"].as_array().unwrap().len(), 1);

        for (id, redrive) in [(1, "--redrive"), (2, "")] {
            let ran = place.edit(&format!("{id} --yes {redrive}"), "sed -i 's/exit 77/exit 0/' \"$2\"");
            assert_eq!(ran.code, 0, "{ran}");
            assert!(ran.stderr.contains("\n-    \"echo 'permission"), "{ran}");
            assert!(!ran.stderr.contains("argv"), "only lines that changed: {ran}");
        }
        assert_eq!(place.kept(), Vec::<PathBuf>::new());
        assert_eq!(place.run("redrive 2").code, 0);
        assert_eq!(place.run("work --until-empty -q").code, 0);
        let groups = place.groups();
        // What is resolved stands last, however large it was.
        assert_eq!((&groups[0]["fingerprint"], &groups[1]["state"]), (&other.into(), &"resolved".into()));
        assert_eq!((&groups[1]["count"], &groups[1]["recovered"]), (&0.into(), &2.into()));
        let metrics = place.json("metrics");
        assert_eq!(metrics["recovery"]["success_rate"], 100.0, "{metrics}");
        assert_eq!((&metrics["totals"]["dead"], &metrics["totals"]["succeeded"]), (&3.into(), &2.into()));
        assert_eq!(metrics["by_cause"]["auth_error"], 2);
        place.is_sound();
    });
}

/// R-D8: whatever an editor does, nothing is stored that nobody wanted, and nothing that was typed is lost.
#[test]
fn editors_that_fail() {
    everywhere(|place| {
        place.letters(&[REFUSED]);
        let before = place.json("dlq show 1 --with-payload")["original_payload"].clone();
        let check = |script: &str, code: i32, says: &str, kept: usize| {
            let ran = place.edit("1 --yes", script);
            assert_eq!(ran.code, code, "{script}: {ran}");
            assert!(ran.stderr.contains(says), "{script}: {ran}");
            let folders = place.kept();
            assert_eq!(folders.len(), kept, "{script}: {ran}");
            for folder in folders {
                assert_eq!(mode(&folder), 0o700);
                let file = folder.join("job_1.json");
                assert!(ran.stderr.contains(&format!("kept in {}", file.display())), "{ran}");
                assert!(std::fs::read_to_string(&file).unwrap().contains("typed"), "{script}");
                std::fs::remove_dir_all(&folder).unwrap();
            }
            assert_eq!(place.json("dlq show 1 --with-payload")["original_payload"], before, "{script}");
        };
        check("test \"$1\" = --wait || exit 9; exit 0", 0, "nothing was changed", 0);
        check("touch \"$2\"", 0, "nothing was changed", 0);
        check("exit 3", 1, "ended with code 3", 0);
        check("echo '\"typed\"' > \"$2\"; exit 3", 1, "ended with code 3", 1);
        check("kill -9 $$", 1, "killed by signal 9", 0);
        check("echo '\"typed\"' > \"$2\"; kill -9 $$", 1, "killed by signal 9", 1);
        check("echo '{\"typed\"' > \"$2\"", 1, "is none any more", 1);
        check("echo '{\"typed\":1}' > \"$2\"", 1, "nobody could run this as exec", 1);
        check(
            "mv \"$2\" \"$2.bak\"; sed 's/user/typed/' \"$2.bak\" > \"$2\"; exit 1",
            1,
            "ended with code 1",
            1,
        );
        // Somebody else is faster.
        let faster = "$REDRIVE $FLAGS dlq edit 1 --set 'umask=0077' --yes -q >/dev/null 2>&1 || exit 8";
        let ran = place.edit("1 --yes", &format!("{faster}\nsed -i 's/user/typed/' \"$2\""));
        assert_eq!(ran.code, 1, "{ran}");
        assert!(ran.stderr.contains("somebody else has edited job_1 meanwhile"), "{ran}");
        assert_eq!(place.kept().len(), 1);
        let payload = place.json("dlq show 1 --with-payload")["original_payload"].clone();
        assert_eq!((&payload["umask"], &payload["argv"]), (&"0077".into(), &before["argv"]));
        let versions = place.json("dlq show 1 --versions --with-payload");
        assert_eq!(versions["items"][0]["payload"], before, "{versions}");
        assert_eq!(versions["items"].as_array().unwrap().len(), 1);
        place.is_sound();
    });
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// R-D8: without an editor there is a way that says so; with none named, the usual one is looked for.
#[test]
fn no_editor_at_all() {
    let place = Place::sqlite();
    place.letters(&[REFUSED]);
    let edit = |name: &str, value: &str| {
        let mut command = place.home.command(&format!("{} dlq edit 1 --yes", place.flags));
        let output = command.env(name, value).env("TMPDIR", place.home.folder.path()).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for (name, value, says) in [
        ("PATH", "/nonexistent", "set VISUAL or EDITOR"),
        ("EDITOR", "/nonexistent/editor", "cannot be started"),
        ("EDITOR", "vi 'open", "names no editor"),
    ] {
        let (code, stderr) = edit(name, value);
        assert!(code == Some(1) && stderr.contains(says), "{name}={value}: {code:?} {stderr}");
    }
    assert_eq!(place.kept(), Vec::<PathBuf>::new());
}

/// R-D6, R-D7: letters go with a reason that their events tell, and no event tells the payload.
#[test]
fn letters_go_for_good() {
    everywhere(|place| {
        place.letters(&[REFUSED, REFUSED_TOO, INVALID]);
        let groups = place.groups();
        let fingerprint = groups[0]["fingerprint"].as_str().unwrap();
        let ran = place.run(&format!("dlq discard --group {fingerprint}"));
        assert!(ran.code == 2 && ran.stderr.contains("2; nobody is there to ask"), "{ran}");
        let would = place.json(&format!("dlq discard --group {fingerprint} --dry-run"));
        assert_eq!((&would["matching"], &would["discarded"]), (&2.into(), &0.into()));
        assert_eq!(would["sample"][0]["cause"], "auth_error");
        let ran =
            place.run_with(&format!("dlq discard --group {fingerprint} --yes --why"), &["no such customer"]);
        assert_eq!(ran.code, 0, "{ran}");
        let events = place.events("--type letter_discarded");
        assert_eq!(events.len(), 2, "{events:?}");
        assert!(events[0].to_string().contains("no such customer"), "{}", events[0]);
        assert_eq!(place.run("dlq purge --older-than 1h --yes").code, 0);
        assert_eq!(place.json("status")["dead_letter_queue"], 1);
        assert_eq!(place.run("dlq purge --older-than 0s --where queue=mail --yes").code, 0);
        assert_eq!(place.events("--type letter_purged").len(), 1);
        assert_eq!(place.json("status")["dead_letter_queue"], 0);
        let all = place.run("events --json --limit 1000").stdout;
        assert!(!all.contains("argv") && !all.contains("exit 77"), "{all}");
        assert_eq!(place.run("dlq discard 1 --yes").code, 3);
        place.is_sound();
    });
}

/// R-E4: letters move from one store to another, once, and run there as they would have run here.
#[test]
fn letters_move_to_another_store() {
    everywhere(|place| {
        let key = "echo $REDRIVE_IDEMPOTENCY_KEY > key; exit 77";
        place.letters(&[REFUSED, key]);
        let folder = place.home.folder.path();
        let key = std::fs::read_to_string(folder.join("key")).unwrap();
        let ran = place.run("dlq export letters.jsonl --with-payload");
        assert!(ran.code == 0 && ran.stderr.contains("letters.jsonl: 2"), "{ran}");
        assert_eq!(mode(&folder.join("letters.jsonl")), 0o600);
        assert_eq!(place.run("dlq export letters.jsonl").code, 1, "nothing is overwritten");
        let lines = std::fs::read_to_string(folder.join("letters.jsonl")).unwrap();
        let without = place.run("dlq export").stdout;
        assert!(lines.contains("argv") && !without.contains("argv"), "{without}");
        assert_eq!(without.lines().count(), 2);
        let csv = place.run("dlq export --csv --where id=1").stdout;
        assert!(csv.starts_with("id,timestamp,queue,") && csv.contains("\njob_1,"), "{csv}");

        // They still live here.
        let known = place.json("dlq import letters.jsonl");
        assert_eq!((&known["added"], &known["known"]), (&0.into(), &2.into()));
        let there = Place::sqlite();
        let file = folder.join("letters.jsonl").display().to_string();
        for (added, known) in [(2, 0), (0, 2)] {
            let imported = there.json(&format!("dlq import {file}"));
            assert_eq!((&imported["added"], &imported["known"]), (&added.into(), &known.into()));
        }
        assert_eq!(there.groups().len(), place.groups().len());
        // Without payloads they are events there, once; here they are known.
        std::fs::write(folder.join("bare.jsonl"), &without).unwrap();
        let bare = folder.join("bare.jsonl").display().to_string();
        for (as_events, known) in [(2, 0), (0, 2)] {
            let imported = there.json(&format!("dlq import {bare}"));
            assert_eq!((&imported["as_events"], &imported["known"]), (&as_events.into(), &known.into()));
        }
        assert_eq!(place.json("dlq import bare.jsonl")["known"], 2);
        std::fs::remove_file(folder.join("key")).unwrap();
        assert_eq!(there.run("redrive --all --yes").code, 0);
        assert_eq!(there.run("work --until-empty -q").code, 0);
        assert_eq!(std::fs::read_to_string(folder.join("key")).unwrap(), key, "the same key elsewhere");

        // A letter that went comes back; one that has recovered does not.
        assert_eq!(place.run("dlq discard 1 --yes").code, 0);
        assert_eq!(place.edit("2 --yes --redrive", "sed -i 's/exit 77/exit 0/' \"$2\"").code, 0);
        assert_eq!(place.run("work --until-empty -q").code, 0);
        let again = place.json("dlq import letters.jsonl");
        assert_eq!((&again["added"], &again["known"]), (&1.into(), &1.into()));
        place.is_sound();
        there.is_sound();
    });
}

/// R-E4: what 000 and 003 wrote, mixed; bad lines are named and kept, and what nobody can run is an event.
#[test]
fn letters_of_others_are_taken_in() {
    everywhere(|place| {
        let lines = [
            r#"{"event_id":"EVT-1","timestamp":"2024-01-01T00:00:00","error_type":"ConnectionError","error_message":"connection refused","error_category":"network","retry_count":3,"job_type":"sync","original_payload":{"id":7},"context":{}}"#,
            r#"{"event_id":"EVT-2","timestamp":"2024-01-01T00:00:00","event_type":"action","source":"notion","status":"dead_letter","data":{"attempted_action":"fetch"},"error_info":{"category":"transient","message":"timeout","type":"TimeoutError","stacktrace":""},"retry_info":{"count":3,"max_retries":3,"exhausted":true}}"#,
            "not json",
            r#"{"event_id":"EVT-3","timestamp":"2024-01-01T00:00:00","event_type":"action","source":"notion","status":"success"}"#,
            "",
        ];
        let file = place.home.folder.path().join("old.jsonl");
        std::fs::write(&file, lines.join("\n")).unwrap();
        let ran = place.run("dlq import old.jsonl --json");
        assert_eq!(ran.code, 4, "{ran}");
        let imported: Value = serde_json::from_str(&ran.stdout).unwrap();
        for (field, n) in [("added", 1), ("as_events", 1), ("kept_aside", 2), ("known", 0)] {
            assert_eq!(imported[field], n, "{field}: {imported}");
        }
        assert!(
            ran.stderr.contains("old.jsonl:3: ") && ran.stderr.contains("old.jsonl:4: no dead letter"),
            "{ran}"
        );
        let again: Value = serde_json::from_str(&place.run("dlq import old.jsonl --json").stdout).unwrap();
        assert_eq!(
            (&again["added"], &again["as_events"], &again["known"]),
            (&0.into(), &0.into(), &2.into())
        );
        let letter = place.json("dlq --with-payload")["items"][0].clone();
        assert_eq!((&letter["kind"], &letter["cause"]), (&"sync".into(), &"network".into()));
        assert_eq!((&letter["original_payload"]["id"], &letter["retry_count"]), (&7.into(), &3.into()));
        assert_eq!(letter["timestamp"], "2024-01-01T00:00:00.000Z");
        place.is_sound();
    });
}

/// R-C3: a paused queue hands out nothing, others go on, and workers obey without being started again.
#[test]
fn a_queue_is_paused_and_resumed() {
    everywhere(|place| {
        assert_eq!(place.run_with("queue pause mail --why", &["the provider is down"]).code, 0);
        place.run_with("enqueue --queue mail --exec sh -c", &["echo mailed > mailed"]);
        place.run_with("enqueue --queue other --exec sh -c", &["echo other"]);
        let mut worker = place.spawn("work");
        worker.wait_for("job_2 exec attempt 1 succeeded");
        let queues = place.json("queue");
        let mail = queues["items"].as_array().unwrap().iter().find(|item| item["name"] == "mail").unwrap();
        assert_eq!((&mail["ready"], &mail["paused_why"]), (&1.into(), &"the provider is down".into()));
        assert!(mail["paused_at"].is_string() && !place.home.folder.path().join("mailed").exists());
        assert_eq!(place.json("queue resume mail")["changed"], true);
        worker.wait_for("job_1 exec attempt 1 succeeded");
        worker.signal("TERM");
        assert_eq!(worker.finish().code, 0);
        assert_eq!(place.events("--type queue_paused").len(), 1);
        assert_eq!(place.run("queue resume nowhere").code, 3);
        place.is_sound();
    });
}
