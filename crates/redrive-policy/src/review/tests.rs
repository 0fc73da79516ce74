//! The examples of each criterion, and what holds for any output.

use serde::Deserialize;

use super::*;
use crate::cause::Cause;

#[derive(Deserialize)]
struct Examples {
    found: Vec<String>,
    passes: Vec<String>,
}

#[derive(Deserialize)]
struct Claimed {
    claims: Vec<(String, Vec<String>)>,
}

#[derive(Deserialize)]
struct Fresh {
    output: Vec<Output>,
}

#[derive(Deserialize)]
struct Output {
    fails: Vec<Criterion>,
    text: String,
}

fn judge(output: &str) -> Judgment {
    ReviewPlan::default().reviewer().unwrap().review(&Material::of_output(output.as_bytes()))
}

fn found(output: &str) -> Vec<(Criterion, What, Option<u32>)> {
    judge(output).findings.iter().map(|finding| (finding.criterion, finding.what, finding.line)).collect()
}

/// What the examples of a criterion say and the review does not.
fn wrong(criterion: Criterion, source: &str) -> Vec<String> {
    let examples: Examples = toml::from_str(source).unwrap();
    let finds = |text: &str| judge(text).failed_criteria().contains(&criterion);
    let missed =
        examples.found.iter().filter(|text| !finds(text)).map(|text| format!("{criterion} missed: {text:?}"));
    let false_alarms = examples.passes.iter().filter(|text| finds(text));
    let false_alarms =
        false_alarms.map(|text| format!("{criterion} false alarm: {text:?} {:?}", judge(text).findings));
    missed.chain(false_alarms).collect()
}

fn wrong_claims(source: &str) -> Vec<String> {
    let examples: Claimed = toml::from_str(source).unwrap();
    let reviewer = ReviewPlan::default().reviewer().unwrap();
    let mut wrong = Vec::new();
    for (text, expected) in examples.claims {
        let claims = reviewer.claims(&Material::of_output(text.as_bytes()));
        let paths: Vec<String> = claims.into_iter().map(|claim| claim.path).collect();
        if paths != expected {
            wrong.push(format!("claims of {text:?}: {paths:?}, not {expected:?}"));
        }
    }
    wrong
}

/// R-T4, R-T5: every example of Q1 to Q6, in both languages, is judged as it says.
#[test]
fn the_examples_are_judged_as_they_say() {
    let mut all = wrong_claims(include_str!("../../review/q1.toml"));
    for (criterion, source) in [
        (Criterion::Q2, include_str!("../../review/q2.toml")),
        (Criterion::Q3, include_str!("../../review/q3.toml")),
        (Criterion::Q4, include_str!("../../review/q4.toml")),
        (Criterion::Q5, include_str!("../../review/q5.toml")),
        (Criterion::Q6, include_str!("../../review/q6.toml")),
    ] {
        all.extend(wrong(criterion, source));
    }
    assert!(all.is_empty(), "{}:\n{}", all.len(), all.join("\n"));
}

/// R-T4: empty output is a rejection, and it is not all there.
#[test]
fn empty_output_is_rejected() {
    for output in ["", " \n\t\n"] {
        assert_eq!(found(output), [(Criterion::Q4, What::Empty, None)]);
        assert_eq!(judge(output).cause(), Some(Cause::Incomplete));
    }
}

/// R-T4, R-T5: whole outputs of other kinds are judged as a person would.
#[test]
fn whole_outputs_are_judged_as_a_person_would() {
    let fresh: Fresh = toml::from_str(include_str!("../../review/fresh.toml")).unwrap();
    let mut wrong = Vec::new();
    for Output { fails, text } in &fresh.output {
        let judgment = judge(text);
        if judgment.failed_criteria() != *fails {
            wrong.push(format!("{fails:?} expected of {text}\n{:#?}", judgment.findings));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), fresh.output.len(), wrong.join("\n----\n"));
}
