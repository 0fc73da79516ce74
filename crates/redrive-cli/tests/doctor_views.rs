//! What `doctor` and `health` say, in every form and both languages (issue 8, operations; R-C2).

#![allow(clippy::unwrap_used, clippy::format_push_string)]

mod support;

use support::line;

/// Numbers of this machine.
fn anywhere(text: &str, folder: &str) -> String {
    let mut out = text.replace(folder, "DIR");
    for (from, to) in [("free where the store is: ", "…"), ("has what is written after ", "…")] {
        while let Some(at) = out.find(from).filter(|at| !out[at + from.len()..].starts_with(to)) {
            let start = at + from.len();
            let end = out[start..].find(['\n', '"']).map_or(out.len(), |end| start + end);
            out.replace_range(start..end, to);
        }
    }
    let kept = |line: &&str| {
        !["the store is on ", "is on overlayfs", "is on tmpfs"].iter().any(|kind| line.contains(kind))
    };
    out.lines().filter(kept).map(|line| format!("{line}\n")).collect()
}

/// Issue 8, operations: a store that is well, one with things that wait for a person, and one that is not there; a server that is not there.
#[test]
fn the_doctor_says_what_it_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let run = |words: &str| {
        line(&format!("{words} --store sqlite:{path}/redrive.db")).in_directory(folder.path()).run()
    };
    let missing = run("doctor");
    assert_eq!(missing.code, 4, "{missing}");
    assert!(missing.stdout.contains("there is no store at"), "{missing}");
    assert!(!folder.path().join("redrive.db").exists(), "it changes nothing");
    // Nothing listens there: for the server of this machine that is fine, for one that was named it is not.
    let named = run(&format!("doctor --server http://{free}"));
    assert!(named.code == 1 && named.stdout.contains("nobody listens"), "{named}");
    let health = run(&format!("health http://{free}"));
    assert!(health.code == 1 && health.stderr.contains("nobody listens"), "{health}");
    assert_eq!(run("health ftp://x").code, 2);

    assert_eq!(run("enqueue --kind other --payload {}").code, 0);
    assert_eq!(run("queue pause idle").code, 0);
    let before = std::fs::read(folder.path().join("redrive.db")).unwrap();
    let waiting = run("doctor");
    assert_eq!(waiting.code, 1, "{waiting}");
    for said in ["no worker is present, and jobs are due: 1", "redrive serve", "Problems: 1"] {
        assert!(waiting.stdout.contains(said), "{waiting}");
    }
    assert_eq!(std::fs::read(folder.path().join("redrive.db")).unwrap(), before, "it changes nothing");
    let json: serde_json::Value = serde_json::from_str(&run("doctor --json").stdout).unwrap();
    assert_eq!((&json["schema"], &json["problems"]), (&"redrive/doctor.v1".into(), &1.into()));
    let workers =
        json["findings"].as_array().unwrap().iter().find(|finding| finding["check"] == "workers").unwrap();
    assert_eq!((&workers["verdict"], &workers["fix"]), (&"problem".into(), &"redrive serve".into()));
    let mut page = String::new();
    for lang in ["en", "ja"] {
        let ran = line(&format!("doctor --lang {lang} --store sqlite:{path}/redrive.db --color never"))
            .on_a_terminal()
            .in_directory(folder.path())
            .run();
        page.push_str(&ran.stdout);
        // A line of a narrow terminal stays readable.
        assert!(ran.stdout.contains("→ redrive serve"), "{ran}");
    }
    assert!(page.contains("問題") && anywhere(&page, path).contains("DIR"), "{page}");
}
