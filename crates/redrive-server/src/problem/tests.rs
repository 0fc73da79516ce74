//! Every code and every key has its words, in both languages, and tells no insides.

use std::path::Path;

use redrive_store::{Refusal, StoreError, Trouble};

use super::*;

fn catalog() -> &'static Catalog {
    CATALOG.as_ref().expect("the catalogues load")
}

/// R-C2: both catalogues say the same things.
#[test]
fn the_catalogues_agree() {
    assert_eq!(catalog().disparities(), Vec::<String>::new());
}

/// R-C2, issue 8: every code has a title and a detail in both languages, and its own status.
#[test]
fn every_code_has_its_words() {
    for code in Code::ALL {
        for lang in Lang::ALL {
            let told = Problem::of(*code).with("most", 7).told(lang);
            assert_eq!(told.kind, format!("urn:redrive:problem:{}", code.name()));
            for words in [&told.title, &told.detail] {
                assert!(!words.starts_with("code.") && !words.contains('{'), "{code:?}: {words}");
            }
            assert_eq!(told.title.is_ascii(), lang == Lang::En, "{code:?}");
        }
    }
    let mut names: Vec<&str> = Code::ALL.iter().map(|code| code.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Code::ALL.len());
}

/// R-C2: every key that the code names has words. Reads the sources.
#[test]
fn every_key_in_the_sources_has_words() {
    fn read(folder: &Path, all: &mut String) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                read(&path, all);
            } else if path.extension().is_some_and(|kind| kind == "rs") && !path.ends_with("tests.rs") {
                all.push_str(&std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    let mut sources = String::new();
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut sources);
    let mut found = 0;
    for call in sources.split("Problem::new(").skip(1) {
        let Some(key) = call.trim_start().strip_prefix("Code::").and_then(|call| {
            let (_, rest) = call.split_once(',')?;
            rest.trim_start().strip_prefix('"')?.split('"').next()
        }) else {
            continue;
        };
        assert!(catalog().raw(Lang::En, key).is_some(), "no words for {key:?}");
        found += 1;
    }
    assert!(found > 20, "{found}");
}

/// Issue 8, API: trouble of the store becomes a problem with its own code, and none of its insides leave the house.
#[test]
fn troubles_have_codes_and_no_insides() {
    let check = |trouble: Trouble, code: Code| {
        let problem = Problem::from(StoreError::from(trouble));
        assert_eq!(problem.code, code);
        let told = problem.told(Lang::En).detail;
        assert!(!told.contains("/srv") && !told.contains("SELECT"), "{told}");
    };
    check(Trouble::Full, Code::StoreFull);
    check(Trouble::Overloaded, Code::Unavailable);
    check(Trouble::Busy { seconds: 5 }, Code::Unavailable);
    check(Trouble::Unreachable("/srv/db".into()), Code::Unavailable);
    check(Trouble::UnknownOutcome("/srv/db".into()), Code::OutcomeUnknown);
    check(Trouble::Corrupt("/srv/db".into()), Code::Unavailable);
    check(Trouble::Closed, Code::Unavailable);
    check(Trouble::Database("SELECT".into()), Code::Internal);
    check(Trouble::Refused(Refusal::PayloadTooLarge { bytes: 9, most: 8 }), Code::TooLarge);
    check(Trouble::Refused(Refusal::BadName { what: "unique key", name: "/srv".into() }), Code::Invalid);
    let named = Problem::from(&Refusal::BadName { what: "unique key", name: String::new() });
    assert_eq!(named.field(), Some("unique_key"));
}

/// Issue 8, API: where it is worth asking again the answer says when, and an unknown outcome keeps its key.
#[test]
fn retry_after_stands_where_it_helps() {
    for code in Code::ALL {
        let response = Problem::of(*code).response(Lang::En, Some("r1"));
        let again = matches!(response.status().as_u16(), 429 | 503 | 507);
        assert_eq!(response.headers().contains_key(RETRY_AFTER), again, "{code:?}");
    }
    let unknown = Problem::of(Code::OutcomeUnknown).response(Lang::En, None);
    assert_eq!(unknown.headers()[REDRIVE_IDEMPOTENCY], "unknown");
    let later = Problem::of(Code::TooMany).retry_after(Duration::from_millis(1_500)).response(Lang::Ja, None);
    assert_eq!(later.headers()[RETRY_AFTER], "2");
}
