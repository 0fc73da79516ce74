//! What an operator types, how often it is measured, and the table of it.

use std::time::Duration;

use crate::command::{Redrive, Took};

/// One command, its name in the table, and how long it may take.
pub struct Look {
    pub name: String,
    pub args: Vec<String>,
    pub limit_ms: f64,
}

/// How often each is run; what takes longer than a few seconds less often.
const RUNS: usize = 7;
const FEW_RUNS: usize = 3;
const LONG: Duration = Duration::from_secs(3);

/// Everything that is looked at. The values asked for come from the store itself.
pub fn all(redrive: &Redrive) -> Vec<Look> {
    let json =
        |args: &[&str]| -> serde_json::Value { serde_json::from_str(&redrive.told(args)).expect("JSON") };
    let letters = json(&["dlq", "list", "--limit", "200", "--json"]);
    let items = letters["items"].as_array().expect("items");
    let newest = items.first().expect("a letter");
    let field = |name: &str| newest[name].as_str().unwrap_or_default().to_owned();
    let tenant = items
        .iter()
        .filter_map(|item| item["caller_id"].as_str())
        .find(|caller| caller.starts_with("tenant"))
        .expect("a caller");
    let last = items.last().and_then(|item| item["id"].as_str()).expect("an id").to_owned();
    let groups: Vec<&str> = items.iter().filter_map(|item| item["fingerprint"].as_str()).collect();
    let often = |group: &&&str| groups.iter().filter(|other| other == group).count();
    let common = groups.iter().max_by_key(often).copied().expect("a group");
    let rare = groups.iter().min_by_key(often).copied().expect("a group");
    let id = field("id");
    let list = |filter: &str| vec!["dlq".into(), "list".into(), "--where".into(), filter.to_owned()];
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let mut looks = Vec::new();
    let mut look = |name: &str, args: Vec<String>, limit_ms: f64| {
        looks.push(Look { name: name.to_owned(), args, limit_ms });
    };
    for text in ["status", "dlq list", "dlq groups", "failed", "retry-candidates", "events"] {
        look(text, words(text), 150.0);
    }
    look("dlq list --limit 1000", words("dlq list --limit 1000"), 150.0);
    look("dlq list --after (a page on)", words(&format!("dlq list --after {last}")), 150.0);
    for text in ["detail", "dlq show", "trace", "explain"] {
        look(&format!("{text} (a letter)"), words(&format!("{text} {id}")), 150.0);
    }
    for text in ["metrics", "prometheus", "queue list"] {
        look(text, words(text), 150.0);
    }
    for text in ["type=letter_redriven", "status=dead_letter and queue=mail", "source=loader"] {
        look(
            &format!("events --where {text}"),
            vec!["events".into(), "--where".into(), text.to_owned()],
            300.0,
        );
    }
    look("where cause=timeout", list("cause=timeout"), 300.0);
    look("where cause=integrity (rare)", list("cause=integrity"), 300.0);
    look("where queue=mail", list("queue=mail"), 300.0);
    look("where kind=send", list("kind=send"), 300.0);
    look(
        "where queue=mail and kind=send and cause=network",
        list("queue=mail and kind=send and cause=network"),
        300.0,
    );
    look("where caller_id=tenant-…", list(&format!("caller_id={tenant}")), 300.0);
    look("where caller_id=nobody", list("caller_id=nobody"), 300.0);
    look("where group=… (common)", list(&format!("group={}", &common[..8.min(common.len())])), 300.0);
    look("where group=… (rare)", list(&format!("group={}", &rare[..8.min(rare.len())])), 300.0);
    look("where age>20d", list("age>20d"), 300.0);
    look("where cause=timeout and age>20d", list("cause=timeout and age>20d"), 300.0);
    look("where error~deadlock (common)", list("error~deadlock"), 2_000.0);
    look("where error~\"no such text\" (looks at all)", list("error~\"no such text\""), 2_000.0);
    look(
        "where cause=timeout and error~\"no such text\"",
        list("cause=timeout and error~\"no such text\""),
        2_000.0,
    );
    look(
        "failed --where error~\"no such text\"",
        vec!["failed".into(), "--where".into(), "error~\"no such text\"".into()],
        2_000.0,
    );
    look("redrive --all --dry-run", words("redrive --all --dry-run"), 2_000.0);
    looks
}

/// The table: a line for each command.
pub fn table(redrive: &Redrive, looks: &[Look], can_forget: bool) {
    println!(
        "| | best ms | median ms | worst ms | file not in memory, median ms | peak RSS MB | limit ms | |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for look in looks {
        let args: Vec<&str> = look.args.iter().map(String::as_str).collect();
        let first = redrive.run(&args);
        if !first.is_done {
            println!("| {} | | | | | | {:.0} | refused by this version |", look.name, look.limit_ms);
            continue;
        }
        let times = if first.wall > LONG { FEW_RUNS } else { RUNS };
        let warm = runs(times, || redrive.run(&args));
        let cold = can_forget.then(|| {
            runs(FEW_RUNS, || {
                redrive.forget();
                redrive.run(&args)
            })
        });
        let (best, median, worst) = spread(&warm);
        let peak = warm.iter().map(|took| took.peak_mb).fold(0.0, f64::max);
        let cold = cold.map_or_else(String::new, |cold| format!("{:.0}", spread(&cold).1));
        let verdict = if median <= look.limit_ms { "" } else { "**missed**" };
        println!(
            "| {} | {best:.0} | {median:.0} | {worst:.0} | {cold} | {peak:.0} | {:.0} | {verdict} |",
            look.name, look.limit_ms
        );
    }
}

fn runs(times: usize, mut run: impl FnMut() -> Took) -> Vec<Took> {
    (0..times).map(|_| run()).collect()
}

/// Best, median and worst, in milliseconds.
fn spread(took: &[Took]) -> (f64, f64, f64) {
    let mut walls: Vec<Duration> = took.iter().map(|took| took.wall).collect();
    walls.sort_unstable();
    let ms = |at: usize| walls[at].as_secs_f64() * 1e3;
    (ms(0), ms(walls.len() / 2), ms(walls.len() - 1))
}
