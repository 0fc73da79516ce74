//! The runbooks are walked as they are written (R-C6): every command of both runs against a collector in the middle of an outage,
//! with workers that really try, and what a comment says happens outside of the terminal happens there.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod outage;
mod repository;

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use outage::{Outage, PATIENCE};
use repository::transcript::{alike, commands, lines, timeless, without_colour};
use repository::{RUNBOOKS, read};

/// What a page asks for, in its order.
enum Step {
    /// `<!-- outside: … -->`.
    Outside(String),
    /// A command, and the lines that stand below it.
    Typed(String, Vec<String>),
}

fn steps(page: &str) -> Vec<Step> {
    let mut found = Vec::new();
    let mut block: Option<(bool, String)> = None;
    for line in page.lines() {
        if let Some(mark) = line.strip_prefix("```") {
            match block.take() {
                None => block = Some((mark == "console", String::new())),
                Some((true, text)) => {
                    found.extend(
                        commands(&text).into_iter().map(|(command, shown)| Step::Typed(command, shown)),
                    );
                }
                Some(_) => {}
            }
        } else if let Some((_, text)) = &mut block {
            text.push_str(line);
            text.push('\n');
        } else if let Some(outside) = line.strip_prefix("<!-- outside: ") {
            let event = outside.strip_suffix(" -->").unwrap_or_else(|| panic!("{line}"));
            found.push(Step::Outside(event.to_owned()));
        }
    }
    found
}

fn shell(line: &str, lang: &str, outage: &Outage) -> Command {
    let binary = Path::new(env!("CARGO_BIN_EXE_redrive"));
    let path = format!("{}:/usr/bin:/bin", binary.parent().expect("a folder").display());
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("exec 2>&1\n{line}")])
        .current_dir(outage.folder.path())
        .env_clear()
        .envs([("PATH", path.as_str()), ("HOME", "/home/ada"), ("LANG", "C"), ("REDRIVE_LANG", lang)])
        .envs([("CLICOLOR_FORCE", "1"), ("REDRIVE_WIDTH", "80"), ("REDRIVE_STORE", &outage.url)])
        .stdin(Stdio::null());
    command
}

/// The exit code, and what a person would see.
fn run(line: &str, lang: &str, outage: &Outage) -> (Option<i32>, String) {
    let output = shell(line, lang, outage).output().unwrap();
    (output.status.code(), without_colour(&String::from_utf8_lossy(&output.stdout)))
}

/// Watches until it has seen what the page shows, and then presses Ctrl-C.
fn watch(line: &str, shown: &[String], lang: &str, outage: &Outage) -> (Option<i32>, String) {
    let mut child = shell(&format!("exec {line}"), lang, outage).stdout(Stdio::piped()).spawn().unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (mut stream, told) = (child.stdout.take().unwrap(), Arc::clone(&heard));
    let reader = std::thread::spawn(move || {
        let mut chunk = [0; 4096];
        while let Ok(read @ 1..) = stream.read(&mut chunk) {
            told.lock().unwrap().extend_from_slice(&chunk[..read]);
        }
    });
    let text = || without_colour(&String::from_utf8_lossy(&heard.lock().unwrap()));
    let began = Instant::now();
    while !alike(shown, &lines(&text())) {
        assert!(began.elapsed() < PATIENCE, "$ {line}\nshows\n{}\nbut prints\n{}", shown.join("\n"), text());
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().unwrap().success());
    let code = child.wait().unwrap().code();
    reader.join().unwrap();
    let printed = text();
    (code, printed)
}

/// Types every command of the page. What each is, for whoever wants to know that none was left out.
fn walk(path: &str, lang: &str, outage: Outage) -> Vec<String> {
    let page = read(path);
    let mut typed = Vec::new();
    for step in steps(&page) {
        match step {
            Step::Outside(event) => outage.hear(&event),
            Step::Typed(command, shown) => {
                let follows = command.contains("--follow");
                let (code, printed) = if follows {
                    watch(&command, &shown, lang, &outage)
                } else {
                    run(&command, lang, &outage)
                };
                // With `--nocapture` this is the page as it would be today.
                println!("$ {command}\n{printed}[{code:?}]\n");
                // What follows ends by Ctrl-C.
                assert_eq!(code, Some(if follows { 130 } else { 0 }), "{path}: $ {command}\n{printed}");
                let same = alike(&shown, &lines(&printed));
                assert!(same, "{path}: $ {command}\nshows\n{}\nbut prints\n{printed}", shown.join("\n"));
                typed.push(command);
            }
        }
        outage.until_calm();
    }
    assert_eq!(outage.dead_letters(), 0, "{path} leaves letters behind");
    outage.end();
    typed
}

/// Code in running text that is a command of ours.
fn named_in_passing(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut fenced = false;
    for line in page.lines() {
        if line.starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            let codes = line.split('`').skip(1).step_by(2);
            found.extend(
                codes.filter(|code| *code == "redrive" || code.starts_with("redrive ")).map(str::to_owned),
            );
        }
    }
    found
}

fn walk_all_of(path: &str, lang: &str) {
    let typed = walk(path, lang, Outage::on_sqlite());
    assert!(typed.len() >= 25, "{path}: only {} commands were found", typed.len());
    for named in named_in_passing(&read(path)) {
        let is_typed = typed.iter().any(|command| command.starts_with(named.as_str()));
        assert!(is_typed, "{path} names `{named}`, and no block types it");
    }
}

/// What differs from night to night does not count; what does not, does.
#[test]
fn a_line_is_compared_without_its_times() {
    for (line, without) in [
        ("│ job_1 │ 172ms ago │ 3/3 │", "│ job_1 │ <long> ago │ 3/3 │"),
        ("18:07:33.099  pending  job_1", "<when> pending job_1"),
        ("(2 分前、1m03s) 250ms後", "(2 分前、<long>) <long>後"),
        ("20240115_7203_001 1.5x 3 days", "20240115_7203_001 1.5x 3 days"),
        ("redrive_2 ━━━━── 13/13 57/s", "redrive_2 ━─ 13/13 <rate>"),
        ("event EVT-20261115-180733-0000c3,", "event <event>,"),
        ("sqlite:/tmp/x/store.db is sound", "<store> is sound"),
        ("2026-11-15 18:07:33Z", "<when> <when>"),
    ] {
        assert_eq!(timeless(line), without);
    }
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    assert!(alike(&lines("a 2m ago\n…"), &lines("a 17ms ago\nb\nc")));
    assert!(!alike(&lines("a 2m ago\n…"), &lines("a 2 ago\nb")));
}

/// R-C6: every command of the runbook ends as the page says, and at its end nothing is dead.
#[test]
fn the_runbook_is_walked() {
    walk_all_of(RUNBOOKS[0], "en");
}

/// R-C6: the same in Japanese.
#[test]
fn the_japanese_runbook_is_walked() {
    walk_all_of(RUNBOOKS[1], "ja");
}

/// R-C6: whoever is woken for a PostgreSQL types the same and sees the same.
#[test]
fn the_runbook_is_walked_on_postgres() {
    let Some(outage) = Outage::on_postgres() else {
        assert!(std::env::var_os("CI").is_none(), "PostgreSQL is missing");
        println!("SKIPPED: PostgreSQL is missing");
        return;
    };
    walk(RUNBOOKS[0], "en", outage);
}

/// R-C6: nobody who reads only one of them misses a command. What a person notes is in their own language.
#[test]
fn both_runbooks_type_the_same() {
    let typed = |path: &str| -> Vec<String> {
        let typed = |step| match step {
            Step::Typed(command, _) => Some(without_notes(&command)),
            Step::Outside(_) => None,
        };
        steps(&read(path)).into_iter().filter_map(typed).collect()
    };
    assert_eq!(typed(RUNBOOKS[0]), typed(RUNBOOKS[1]));
}

fn without_notes(command: &str) -> String {
    let note = ["--note '", "--why '"].into_iter().find_map(|flag| Some(command.find(flag)? + flag.len()));
    let Some(from) = note else { return command.to_owned() };
    let to = command[from..].find('\'').expect("a closing quote") + from;
    format!("{}{}", &command[..from], &command[to..])
}
