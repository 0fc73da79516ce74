//! What stands in `deploy/` is right: the unit is one that systemd understands, and the command lines of the container run (issue 8,
//! operations; R-C1: a command that is shown runs). No container is built here: that needs an engine.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod repository;

use std::process::Command;

use repository::{files_ending, read, root};

/// The values of a key of the unit, in order.
fn values<'a>(unit: &'a str, key: &str) -> Vec<&'a str> {
    unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).collect()
}

fn seconds(value: &str) -> u64 {
    value.trim_end_matches('s').parse().unwrap()
}

/// Issue 8, operations: the unit is understood, its command line parses, and it waits longer for the end than a drain takes.
#[test]
fn the_unit_is_understood() {
    let unit = read("deploy/systemd/redrive.service");
    for (key, value) in [
        ("Type", "notify"),
        ("ExecReload", "/bin/kill -HUP $MAINPID"),
        ("User", "redrive"),
        ("StateDirectory", "redrive"),
        ("ProtectSystem", "strict"),
    ] {
        assert_eq!(values(&unit, key), [value]);
    }
    // 30 s to finish what runs and 10 s for the rest, as `serve` has it.
    assert!(seconds(values(&unit, "TimeoutStopSec")[0]) > 40);
    let start = values(&unit, "ExecStart")[0];
    let (program, words) = start.split_once(' ').unwrap();
    assert!(program.ends_with("/redrive"));
    let words: Vec<&str> = words.split(' ').collect();
    let help = Command::new(env!("CARGO_BIN_EXE_redrive")).args(&words).arg("--help").output().unwrap();
    assert!(help.status.success(), "{start}");

    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("redrive.service");
    std::fs::write(&copy, unit.replace(program, "/bin/true")).unwrap();
    let Ok(output) = Command::new("systemd-analyze").arg("verify").arg(&copy).output() else {
        println!("SKIPPED: systemd-analyze is missing; the unit was not verified on this machine");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // Older ones do not know how to wait longer each time, and say so; about other units of the machine we say nothing.
    let newer = ["RestartSteps", "RestartMaxDelaySec"];
    let about_us =
        |line: &&str| line.contains("redrive.service") && !newer.iter().any(|name| line.contains(name));
    let complaints: Vec<&str> = said.lines().filter(about_us).collect();
    assert!(complaints.is_empty(), "{said}");
}

/// Issue 8, operations: the container's command lines parse, it runs as nobody special, its store is on a volume, and what it copies exists.
#[test]
fn the_container_file_holds_what_it_promises() {
    let file = read("deploy/container/Containerfile").replace("\\\n", " ");
    let lines: Vec<(&str, &str)> = file
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
        .map(|line| line.split_once(' ').unwrap())
        .collect();
    let known = [
        "FROM",
        "RUN",
        "WORKDIR",
        "COPY",
        "USER",
        "ENV",
        "VOLUME",
        "EXPOSE",
        "STOPSIGNAL",
        "HEALTHCHECK",
        "ENTRYPOINT",
        "CMD",
    ];
    assert!(lines.iter().all(|(word, _)| known.contains(word)), "{lines:?}");
    let all =
        |word: &str| lines.iter().filter(|(of, _)| *of == word).map(|(_, rest)| *rest).collect::<Vec<_>>();
    let words = |json: &str| serde_json::from_str::<Vec<String>>(json).unwrap();
    assert_eq!(all("FROM").len(), 2);
    assert_eq!(all("USER"), ["65532:65532"]);
    // Where the built-in store lies; `installed.rs` runs it so.
    assert_eq!(all("ENV"), ["XDG_DATA_HOME=/var/lib HOME=/var/lib/redrive"]);
    assert_eq!((all("VOLUME")[0], all("WORKDIR")[1]), ("/var/lib/redrive", "/var/lib/redrive"));
    let mut copied = Vec::new();
    for line in all("COPY").iter().filter(|line| !line.starts_with("--from")) {
        let mut names: Vec<&str> = line.split(' ').collect();
        names.pop();
        assert!(names.iter().all(|name| root().join(name).exists()), "{line}");
        copied.extend(names);
    }
    builds_from(&copied);
    let redrive = |words: &[String]| {
        let output = Command::new(env!("CARGO_BIN_EXE_redrive")).args(words).arg("--help").output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    assert_eq!(words(all("ENTRYPOINT")[0]), ["redrive"]);
    redrive(&words(all("CMD")[0]));
    let check = all("HEALTHCHECK")[0].split_once("CMD ").unwrap().1;
    let check = words(check);
    assert_eq!(check[0], "redrive");
    redrive(&check[1..]);
    // What it listens to is what is exposed and asked.
    let port = all("EXPOSE")[0];
    assert!(all("CMD")[0].contains(&format!(":{port}")) && check.last().unwrap().ends_with(port));
}

/// What is copied is enough to build from, and nothing else is sent to whoever builds: no folder of build results, no history.
fn builds_from(copied: &[&str]) {
    let ignored = read(".dockerignore");
    let lines: Vec<&str> =
        ignored.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    assert_eq!(lines[0], "*", "everything stays behind that is not named");
    let sent: Vec<&str> = lines[1..].iter().map(|line| line.strip_prefix('!').unwrap()).collect();
    assert_eq!(sent, copied);
    // How the compiler is told to build stands in files that are easily forgotten.
    for settings in [".cargo", "rust-toolchain.toml", "Cargo.lock"] {
        assert!(copied.contains(&settings), "{settings} is not copied");
    }
    // No source reads a file that is not there; pages are read by doc tests alone.
    let mut read_in = 0;
    let sources = files_ending(".rs")
        .into_iter()
        .filter(|(path, _)| path.starts_with("crates/") && path.contains("/src/"));
    for (path, source) in sources {
        for part in source.split("include_str!(\"").skip(1) {
            let Some((name, _)) = part.split_once('"') else { continue };
            let mut place: Vec<&str> = path.split('/').collect();
            place.pop();
            for step in name.split('/') {
                match step {
                    ".." => drop(place.pop()),
                    step => place.push(step),
                }
            }
            let of_doc_tests = path.ends_with("/src/guides.rs");
            assert!(of_doc_tests || copied.contains(&place[0]), "{path} reads {name}");
            read_in += 1;
        }
    }
    assert!(read_in > 30, "only {read_in} files that are read into the binary were found");
}
