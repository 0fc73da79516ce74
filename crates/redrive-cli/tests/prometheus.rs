//! What `prometheus` writes, read by a reader that forgives nothing, and by promtool where there is one (R-C4).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

mod process_store;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Stdio};

use process_store::Home;

type Labels = BTreeMap<String, String>;

/// One family of samples.
#[derive(Debug, Default)]
struct Family {
    kind: String,
    samples: Vec<(String, Labels, f64)>,
}

/// Reads a text, or says in which line it is wrong.
fn read(text: &str) -> Result<BTreeMap<String, Family>, String> {
    if !text.ends_with('\n') {
        return Err("the last line has no end".to_owned());
    }
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current: Option<String> = None;
    let mut helped: Option<String> = None;
    let mut seen = BTreeSet::new();
    for (number, line) in text.lines().enumerate() {
        let wrong = |why: &str| Err(format!("line {}: {why}: {line}", number + 1));
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let Some((name, help)) = rest.split_once(' ') else { return wrong("no help") };
            if !is_name(name) || help.is_empty() || families.contains_key(name) {
                return wrong("a bad name, no help, or a family told twice");
            }
            helped = Some(name.to_owned());
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let Some((name, kind)) = rest.split_once(' ') else { return wrong("no type") };
            if helped.take().as_deref() != Some(name) {
                return wrong("a type without its help before it");
            }
            if !["counter", "gauge", "histogram"].contains(&kind) {
                return wrong("no such type");
            }
            if (kind == "counter") != name.ends_with("_total") {
                return wrong("counters, and only they, end with _total");
            }
            families.insert(name.to_owned(), Family { kind: kind.to_owned(), samples: Vec::new() });
            current = Some(name.to_owned());
        } else {
            let Some((name, labels, value)) = sample(line) else { return wrong("no sample") };
            let Some(family) = current.as_deref() else { return wrong("a sample of no family") };
            let of = families.get_mut(family).unwrap();
            let suffix = name.strip_prefix(family);
            let fits = match of.kind.as_str() {
                "histogram" => matches!(suffix, Some("_bucket" | "_sum" | "_count")),
                _ => suffix == Some(""),
            };
            if !fits {
                return wrong("a sample of another family");
            }
            if !seen.insert((name.clone(), labels.clone())) {
                return wrong("the same sample twice");
            }
            if of.kind != "gauge" && (value.is_nan() || value < 0.0) {
                return wrong("a count below nought");
            }
            of.samples.push((name, labels, value));
        }
    }
    for (name, family) in families.iter().filter(|(_, family)| family.kind == "histogram") {
        check_histogram(name, family)?;
    }
    Ok(families)
}

fn check_histogram(name: &str, family: &Family) -> Result<(), String> {
    let one = |suffix: &str| {
        let mut found = family.samples.iter().filter(|(sample, ..)| sample == &format!("{name}{suffix}"));
        found.next().map(|(.., value)| *value).ok_or(format!("{name} has no {suffix}"))
    };
    let (count, _) = (one("_count")?, one("_sum")?);
    let (mut bound, mut last) = (f64::NEG_INFINITY, 0.0);
    for (_, labels, value) in family.samples.iter().filter(|(sample, ..)| sample.ends_with("_bucket")) {
        let le: f64 =
            labels.get("le").and_then(|le| le.trim_start_matches('+').parse().ok()).ok_or("no le")?;
        if le <= bound || *value < last {
            return Err(format!("{name}: the bucket {le} is out of order"));
        }
        (bound, last) = (le, *value);
    }
    if bound.is_infinite() && (last - count).abs() < f64::EPSILON {
        Ok(())
    } else {
        Err(format!("{name}: no +Inf"))
    }
}

fn is_name(name: &str) -> bool {
    let first = |c: char| c.is_ascii_alphabetic() || c == '_' || c == ':';
    name.starts_with(first) && name.chars().all(|c| first(c) || c.is_ascii_digit())
}

/// `name{label="value",…} number`.
fn sample(line: &str) -> Option<(String, Labels, f64)> {
    let end = line.find(['{', ' '])?;
    let name = line[..end].to_owned();
    let mut rest = &line[end..];
    let mut labels = Labels::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, after) = rest.split_once("=\"")?;
            if !is_name(label) || label.contains(':') {
                return None;
            }
            let mut value = String::new();
            let mut chars = after.char_indices();
            let end = loop {
                match chars.next()? {
                    (at, '"') => break at,
                    (_, '\\') => value.push(match chars.next()?.1 {
                        'n' => '\n',
                        c @ ('\\' | '"') => c,
                        _ => return None,
                    }),
                    (_, c) => value.push(c),
                }
            };
            if labels.insert(label.to_owned(), value).is_some() {
                return None;
            }
            rest = &after[end + 1..];
            match rest.strip_prefix(',') {
                Some(after) => rest = after,
                None => break rest = rest.strip_prefix('}')?,
            }
        }
    }
    let value = rest.strip_prefix(' ')?.parse().ok()?;
    is_name(&name).then_some((name, labels, value))
}

/// The reader itself: what is wrong is found.
#[test]
fn the_reader_forgives_nothing() {
    let good = "# HELP a_total b\n# TYPE a_total counter\na_total{q=\"x\\\"\\\\\\n\"} 1\n";
    assert_eq!(read(good).unwrap()["a_total"].samples[0].1["q"], "x\"\\\n");
    for bad in [
        "a 1\n",
        "# HELP a b\n# TYPE a counter\na 1\n",
        "# HELP a b\n# TYPE a gauge\na 1",
        "# HELP a b\n# TYPE a gauge\na 1\na 2\n",
        "# HELP a b\n# TYPE a gauge\nb 1\n",
        "# HELP a b\n# TYPE a gauge\na{x=\"\\t\"} 1\n",
        "# HELP a b\n# TYPE a gauge\na{x=\"1\",x=\"2\"} 1\n",
        "# HELP a b\n# TYPE a gauge\na one\n",
        "# HELP a b\n# TYPE a histogram\na_bucket{le=\"1\"} 2\na_bucket{le=\"+Inf\"} 1\na_sum 1\na_count 1\n",
        "# HELP a b\n# TYPE a histogram\na_bucket{le=\"1\"} 1\na_sum 1\na_count 1\n",
    ] {
        assert!(read(bad).is_err(), "{bad}");
    }
}

fn value(families: &BTreeMap<String, Family>, family: &str, label: Option<(&str, &str)>) -> f64 {
    let samples = &families.get(family).unwrap_or_else(|| panic!("{family} is missing")).samples;
    let fits =
        |labels: &Labels| label.is_none_or(|(name, value)| labels.get(name).is_some_and(|v| v == value));
    samples.iter().find(|(_, labels, _)| fits(labels)).unwrap_or_else(|| panic!("{family} {label:?}")).2
}

fn promtool_agrees(text: &str) {
    let tool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut tool) = tool else {
        eprintln!("SKIPPED: promtool is missing; our own reader has read it");
        return;
    };
    tool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = tool.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn check(flags: &str, home: &Home) {
    let run = |words: &str, more: &[&str]| home.redrive(&format!("{flags} {words}"), more);
    // A store in which nothing has happened has numbers, too.
    assert_eq!(run("store migrate", &[]).code, 0);
    let empty = run("prometheus", &[]);
    assert_eq!(empty.code, 0, "{empty}");
    let families = read(&empty.stdout).unwrap();
    assert!((value(&families, "redrive_workers", None)).abs() < f64::EPSILON);
    assert!(families["redrive_dead_letter_oldest_age_seconds"].samples.is_empty(), "no letter, no age");
    promtool_agrees(&empty.stdout);

    let odd = "a\"b\\c 日本";
    run("enqueue --queue", &[odd, "--exec", "sh", "-c", "echo 'permission denied' >&2; exit 77"]);
    run("enqueue --exec true", &[]);
    run("enqueue --kind later --payload {}", &[]);
    run("queue pause", &[odd]);
    run("queue resume", &[odd]);
    assert_eq!(run("work --until-empty -q", &[]).code, 0);
    let ran = run("prometheus --output", &["numbers.prom"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{ran}");
    let text = std::fs::read_to_string(home.folder.path().join("numbers.prom")).unwrap();
    let families = read(&text).unwrap_or_else(|why| panic!("{why}\n{text}"));
    for (family, label, expected) in [
        ("redrive_dead_letters", Some(("queue", odd)), 1.0),
        ("redrive_jobs_dead_total", Some(("queue", odd)), 1.0),
        ("redrive_jobs_succeeded_total", Some(("queue", "default")), 1.0),
        ("redrive_attempts_failed_total", Some(("cause", "auth_error")), 1.0),
        ("redrive_dead_letters_by_cause", Some(("cause", "auth_error")), 1.0),
        ("redrive_groups", Some(("state", "open")), 1.0),
        ("redrive_queues_paused", None, 0.0),
    ] {
        let found = value(&families, family, label);
        assert!((found - expected).abs() < f64::EPSILON, "{family} {label:?}: {found}");
    }
    let count = families["redrive_attempt_duration_seconds"].samples.last().unwrap().2;
    assert!((count - 2.0).abs() < f64::EPSILON, "two attempts: {count}");
    promtool_agrees(&text);
    // Written over as a whole, and nothing is left beside it.
    assert_eq!(run("prometheus --output", &["numbers.prom"]).code, 0);
    let files = std::fs::read_dir(home.folder.path()).unwrap();
    let beside = files.filter(|file| file.as_ref().unwrap().file_name().to_string_lossy().ends_with(".new"));
    assert_eq!(beside.count(), 0);
    assert_eq!(run("prometheus --output", &["nowhere/numbers.prom"]).code, 1);
}

/// R-C4: the embedded store.
#[test]
fn sqlite_has_numbers_that_prometheus_reads() {
    let home = Home::new();
    check(&format!("--store sqlite:{}", home.store.display()), &home);
}

/// R-C4: PostgreSQL.
#[test]
fn postgres_has_numbers_that_prometheus_reads() {
    let Some(shared) = redrive_testing::shared() else {
        assert!(std::env::var_os("CI").is_none(), "PostgreSQL is missing");
        eprintln!("SKIPPED: PostgreSQL is missing");
        return;
    };
    let joint = if shared.url().contains('?') { '&' } else { '?' };
    check(&format!("--store {}{joint}schema={}", shared.url(), shared.schema()), &Home::new());
}

/// The names of metrics in the expressions of rules.
fn names_in_rules(rules: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut inside = false;
    for line in rules.lines().filter(|line| !line.trim_start().starts_with('#')) {
        let words = line.trim();
        let expression = words.strip_prefix("expr:");
        inside = expression.is_some() || (inside && !words.is_empty() && !words.ends_with(':'));
        let text = expression.unwrap_or(words);
        if !inside {
            continue;
        }
        let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        for word in text.split(|c| !is_part(c)).filter(|word| word.starts_with("redrive_")) {
            let family = ["_sum", "_count", "_bucket"].iter().find_map(|end| word.strip_suffix(end));
            names.insert(family.unwrap_or(word).to_owned());
        }
    }
    names
}

/// R-C5: each server of a store tells the numbers of the whole store, so no rule may add them up: of every number the most counts, and
/// messages of our own count for none.
#[test]
fn the_rules_for_prometheus_count_a_store_once() {
    let rules = std::fs::read_to_string(deployed("redrive.rules.yml")).unwrap();
    let expressions: String = rules
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .collect::<Vec<_>>()
        .join("\n")
        .replace("increase(", "");
    let mut seen = 0;
    for (at, _) in expressions.match_indices("redrive_") {
        let before = &expressions[..at];
        assert!(before.ends_with("max without (instance, pod) ("), "{}", &expressions[at..at + 60]);
        let after = expressions[at..].split(|c: char| !(c.is_ascii_lowercase() || c == '_'));
        let name = after.into_iter().next().unwrap();
        let of_queues = ["redrive_jobs_", "redrive_letters_"].iter().any(|start| name.starts_with(start));
        let only = expressions[at + name.len()..].starts_with("{queue!=\"redrive-alerts\"}");
        assert_eq!(of_queues, only, "{name}");
        seen += 1;
    }
    assert!(seen > 18, "{seen}");
    match Command::new("promtool").args(["test", "rules"]).arg(deployed("redrive.rules.test.yml")).output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout)),
        Err(_) => eprintln!("SKIPPED: promtool is missing; the rules were not tried"),
    }
}

/// R-C4, R-C5: what is acknowledged is no trouble, here as for our own rule.
#[test]
fn what_is_acknowledged_is_not_exported_as_trouble() {
    let home = Home::new();
    let flags = format!("--store sqlite:{}", home.store.display());
    let run = |words: &str, more: &[&str]| home.redrive(&format!("{flags} {words}"), more);
    run("enqueue --exec sh", &["-c", "echo 'permission denied' >&2; exit 77"]);
    assert_eq!(run("work --until-empty -q", &[]).code, 0);
    let (letters, age) =
        ("redrive_dead_letters_unacknowledged", "redrive_dead_letter_unacknowledged_oldest_age_seconds");
    let families = read(&run("prometheus", &[]).stdout).unwrap();
    assert!((value(&families, letters, None) - 1.0).abs() < f64::EPSILON);
    assert_eq!(families[age].samples.len(), 1);
    let listed: serde_json::Value = serde_json::from_str(&run("dlq groups --json", &[]).stdout).unwrap();
    let fingerprint = listed["items"][0]["fingerprint"].as_str().unwrap();
    assert_eq!(run("dlq ack", &[fingerprint]).code, 0);
    let families = read(&run("prometheus", &[]).stdout).unwrap();
    assert!(value(&families, letters, None).abs() < f64::EPSILON);
    assert!(families[age].samples.is_empty());
    assert_eq!(
        families["redrive_dead_letter_oldest_age_seconds"].samples.len(),
        1,
        "it is there all the same"
    );
}

fn deployed(name: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/prometheus").join(name)
}

/// R-C5: the rules for Prometheus name only what is exported, one for each of ours, and promtool takes them.
#[test]
fn the_rules_for_prometheus_name_what_is_exported() {
    let path = deployed("redrive.rules.yml");
    let rules = std::fs::read_to_string(&path).unwrap();
    let names = names_in_rules(&rules);
    assert_eq!(rules.matches("- alert: ").count(), 8);
    assert!(names.len() >= 12, "{names:?}");
    let home = Home::new();
    let flags = format!("--store sqlite:{}", home.store.display());
    // What was never used is not exported: here is one use of each.
    assert_eq!(home.redrive(&format!("{flags} run --idempotency-key k-1 -q -- true"), &[]).code, 0);
    let text = home.redrive(&format!("{flags} prometheus"), &[]).stdout;
    let families = read(&text).unwrap();
    for name in &names {
        assert!(families.contains_key(name), "{name} is in the rules and is not exported\n{text}");
    }
    match Command::new("promtool").args(["check", "rules"]).arg(&path).output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(_) => eprintln!("SKIPPED: promtool is missing; our own reader has read the rules"),
    }
}
