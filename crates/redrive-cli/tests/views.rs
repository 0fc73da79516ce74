//! R-C2: every view that looks at a store, as people and programs see it: rich at 80 and 160 columns in both languages,
//! plain, and JSON. The store has a past that never changes and the clock stands still. A new view is one more line.

#![allow(clippy::unwrap_used, clippy::format_push_string)]

mod support;

use support::stored::seeded;
use support::{line, timeless};
use unicode_width::UnicodeWidthStr;

/// The name of the snapshot, and the command.
const VIEWS: &[(&str, &str)] = &[
    ("status", "status"),
    ("status_absolute", "status --absolute"),
    ("dlq_list", "dlq list"),
    ("dlq_show", "dlq show job_1"),
    ("explain", "explain job_1"),
    ("failed", "failed"),
    ("retry_candidates", "retry-candidates"),
    ("detail", "detail job_1"),
    ("trace", "trace job_1"),
    ("escalations", "escalations"),
    ("escalations_show", "escalations show job_1"),
    ("redrive_preview", "redrive --all --canary --dry-run"),
];

/// The form, its flags, and how wide the terminal is, if it is one.
const FORMS: [(&str, &str, Option<usize>); 6] = [
    ("rich, 80 columns", "--color never --lang en", Some(80)),
    ("rich, 80 columns, Japanese", "--color never --lang ja", Some(80)),
    ("rich, 160 columns", "--color never --lang en", Some(160)),
    ("rich, 160 columns, Japanese", "--color never --lang ja", Some(160)),
    ("plain", "--plain --lang en", None),
    ("json", "--json --lang en", None),
];

/// R-C2: each view in each form, and no rich line wider than its terminal.
#[test]
fn every_view_in_every_form() {
    let store = seeded();
    for (name, command) in VIEWS {
        let mut page = String::new();
        for (form, flags, width) in FORMS {
            let mut asked = line(&format!("{command} {flags} {}", store.flags()));
            if let Some(width) = width {
                asked = asked.on_a_terminal().env("REDRIVE_WIDTH", &width.to_string());
            }
            let ran = asked.run();
            let widest = ran.stdout.lines().map(UnicodeWidthStr::width).max().unwrap_or(0);
            assert!(width.is_none_or(|width| widest <= width), "{command}, {form}: {widest}\n{ran}");
            page.push_str(&format!("===== {form}: redrive {command}\n{ran}\n"));
        }
        insta::assert_snapshot!(*name, timeless(&store.anonymous(&page)));
    }
}

/// R-C2: redrives while they wait for their first attempts, and the list of them.
#[test]
fn redrives_in_every_form() {
    let store = seeded();
    for command in ["redrive --where queue=billing --canary --yes --detach", "redrive --all --yes --quiet"] {
        let ran = line(&format!("{command} {}", store.flags())).run();
        assert_eq!(ran.code, 0, "{ran}");
    }
    for (name, command) in
        [("redrive_runs", "redrive --runs"), ("redrive_cancelled", "redrive --cancel redrive_1")]
    {
        let mut page = String::new();
        for (form, flags, width) in FORMS {
            let mut asked = line(&format!("{command} {flags} {}", store.flags()));
            if let Some(width) = width {
                asked = asked.on_a_terminal().env("REDRIVE_WIDTH", &width.to_string());
            }
            page.push_str(&format!("===== {form}: redrive {command}\n{}\n", asked.run()));
        }
        // How long ago it began is told by the clock on the wall.
        let page = page.lines().map(without_ages).collect::<Vec<_>>().join("\n");
        insta::assert_snapshot!(name, timeless(&store.anonymous(&page)));
    }
}

/// The words of a line in which nothing tells how long ago something was; the store's past is long over.
fn without_ages(line: &str) -> String {
    let is_age =
        |word: &str| word.ends_with(['s', 'm', 'h', 'd']) && word.starts_with(|c: char| c.is_ascii_digit());
    let words: Vec<&str> = line.split_whitespace().filter(|word| !is_age(word)).collect();
    words.join(" ")
}

/// R-C2: colour is added to what is drawn, and changes nothing else.
#[test]
fn colour_changes_nothing_but_colour() {
    let store = seeded();
    for (_, command) in VIEWS {
        let at = |colour: &str| {
            let ran = line(&format!("{command} --color {colour} {}", store.flags())).on_a_terminal().run();
            ran.stdout
        };
        let uncoloured: String = at("always")
            .split('\x1b')
            .enumerate()
            .map(|(i, part)| if i == 0 { part } else { part.split_once('m').unwrap().1 })
            .collect();
        assert_eq!(uncoloured, at("never"), "{command}");
    }
}
