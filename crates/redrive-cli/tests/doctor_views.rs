//! What `doctor` and `health` say, for people and programs, in both languages (issue 8, operations; R-C2).

#![allow(clippy::unwrap_used)]

use std::process::Command;

/// Issue 8, operations: a store that is not there, one with a job that nobody takes, and a server that is not there. Nothing is changed.
#[test]
fn the_doctor_says_what_it_found() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("redrive.db");
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let run = |words: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_redrive"))
            .args(words.split(' '))
            .env_clear()
            .env("REDRIVE_STORE", format!("sqlite:{}", db.display()))
            .current_dir(folder.path())
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        (output.status.code().unwrap(), said)
    };
    let (code, said) = run("doctor");
    assert!(code == 4 && said.contains("there is no store at") && !db.exists(), "{code} {said}");
    // For the server of this machine that is fine, for one that was named it is not.
    let (code, said) = run(&format!("doctor --server http://{free}"));
    assert!(code == 1 && said.contains("nobody listens"), "{said}");
    let (code, said) = run(&format!("health http://{free}"));
    assert!(code == 1 && said.contains("nobody listens"), "{said}");
    assert_eq!(run("health ftp://x").0, 2);

    assert_eq!(run("enqueue --kind other --payload {}").0, 0);
    let (code, said) = run("doctor");
    assert_eq!(code, 1, "{said}");
    for words in ["no worker is present, and jobs are due: 1", "redrive serve", "Problems: 1"] {
        assert!(said.contains(words), "{said}");
    }
    let (_, said) = run("doctor --json");
    let json: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&json["schema"], &json["problems"]), (&"redrive/doctor.v1".into(), &1.into()));
    let all = json["findings"].as_array().unwrap();
    let workers = all.iter().find(|finding| finding["check"] == "workers").unwrap();
    assert_eq!((&workers["verdict"], &workers["fix"]), (&"problem".into(), &"redrive serve".into()));
    assert!(run("doctor --lang ja").1.contains("問題 1 件"));
}
