//! Bad input to the commands that use a store: ids that are not there, files that are no stores, payloads that are no
//! JSON. A clear error with its hint, a documented code, and no panic (R-C1, R-D1).

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use support::stored::{Seeded, seeded};
use support::{line, redrive};

/// Each wrong command line, its exit code, and words its error must contain.
#[test]
fn what_is_wrong_is_named_with_what_to_do() {
    let store = seeded();
    for (command, code, words) in [
        ("explain job_99", 3, "there is no job job_99 in sqlite:"),
        ("explain EVT-20151021-072000-0000ff", 3, "there is no job EVT-20151021-072000-0000ff in sqlite:"),
        ("explain seventeen", 2, "job_17"),
        ("explain", 2, "<ID>"),
        ("explain -- -1", 2, "job_17"),
        ("dlq show job_3", 3, "job_3 is no dead letter in sqlite:"),
        ("dlq show 99999999999999999999", 2, "job_17"),
        ("dlq --cause netwrok", 2, "did you mean network?"),
        ("dlq --limit 0", 2, "from 1 to 10000"),
        ("dlq show", 2, "<ID>"),
        ("retry job_3", 3, "job_3 is no dead letter"),
        ("retry job_2", 2, "redrive retry job_2 --yes"),
        ("redrive", 2, "missing argument"),
        ("redrive --all job_1", 2, "cannot be used together"),
        ("redrive --all", 2, "redrive redrive --all --yes"),
        ("events --status dead", 2, "dead_letter"),
        ("events --since yesterday", 2, "2026-11-15T11:00:00Z"),
        ("events --job x", 2, "job_17"),
        ("enqueue", 2, "missing argument"),
        ("enqueue --kind x --payload {bad", 2, "not valid JSON"),
        ("enqueue --payload {}", 2, "--kind"),
        ("enqueue --kind x", 2, "--payload"),
        ("enqueue --kind x --payload {} --priority 101", 2, "from -100 to 100"),
        ("enqueue --kind x --payload {} --policy nightly", 2, "there is no policy \"nightly\""),
        ("enqueue --kind x --payload {} --exec ls", 2, "cannot be used together"),
        ("enqueue --http GET ftp://example.com/", 2, "no http or https address"),
        ("enqueue --http CONNECT https://example.com/", 2, "no method"),
        ("enqueue --http GET", 2, "--http"),
        ("enqueue --http GET https://example.com/ --header nonsense", 2, "Name: value"),
        ("enqueue --http GET https://example.com/ --header Host:x", 2, "leave it out"),
        ("enqueue --http PUT https://example.com/ --body @/nonexistent/body", 1, "/nonexistent/body"),
        ("work --concurrency 0", 2, "from 1 to 1024"),
        ("run", 2, "<CMD>"),
        ("run --timeout 0s -- true", 2, "at least 1ms"),
        ("import /nonexistent/events.jsonl", 1, "/nonexistent/events.jsonl"),
        ("store backup", 2, "<FILE>"),
    ] {
        let command = format!("{} {command}", store.flags());
        let ran = line(&command).run();
        assert_eq!(ran.code, code, "{command}: {ran}");
        assert!(ran.stderr.starts_with("error: ") && ran.stderr.contains("\nhint: "), "{command}: {ran}");
        assert!(ran.stderr.contains(words), "{command}: {ran}");
        assert_eq!(ran.stdout, "", "{command}");
        let japanese = line(&command).env("REDRIVE_LANG", "ja").run();
        assert_eq!(japanese.code, code, "{command}");
        let lines: Vec<&str> = japanese.stderr.lines().collect();
        assert!(lines.len() == 2 && lines.iter().all(|line| !line.is_ascii()), "{command}: {japanese}");
    }
    assert!(support::stored::is_sound(&store.path));
}

/// R-D1: a payload is at most 1 MiB, whichever way it comes.
#[test]
fn a_payload_too_large_is_refused() {
    let store = seeded();
    let large = format!("\"{}\"", "x".repeat(1 << 20));
    let url = store.path.to_str().unwrap();
    let ran = redrive(["enqueue", "--kind", "k", "--payload", &large, "--store", url]).run();
    assert!(ran.code == 1 && ran.stderr.contains("1048576"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("store check"), "the store is not to blame: {}", ran.stderr);
    let ran = redrive(["enqueue", "--http", "PUT", "http://localhost/", "--body", "-", "--store", url])
        .stdin(vec![b'x'; 3 << 20])
        .run();
    assert!(ran.code == 1 && ran.stderr.contains("1048576"), "{}", ran.stderr);
}

/// R-D1: files that are no stores are named, and left as they are.
#[test]
fn files_that_are_no_stores_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let garbage =
        b"this is no database at all, but it is long enough to be taken for the header of one, as it is read";
    std::fs::write(path("garbage.db"), garbage).unwrap();
    std::fs::create_dir(path("folder.db")).unwrap();
    let newer = newer_store();
    for (store, words) in [
        (path("garbage.db"), "garbage.db"),
        (path("folder.db"), "folder.db"),
        (path("garbage.db").join("inside.db"), "garbage.db"),
        (newer.path.clone(), "written by a newer redrive"),
    ] {
        for command in
            ["status", "dlq", "explain 1", "enqueue --kind k --payload {}", "store check", "store migrate"]
        {
            for lang in ["en", "ja"] {
                let ran = line(&format!("{command} --lang {lang} --store sqlite:{}", store.display())).run();
                assert!([1, 3].contains(&ran.code), "{command}: {ran}");
                assert!(
                    ran.stderr.starts_with("error: ") && ran.stderr.contains("\nhint: "),
                    "{command}: {ran}"
                );
                if lang == "en" && ran.code == 1 {
                    assert!(ran.stderr.contains(words), "{command}: {ran}");
                }
            }
        }
    }
    assert_eq!(std::fs::read(path("garbage.db")).unwrap(), garbage);
}

/// A store whose schema says that a later redrive wrote it: `user_version` stands at byte 60 of the file.
fn newer_store() -> Seeded {
    let store = seeded();
    let mut bytes = std::fs::read(&store.path).unwrap();
    bytes[60..64].copy_from_slice(&9_999_u32.to_be_bytes());
    std::fs::write(&store.path, bytes).unwrap();
    store
}

/// R-C1, R-D7: a database that is named wrongly, or does not answer, is told of at once and without its password.
#[test]
fn a_database_is_refused_without_its_password() {
    for command in ["status", "dlq", "work", "enqueue --kind k --payload {}", "store migrate"] {
        let ran = line(&format!("{command} --store postgres://u:hunter2@h/db?nonsense=1")).run();
        assert_eq!(ran.code, 2, "{command}: {ran}");
        assert!(
            ran.stderr.contains("unknown option") && ran.stderr.contains("postgres://USER@HOST"),
            "{ran}"
        );
        assert!(!ran.to_string().contains("hunter2"), "{ran}");
    }
    let ran = line("status --store postgres://u:hunter2@127.0.0.1:1/db").run();
    assert_eq!(ran.code, 1, "{ran}");
    assert!(ran.stderr.contains("cannot be reached: postgres://127.0.0.1:1/db"), "{ran}");
    assert!(!ran.to_string().contains("hunter2"), "{ran}");
}

/// R-E4: lines that cannot be read are counted and kept, the others are brought in once.
#[test]
fn an_import_keeps_what_it_cannot_read() {
    let store = seeded();
    let exported = line(&format!("export {}", store.flags())).run();
    assert_eq!((exported.code, exported.stdout.lines().count()), (0, 18), "{exported}");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.jsonl"), format!("{}not json\n", exported.stdout)).unwrap();
    let import = || line("import a.jsonl --json --store sqlite:fresh.db").in_directory(folder.path()).run();
    for (added, known) in [(18, 0), (0, 18)] {
        let ran = import();
        let counts: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!((ran.code, &counts["schema"]), (4, &"redrive/imported.v1".into()), "{ran}");
        assert_eq!(
            (&counts["added"], &counts["known"], &counts["kept_aside"]),
            (&added.into(), &known.into(), &1.into()),
            "{ran}"
        );
    }
    let again = line("export copy.jsonl --store sqlite:fresh.db").in_directory(folder.path()).run();
    assert_eq!(again.code, 0, "{again}");
    let twice = line("export copy.jsonl --store sqlite:fresh.db").in_directory(folder.path()).run();
    assert!(twice.code == 1 && twice.stderr.contains("exists already"), "{twice}");
    let copied = std::fs::read_to_string(folder.path().join("copy.jsonl")).unwrap();
    assert_eq!(copied.lines().count(), 18);
}
