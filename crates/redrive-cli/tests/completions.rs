//! R-C2: completions with live ids, asked by real shells; and man pages that the programs which read them accept.
//!
//! A shell that is missing is named and skipped; with CI set that is a failure.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod support;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use support::line;
use support::stored::{Seeded, seeded};

/// Whether a program is there.
fn is_there(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let there = std::env::split_paths(&folders).any(|folder| folder.join(program).is_file());
    if !there {
        assert!(std::env::var_os("CI").is_none(), "{program} is missing: install it");
        eprintln!("SKIPPED: {program} is missing");
    }
    there
}

/// What a shell prints, with redrive on its path and a store to ask.
fn in_shell(shell: &str, flags: &[&str], script: &str, store: &Seeded) -> String {
    let folder = Path::new(env!("CARGO_BIN_EXE_redrive")).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let ran = Command::new(shell)
        .args(flags)
        .args(["-c", script])
        .env("PATH", path)
        .env("HOME", store.folder.path())
        .env("XDG_CONFIG_HOME", store.folder.path())
        .env("XDG_DATA_HOME", store.folder.path())
        .env("REDRIVE_STORE", format!("sqlite:{}", store.path.display()))
        .env("REDRIVE_LANG", "en")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.success(), "{shell}: {said}");
    String::from_utf8(ran.stdout).unwrap()
}

/// The candidates for the last of these words.
fn asked(words: &str, store: &Seeded) -> Vec<String> {
    let ran = line(&format!("__complete -- redrive {words}"))
        .env("REDRIVE_STORE", &format!("sqlite:{}", store.path.display()));
    candidates(&ran.run().stdout)
}

/// As [`asked`], with an empty word under the cursor.
fn asked_next(words: &str, store: &Seeded) -> Vec<String> {
    let args = ["__complete", "--", "redrive"].into_iter().chain(words.split_whitespace()).chain([""]);
    let ran = support::redrive(args).env("REDRIVE_STORE", &format!("sqlite:{}", store.path.display()));
    candidates(&ran.run().stdout)
}

fn candidates(stdout: &str) -> Vec<String> {
    stdout.lines().map(|line| line.split('\t').next().unwrap_or_default().to_owned()).collect()
}

/// R-C2: commands, flags, and what the store holds.
#[test]
fn what_may_follow_is_known() {
    let store = seeded();
    assert_eq!(asked("retry-", &store), ["retry-candidates"]);
    assert_eq!(asked("dlq sh", &store), ["show"]);
    assert_eq!(asked("status --abs", &store), ["--absolute"]);
    assert_eq!(asked("dlq show job_", &store), ["job_2", "job_1"]);
    assert_eq!(asked_next("explain", &store), ["job_2", "job_1"]);
    assert_eq!(asked("redrive job_1 job_2", &store), ["job_2"]);
    assert_eq!(asked("dlq --queue bi", &store), ["billing"]);
    assert_eq!(asked("dlq --queue=bi", &store), ["--queue=billing"]);
    // As bash takes it apart.
    assert_eq!(asked("dlq --queue = bi", &store), ["billing"]);
    assert_eq!(asked("dlq --cause auth", &store), ["auth_error"]);
    assert_eq!(asked("events --status dead", &store), ["dead_letter"]);
    assert_eq!(asked("policy show stand", &store), ["standard"]);
    assert_eq!(asked("completions f", &store), ["fish"]);
    assert_eq!(asked("--lang j", &store), ["ja"]);
    assert_eq!(asked_next("redrive --group", &store).len(), 2);
    assert_eq!(asked_next("run -- ls", &store), Vec::<String>::new());
    assert_eq!(asked_next("", &store).iter().filter(|name| name.starts_with("__")).count(), 0);
    // What an operator has named.
    line(&format!("push set crm --queue orders --url http://localhost:9 {}", store.flags())).run();
    line(&format!("schedule add @daily --name nightly --kind k --payload 1 {}", store.flags())).run();
    assert_eq!(asked("push show c", &store), ["crm"]);
    assert_eq!(asked("schedule remove ni", &store), ["nightly"]);
    // A store that the line names is the one that is asked.
    assert_eq!(asked("--store sqlite:/nonexistent/x.db dlq show job_", &store), Vec::<String>::new());
}

/// R-C2: without a store there is nothing to offer, and nothing to say.
#[test]
fn a_store_that_is_not_there_or_does_not_answer_is_no_trouble() {
    // Nobody answers at an address for documentation.
    for store in ["sqlite:/nonexistent/redrive.db", "postgres://192.0.2.1:5432/x", "mysql://x"] {
        let began = Instant::now();
        let ran = line("__complete -- redrive dlq show job_").env("REDRIVE_STORE", store).run();
        assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (0, "", ""), "{store}");
        assert!(began.elapsed() < Duration::from_secs(5), "{store}: {:?}", began.elapsed());
    }
}

/// R-C2: bash offers live ids.
#[test]
fn bash_completes_live_ids() {
    if !is_there("bash") {
        return;
    }
    let store = seeded();
    let ask = |words: &str| {
        let script = format!(
            "source <(redrive completions bash); complete -p redrive >/dev/null || exit 9; COMP_WORDS=({words}); \
             COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _redrive redrive; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        in_shell("bash", &["--norc", "--noprofile"], &script, &store)
    };
    assert_eq!(ask("redrive dlq show job_"), "job_2\njob_1\n");
    assert_eq!(ask("redrive dlq --queue = bi"), "billing\n");
    assert_eq!(ask("redrive expl"), "explain\n");
}

/// R-C2: zsh offers live ids, each with what it is.
#[test]
fn zsh_completes_live_ids() {
    if !is_there("zsh") {
        return;
    }
    let store = seeded();
    let script = "autoload -Uz compinit; compinit -u -D; source <(redrive completions zsh); \
                  [[ ${_comps[redrive]} == _redrive ]] || exit 9; \
                  _describe() { print -rl -- \"${(@P)3}\"; }; words=(redrive dlq show job_); CURRENT=4; _redrive";
    let offered = in_shell("zsh", &["-f"], script, &store);
    assert!(offered.starts_with("job_2:auth_error: 401 Unauthorized"), "{offered}");
    assert_eq!(offered.lines().count(), 2);
}

/// R-C2: fish offers live ids, each with what it is.
#[test]
fn fish_completes_live_ids() {
    if !is_there("fish") {
        return;
    }
    let store = seeded();
    let script = "redrive completions fish | source; complete -C 'redrive dlq show job_'";
    let offered = in_shell("fish", &["--no-config"], script, &store);
    assert!(offered.contains("job_2\tauth_error: 401 Unauthorized"), "{offered}");
    assert_eq!(offered.lines().count(), 2);
    let script = "redrive completions fish | source; complete -C 'redrive expl'";
    assert!(in_shell("fish", &["--no-config"], script, &store).starts_with("explain\t"));
}

/// R-C2: one page per command in both languages, and none that a reader complains about.
#[test]
fn man_pages_are_sound() {
    let folder = tempfile::tempdir().unwrap();
    for lang in ["en", "ja"] {
        let ran = line(&format!("man --out {lang} --lang {lang}")).in_directory(folder.path()).run();
        assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (0, "", ""));
        let pages: Vec<_> =
            std::fs::read_dir(folder.path().join(lang)).unwrap().map(|page| page.unwrap().path()).collect();
        assert!(pages.len() > 30 && pages.iter().any(|page| page.ends_with("redrive-dlq-show.1")));
        for page in &pages {
            let text = std::fs::read_to_string(page).unwrap();
            assert!(!text.contains("__complete"), "{}", page.display());
        }
        if is_there("mandoc") {
            let lint = Command::new("mandoc").args(["-Tlint", "-Wwarning"]).args(&pages).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&lint.stdout), "");
        }
        // Where no Japanese locale is installed, troff does not know where such lines may break.
        if lang == "en" && is_there("man") {
            for page in &pages {
                let read = Command::new("man")
                    .args(["--warnings", "-l"])
                    .arg(page)
                    .env("LC_ALL", "C.UTF-8")
                    .output()
                    .unwrap();
                assert_eq!(String::from_utf8_lossy(&read.stderr), "", "{}", page.display());
            }
        }
    }
    let whole = line("man").run().stdout;
    assert_eq!(whole, std::fs::read_to_string(folder.path().join("en/redrive.1")).unwrap());
}
