//! Reads the repository and holds what no compiler holds: which crate may know which (design §1), what the policy
//! core must not touch (R-P10: pure), names that say nothing, and pages that keep up with the code (R-P1).

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod repository;

use std::collections::{BTreeMap, BTreeSet};

use redrive_policy::{Cause, PRESETS};
use repository::{blocks, files, files_ending, pages, read, root};

/// What tests stand on: it knows none of ours, and only tests know it.
const TESTING: &str = "redrive-testing";

/// The crates in their order: each may know those before it, and no other of ours.
const ORDER: &[&str] = &[
    TESTING,
    "redrive-policy",
    "redrive-store",
    "redrive-model",
    "redrive",
    "redrive-idempotency",
    "redrive-server",
    "redrive-cli",
];

/// Libraries that belong to some floors only.
const ONLY_IN: &[(&[&str], &[&str])] = &[
    (&["clap", "comfy-table", "terminal_size"], &["redrive-cli"]),
    (&["axum"], &["redrive-idempotency", "redrive-server"]),
    // `redrive` reads their errors, behind features of their names.
    (&["rusqlite", "tokio-postgres"], &["redrive-store", "redrive"]),
    (&["sqlx", "diesel"], &[]),
];

/// All that the policy core is made of.
const POLICY_DEPENDENCIES: &[&str] = &["aho-corasick", "base64", "regex", "serde", "serde_json", "toml"];

/// What would be a clock, a file, a socket, a thread or a future in the policy core.
const IMPURE: &[&str] = &[
    "std::fs",
    "std::net",
    "std::io",
    "std::env",
    "std::process",
    "std::thread",
    "std::time::Instant",
    "Instant::now",
    "SystemTime",
    "async fn",
    "async move",
    "tokio",
];

const NAMES_THAT_SAY_NOTHING: &[&str] = &["utils", "util", "helpers", "helper", "common", "manager", "misc"];

/// The most lines a source file may have.
const MAX_LINES: usize = 600;

/// Longer files, and why.
const LONGER: &[(&str, &str)] = &[(
    "crates/redrive-policy/src/classify/rules.rs",
    "the book of rules and its search; users' rules follow",
)];

/// Files of tests that prove something no requirement has a number for, and what that is.
const WITHOUT_A_NUMBER: &[(&str, &str)] =
    &[("crates/redrive/tests/allocations.rs", "what is not allocated; speed is asked for without a number")];

struct Manifest {
    name: String,
    toml: toml::Table,
}

fn manifests() -> Vec<Manifest> {
    let found = files_ending("Cargo.toml").into_iter().filter(|(path, _)| path.starts_with("crates/"));
    found
        .map(|(path, text)| {
            let toml: toml::Table = text.parse().unwrap_or_else(|error| panic!("{path}: {error}"));
            Manifest { name: toml["package"]["name"].as_str().expect("a name").to_owned(), toml }
        })
        .collect()
}

impl Manifest {
    /// The names of what it depends on, in these sections.
    fn dependencies(&self, sections: &[&str]) -> BTreeSet<String> {
        let tables = std::iter::once(&self.toml).chain(
            self.toml
                .get("target")
                .and_then(toml::Value::as_table)
                .into_iter()
                .flat_map(|targets| targets.values().filter_map(toml::Value::as_table)),
        );
        tables
            .flat_map(|table| sections.iter().filter_map(|section| table.get(*section)))
            .filter_map(toml::Value::as_table)
            .flat_map(|dependencies| dependencies.keys().cloned())
            .collect()
    }
}

const ALL_SECTIONS: &[&str] = &["dependencies", "dev-dependencies", "build-dependencies"];

/// Design §1: dependencies point one way, tests included.
#[test]
fn crates_know_only_those_before_them() {
    let manifests = manifests();
    assert!(manifests.len() >= 3);
    for manifest in &manifests {
        let place = ORDER.iter().position(|name| *name == manifest.name);
        let place = place.unwrap_or_else(|| panic!("{} has no place in the order", manifest.name));
        for dependency in manifest.dependencies(ALL_SECTIONS) {
            if let Some(other) = ORDER.iter().position(|name| *name == dependency) {
                assert!(other < place, "{} must not know {dependency}", manifest.name);
            }
            let shipped = manifest.dependencies(&["dependencies", "build-dependencies"]).contains(TESTING);
            assert!(!shipped, "{} may know {TESTING} in its tests only", manifest.name);
            for (libraries, floors) in ONLY_IN {
                let elsewhere =
                    libraries.contains(&dependency.as_str()) && !floors.contains(&manifest.name.as_str());
                assert!(!elsewhere, "{dependency} does not belong in {}", manifest.name);
            }
        }
    }
}

/// Design §1: SQL drivers belong in the store. The library above it only reads their errors, for those who ask for it.
#[test]
fn above_the_store_a_sql_driver_is_only_an_option() {
    let manifests = manifests();
    let library = manifests.iter().find(|manifest| manifest.name == "redrive").expect("the library");
    let dependencies = library.toml["dependencies"].as_table().unwrap();
    for driver in ["rusqlite", "tokio-postgres"] {
        let optional = dependencies[driver].get("optional").and_then(toml::Value::as_bool);
        assert_eq!(optional, Some(true), "{driver} must be optional in redrive");
    }
    for manifest in manifests.iter().filter(|manifest| manifest.name != "redrive-store") {
        let known = manifest.dependencies(&["dependencies"]);
        let firm = known.contains("rusqlite") && manifest.name != "redrive";
        assert!(!firm, "{} needs no SQL driver", manifest.name);
    }
}

/// R-D1: migrations are numbered without gaps, and the same for every back end.
#[test]
fn migrations_are_numbered_without_gaps() {
    let mut back_ends: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, _) in files_ending(".sql") {
        if let Some(rest) = path.strip_prefix("crates/redrive-store/migrations/") {
            let (back_end, file) = rest.split_once('/').expect("a folder for each back end");
            back_ends.entry(back_end.to_owned()).or_default().push(file.to_owned());
        }
    }
    let first = back_ends.values().next().cloned().expect("a back end");
    for (back_end, files) in &back_ends {
        for (i, file) in files.iter().enumerate() {
            assert!(file.starts_with(&format!("{:04}_", i + 1)), "{back_end}/{file} is out of order");
        }
        assert_eq!(*files, first, "{back_end} has other migrations");
    }
}

/// What one back end says in a statement of its own, since the other says it in another way.
const WITHOUT_A_TWIN: &[(&str, &str)] = &[
    (
        "sequences_read sequences_write",
        "PostgreSQL has sequences, and numbers of events are made of its transactions'",
    ),
    (
        "dead_count_add group_add group_state hour_add lane_count",
        "counters are added up from redrive.delta and redrive.group_delta there",
    ),
    ("event_insert_eight job_insert_plain", "any number of rows is one statement there"),
    (
        "notice_put notice_version",
        "all notices of a post are taken, changed and inserted by one statement each there",
    ),
    ("moving_read", "read with the opening of every transaction there"),
    ("lane_of store_is_empty", "what a copy into a file asks for; a copy into a database asks otherwise"),
    (
        "event_about item_is job_inline job_read_ends progress_fence progress_held progress_origin queue_paused \
         queue_standing ready_find ready_scan run_items_delete",
        "what SQLite looks up row by row comes there with the statement before, for all rows at once",
    ),
];

/// R-D1: every statement on SQLite has a twin of the same name on PostgreSQL, or there is a reason.
#[test]
fn statements_have_twins() {
    let of = |back_end: &str| -> BTreeSet<String> {
        let folder = format!("crates/redrive-store/src/{back_end}/sql/");
        files_ending(".sql")
            .into_iter()
            .filter_map(|(path, _)| Some(path.strip_prefix(&folder)?.trim_end_matches(".sql").to_owned()))
            .collect()
    };
    let (sqlite, postgres) = (of("sqlite"), of("postgres"));
    let excused: BTreeSet<String> =
        WITHOUT_A_TWIN.iter().flat_map(|(names, _)| names.split_whitespace()).map(str::to_owned).collect();
    let alone: BTreeSet<String> = sqlite.difference(&postgres).cloned().collect();
    assert_eq!(alone, excused, "statements on SQLite without a twin on PostgreSQL");
}

/// R-D1: both schemas have the same tables with the same columns, but for what many writers need.
#[test]
fn schemas_are_twins() {
    let tables = |back_end: &str| -> BTreeMap<String, BTreeSet<String>> {
        let mut tables: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (path, text) in files_ending(".sql") {
            if !path.starts_with(&format!("crates/redrive-store/migrations/{back_end}/")) {
                continue;
            }
            let mut table = None;
            for line in text.lines() {
                if let Some(rest) = line.strip_prefix("CREATE TABLE ") {
                    let name = rest.split(' ').next().unwrap_or_default().trim_start_matches("redrive.");
                    table = Some(name.to_owned());
                } else if let Some((name, verb, column)) = altered(line) {
                    let columns = tables.entry(name.to_owned()).or_default();
                    match verb {
                        "ADD" => assert!(columns.insert(column.to_owned()), "{line}"),
                        "DROP" => assert!(columns.remove(column), "{line}"),
                        _ => panic!("what does this change? {line}"),
                    }
                } else if line.starts_with(')') {
                    table = None;
                } else if let Some(name) = &table {
                    let column = line.trim().split(' ').next().unwrap_or_default();
                    if column.chars().next().is_some_and(char::is_lowercase) {
                        tables.entry(name.clone()).or_default().insert(column.to_owned());
                    }
                }
            }
        }
        tables
    };
    let (sqlite, postgres) = (tables("sqlite"), tables("postgres"));
    assert!(sqlite.len() > 10);
    for (table, columns) in sqlite {
        // The sequences are sequences there, the transience of a cause is not kept, and the epoch of keys stands apart.
        let elsewhere: &[&str] = match table.as_str() {
            "store" => &["next_job", "next_event", "key_epoch"],
            "dead_count" => &["transient"],
            _ => &[],
        };
        let there = postgres.get(&table).unwrap_or_else(|| panic!("PostgreSQL has no table {table}"));
        let missing: Vec<&String> = columns
            .iter()
            .filter(|column| !there.contains(*column) && !elsewhere.contains(&&***column))
            .collect();
        assert!(missing.is_empty(), "{table} has no {missing:?} on PostgreSQL");
    }
}

/// Table, verb and column of `ALTER TABLE table ADD COLUMN column …`.
fn altered(line: &str) -> Option<(&str, &str, &str)> {
    let mut words = line.strip_prefix("ALTER TABLE ")?.split([' ', ';']);
    let (table, verb) = (words.next()?.trim_start_matches("redrive."), words.next()?);
    // How a table is kept in order is no column.
    if verb == "SET" {
        return None;
    }
    assert_eq!(words.next(), Some("COLUMN"), "what does this change? {line}");
    Some((table, verb, words.next()?))
}

/// Every statement that lies in the store is used by it.
#[test]
fn every_sql_file_is_used() {
    let sources: String = files_ending(".rs")
        .into_iter()
        .filter(|(path, _)| path.starts_with("crates/redrive-store/src/"))
        .map(|(_, text)| text)
        .collect();
    let ours = |path: &String| path.starts_with("crates/redrive-store/");
    let statements: Vec<String> =
        files_ending(".sql").into_iter().map(|(path, _)| path).filter(ours).collect();
    assert!(statements.len() > 20);
    for path in statements {
        let file = path.rsplit('/').next().expect("a name");
        let stem = file.trim_end_matches(".sql");
        let used = sources.contains(&format!("sql!(\"{stem}\")")) || sources.contains(&format!("/{file}\""));
        assert!(used, "{path} is used by nobody");
    }
}

/// R-P10: the policy sees no clock, socket or row, by what it depends on and by what it calls.
#[test]
fn the_policy_is_pure() {
    let manifests = manifests();
    let policy = manifests.iter().find(|manifest| manifest.name == "redrive-policy").expect("the policy");
    for dependency in policy.dependencies(&["dependencies", "build-dependencies"]) {
        assert!(POLICY_DEPENDENCIES.contains(&dependency.as_str()), "the policy needs no {dependency}");
    }
    for (path, text) in files_ending(".rs") {
        if !path.starts_with("crates/redrive-policy/src/") {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            for word in IMPURE {
                assert!(!code.contains(word), "{path}:{}: the policy has no {word}", number + 1);
            }
        }
    }
}

#[test]
fn what_deny_toml_bans_is_not_in_the_lock_file() {
    let deny: toml::Table = read("deny.toml").parse().unwrap();
    let lock: toml::Table = read("Cargo.lock").parse().unwrap();
    let locked: BTreeSet<&str> =
        lock["package"].as_array().unwrap().iter().filter_map(|package| package["name"].as_str()).collect();
    let banned = deny["bans"]["deny"].as_array().unwrap();
    assert!(!banned.is_empty());
    for entry in banned {
        let name = entry["crate"].as_str().unwrap();
        assert!(!locked.contains(name), "{name} is banned and locked");
    }
}

#[test]
fn names_say_something() {
    for (path, text) in files() {
        for part in path.split('/') {
            let stem = part.split('.').next().unwrap_or_default();
            assert!(!NAMES_THAT_SAY_NOTHING.contains(&stem), "{path}: {stem} says nothing");
        }
        if std::path::Path::new(&path).extension().is_some_and(|end| end == "rs") {
            for name in NAMES_THAT_SAY_NOTHING {
                let said = text.lines().any(|line| {
                    let line = line.trim_start().trim_start_matches("pub ").trim_start_matches("pub(crate) ");
                    line.strip_prefix("mod ")
                        .is_some_and(|rest| rest.trim_end_matches([';', '{', ' ']) == *name)
                });
                assert!(!said, "{path}: a module {name} says nothing");
            }
        }
    }
}

/// Whose machine this is stands nowhere. Error messages in rules are quoted as they are.
#[test]
fn no_file_names_a_machine() {
    let places =
        [concat!("/", "home/"), concat!("/", "root/"), concat!("/", "work/"), concat!("/", "Users/")];
    let exempt = ["crates/redrive-policy/rules/", "crates/redrive-policy/src/classify/tests.rs"];
    for (path, text) in files() {
        if exempt.iter().any(|place| path.starts_with(place)) {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            for place in places {
                for (at, _) in line.match_indices(place) {
                    let inside = line[..at]
                        .chars()
                        .next_back()
                        .is_some_and(|c| c.is_alphanumeric() || ".-_>}".contains(c));
                    // Ada is invented: tests need somebody's home.
                    let invented = line[at + place.len()..].starts_with("ada");
                    assert!(inside || invented, "{path}:{}: {line}", number + 1);
                }
            }
        }
    }
}

#[test]
fn nothing_is_left_for_later() {
    let marks = [
        concat!("to", "do!("),
        concat!("db", "g!("),
        concat!("#[", "ignore"),
        concat!("unimplement", "ed!("),
    ];
    for (path, text) in files_ending(".rs") {
        for mark in marks {
            assert!(!text.contains(mark), "{path} has a {mark}");
        }
    }
}

#[test]
fn every_source_file_opens_with_its_story_and_ends_in_time() {
    for (path, text) in files_ending(".rs") {
        // The tests of a module tell their story in their names; its own story stands in the module.
        let told = text.starts_with("//! ") || path.ends_with("/tests.rs");
        assert!(told, "{path} does not open with its story");
        let excused = LONGER.iter().any(|(longer, _)| *longer == path);
        let lines = text.lines().count();
        assert!(lines <= MAX_LINES || excused, "{path} has {lines} lines; is it two files?");
    }
    for (path, _) in LONGER {
        assert!(root().join(path).is_file(), "{path} is excused and does not exist");
    }
}

/// Every file of tests names a requirement that it proves.
#[test]
fn every_test_file_names_its_requirement() {
    for (path, text) in files_ending(".rs") {
        let parts: Vec<&str> = path.split('/').collect();
        if let ["crates", _, "tests", _] = parts.as_slice() {
            let excused = WITHOUT_A_NUMBER.iter().any(|(file, _)| *file == path);
            assert!(text.contains("R-") || excused, "{path} names no requirement");
        }
    }
}

/// R-P1, R-P9: every cause and every preset is explained where people look for it.
#[test]
fn every_cause_and_every_preset_is_documented() {
    let (causes, presets) = (read("docs/classifier.md"), read("docs/policies.md"));
    for cause in Cause::NAMES {
        assert!(causes.contains(&format!("\n| `{cause}` |")), "docs/classifier.md has no row for {cause}");
    }
    for preset in PRESETS {
        assert!(presets.contains(&format!("\n| `{preset}` |")), "docs/policies.md has no row for {preset}");
    }
}

#[test]
fn every_feature_is_in_both_readmes() {
    let manifests = manifests();
    let libraries = ["redrive", "redrive-idempotency"]
        .map(|name| manifests.iter().find(|manifest| manifest.name == name).expect("a library"));
    let features = libraries.iter().flat_map(|library| library.toml["features"].as_table().unwrap().keys());
    for feature in features.filter(|name| *name != "default") {
        for readme in ["README.md", "README.ja.md"] {
            assert!(
                read(readme).contains(&format!("`{feature}`")),
                "{readme} does not name the feature {feature}"
            );
        }
    }
}

#[test]
fn decisions_are_numbered_without_gaps_and_short() {
    let decisions: Vec<_> =
        files_ending(".md").into_iter().filter(|(path, _)| path.starts_with("docs/adr/")).collect();
    assert!(!decisions.is_empty());
    for (i, (path, text)) in decisions.iter().enumerate() {
        let number = format!("{:04}", i + 1);
        assert!(path.starts_with(&format!("docs/adr/{number}-")), "{path} should be number {number}");
        assert!(
            text.starts_with(&format!("# {number}. ")),
            "{path} does not begin with its number and title"
        );
        let lines = text.lines().count();
        assert!((10..=30).contains(&lines), "{path} has {lines} lines, not 10 to 30");
    }
}

#[test]
fn links_between_pages_lead_somewhere() {
    for (path, text) in pages() {
        let folder = root().join(&path);
        let folder = folder.parent().expect("a folder");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = link.split('#').next().unwrap_or_default();
            let elsewhere = target.is_empty() || target.contains("://") || target.contains(' ');
            assert!(elsewhere || folder.join(target).exists(), "{path}: the link {link} leads nowhere");
        }
    }
}

/// The numbers of the figures table are the same wherever it stands.
#[test]
fn the_figures_are_the_same_on_every_page() {
    let figures = |path: &str| -> Vec<String> {
        let page = read(path);
        let from = page.find("<!-- figures:").unwrap_or_else(|| panic!("{path} has no figures"));
        let table = &page[from..from + page[from..].find("<!-- figures: end").expect("an end")];
        let numbers =
            table.lines().filter(|line| line.starts_with('|')).flat_map(|line| line.split('|').skip(2));
        numbers
            .map(|cell| cell.trim().to_owned())
            .filter(|cell| cell.chars().any(|c| c.is_ascii_digit()))
            .collect()
    };
    let numbers = figures("README.md");
    assert!(numbers.len() >= 8, "{numbers:?}");
    for path in ["README.ja.md", "docs/classifier.md"] {
        assert_eq!(figures(path), numbers, "{path} has other figures than README.md");
    }
}

/// Both READMEs tell the same, block by block.
#[test]
fn the_two_readmes_have_the_same_shape() {
    let shape = |path: &str| {
        let page = read(path);
        let headings = page.lines().filter(|line| line.starts_with("##")).count();
        (headings, blocks(&page, "console").len(), blocks(&page, "rust"))
    };
    assert_eq!(shape("README.md"), shape("README.ja.md"));
}

#[cfg(unix)]
#[test]
fn ci_runs_what_people_run() {
    use std::os::unix::fs::PermissionsExt;
    for script in ["test.sh", ".ci/run"] {
        let mode = std::fs::metadata(root().join(script)).unwrap().permissions().mode();
        assert!(mode & 0o111 != 0, "{script} cannot be executed");
    }
    assert!(read(".ci/run").trim_end().ends_with("exec ./test.sh"));
}
