use super::rules::RuleBook;
use super::*;

fn classify(text: &str) -> Failure {
    Classifier::built_in().classify(&Report::text(text))
}

/// R-P3: a rule that does not load is an error at load; the built-in book loads.
#[test]
fn the_book_loads() {
    if let Err(error) = RuleBook::built_in() {
        panic!("{error}");
    }
}

/// R-P3: every rule recognises its own examples and leaves alone what only looks alike.
#[test]
fn every_rule_keeps_its_word() {
    let mut wrong = Vec::new();
    for rule in Classifier::built_in_rules() {
        for example in &rule.examples {
            let failure = classify(example);
            if failure.rule.as_str() != rule.id {
                wrong.push(format!("{} should recognise {example:?}, but {} did", rule.id, failure.rule));
            }
        }
        for other in &rule.not {
            if classify(other).rule.as_str() == rule.id {
                wrong.push(format!("{} should leave {other:?} alone", rule.id));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
