//! A problem in the reader's language. The sentences themselves are in `messages/`.

use std::fmt;

use super::Format;
use super::node::{Node, Value};
use super::problem::{Expected, Problem, ProblemKind, ValueType};
use crate::duration::human_duration;
use crate::lang::{Lang, text};
use crate::redact::{one_line, redact};

impl Problem {
    /// What is wrong, in words.
    pub fn what(&self, lang: Lang) -> String {
        use ProblemKind as P;
        let meant = |meant: &Option<String>| match meant {
            Some(meant) => text(lang, "config.problem.meant", &[("meant", meant)]),
            None => String::new(),
        };
        let say = |key: &str, values: &[(&str, &dyn fmt::Display)]| {
            text(lang, &format!("config.problem.{key}"), values)
        };
        let list = |names: &[String]| join(lang, "and", names);
        match &self.kind {
            P::Syntax { detail } => say("syntax", &[("detail", detail)]),
            P::UnknownField { meant: other } => say("unknown-field", &[]) + &meant(other),
            P::UnknownName { given, meant: other } => {
                say("unknown-name", &[("given", given)]) + &meant(other)
            }
            P::WrongType { found: ValueType::Null, .. } => say("null", &[]),
            P::WrongType { given, found } => {
                let found = text(lang, &format!("config.type.{}", found.key()), &[]);
                if given.is_empty() {
                    say("wrong-type-long", &[("found", &found)])
                } else {
                    say("wrong-type", &[("given", given), ("found", &found)])
                }
            }
            P::TooSmall { given } => say("too-small", &[("given", given)]),
            P::TooLarge { given } => say("too-large", &[("given", given)]),
            P::NotWhole { given } => say("not-whole", &[("given", given)]),
            P::NotFinite { given } => say("not-finite", &[("given", given)]),
            P::NotADuration { given } => say("not-a-duration", &[("given", given)]),
            P::WrongBeginning { given } => say("wrong-beginning", &[("given", given)]),
            P::BadRegex { detail } => say("bad-regex", &[("detail", detail)]),
            P::Empty => say("empty", &[]),
            P::Missing { fields } => say("missing", &[("fields", &join(lang, "or", fields))]),
            P::SaidTwice { fields } => say("said-twice", &[("fields", &list(fields))]),
            P::GivenTwice { name } => say("given-twice", &[("name", name)]),
            P::RetryIsStandard => say("retry-is-standard", &[]),
            P::Reserved { name } => say("reserved", &[("name", name)]),
            P::Cycle { names } => say("cycle", &[("names", &names.join(" → "))]),
            P::InitialAboveCap { initial, cap } => {
                say("initial-above-cap", &[("initial", initial), ("cap", cap)])
            }
            P::NotTogether { fields } => say("not-together", &[("fields", &list(fields))]),
            P::TooMany { given } => say("too-many", &[("given", given)]),
            P::Nul => say("nul", &[]),
            P::BadName { given } => say("bad-name", &[("given", given)]),
            P::LeadsOut { given } => say("leads-out", &[("given", given)]),
            P::NotASize { given } => say("not-a-size", &[("given", given)]),
            P::Unfit { given } => say("unfit", &[("given", given)]),
            P::TooShort { given } => say("too-short", &[("given", given)]),
            P::NeverKept { given, reason } => say(&format!("never-kept-{reason}"), &[("given", given)]),
            P::SameId { id, first } => say("same-id", &[("id", id), ("first", first)]),
            P::NoSubtask { given, meant: other } => say("no-subtask", &[("given", given)]) + &meant(other),
            P::WaitsForItself { id } => say("waits-for-itself", &[("id", id)]),
            P::Circle { names } => say("circle", &[("names", &way_round(lang, names))]),
            P::BlamesStranger { id, blamed } => say("blames-stranger", &[("id", id), ("blamed", blamed)]),
            P::HintInScript => say("hint-in-script", &[]),
            P::SharedFiles { root, both } => {
                let [first, second] = &**both;
                say("shared-files", &[("root", root), ("first", first), ("second", second)])
            }
            P::NoEffect { curve } => say("no-effect", &[("curve", curve)]),
            P::Shadowed { causes } => say("shadowed", &[("causes", &list(causes))]),
        }
    }

    /// What is allowed there, in words.
    pub fn allowed(&self, lang: Lang) -> String {
        self.expected.describe(lang)
    }

    /// Where, what, and what is allowed, in one line.
    pub fn describe(&self, lang: Lang) -> String {
        text(
            lang,
            "config.problem.line",
            &[("path", &self.path), ("what", &self.what(lang)), ("allowed", &self.allowed(lang))],
        )
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe(Lang::En))
    }
}

impl Expected {
    /// What is allowed, in words.
    pub fn describe(&self, lang: Lang) -> String {
        use Expected as E;
        let say = |key: &str, values: &[(&str, &dyn fmt::Display)]| {
            text(lang, &format!("config.allowed.{key}"), values)
        };
        match self {
            E::Syntax(Format::Json) => say("json", &[]),
            E::Syntax(Format::Toml) => say("toml", &[]),
            E::Bool => say("bool", &[]),
            E::Whole { min, max } => say("whole", &[("min", min), ("max", max)]),
            E::Number { min, max } => say("number", &[("min", min), ("max", max)]),
            E::Text { max_chars } => say("text", &[("max", max_chars)]),
            E::Beginning(beginnings) => say("beginning", &[("beginnings", &join(lang, "or", beginnings))]),
            E::Duration { max_ms } => {
                let max = human_duration(std::time::Duration::from_millis(*max_ms));
                say("duration", &[("max", &max)])
            }
            E::Regex => say("regex", &[]),
            E::Size => say("size", &[]),
            E::SizeUpTo { max } => say("size-up-to", &[("max", &human_size(*max))]),
            E::Form(called) => say(called, &[]),
            E::AtLeast(least) => say("at-least", &[("least", least)]),
            E::OtherHeader => say("other-header", &[]),
            E::Raw { min_chars, max_chars } => say("raw", &[("min", min_chars), ("max", max_chars)]),
            E::Id { max_chars } => say("id", &[("max", max_chars)]),
            E::Variable => say("variable", &[]),
            E::PathBelow => say("path-below", &[]),
            E::False => say("false", &[]),
            E::Any => say("any", &[]),
            E::UpTo { max } => say("up-to", &[("max", max)]),
            E::OtherSubtask(ids) if ids.is_empty() => say("other-subtask", &[]),
            E::NoCircle => say("no-circle", &[]),
            E::Dependency => say("dependency", &[]),
            E::OwnFiles => say("own-files", &[]),
            E::HintApart => say("hint-apart", &[]),
            E::OneOf(names) | E::OtherSubtask(names) => join(lang, "or", names),
            E::Fields(fields) => say("fields", &[("fields", &join(lang, "and", fields))]),
            E::Keys(key) => say("keys", &[("key", &key.describe(lang))]),
            E::ListOf(item) => say("list", &[("item", &item.describe(lang))]),
            E::Either(options) => {
                let options: Vec<String> = options.iter().map(|option| option.describe(lang)).collect();
                options.join(&say("either", &[]))
            }
            E::JustOne(fields) => say("just-one", &[("fields", &join(lang, "or", fields))]),
            E::AtLeastOne(fields) => say("at-least-one", &[("fields", &join(lang, "or", fields))]),
            E::Once => say("once", &[]),
            E::AnyNameBut(names) => say("any-name-but", &[("names", &join(lang, "or", names))]),
            E::NoCycle => say("no-cycle", &[]),
            E::AtMost(cap) => say("at-most", &[("cap", cap)]),
            E::Nothing => say("nothing", &[]),
        }
    }
}

impl ValueType {
    const fn key(self) -> &'static str {
        match self {
            ValueType::Null => "null",
            ValueType::Bool => "bool",
            ValueType::Number => "number",
            ValueType::Text => "text",
            ValueType::Date => "date",
            ValueType::List => "list",
            ValueType::Table => "table",
        }
    }
}

/// A value as a problem shows it; empty for lists and tables.
pub(super) fn shown(node: &Node) -> String {
    match &node.value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Whole(whole) => short(&whole.to_string()),
        // Debug writes 1e300 where Display would write three hundred digits.
        Value::Float(float) => format!("{float:?}"),
        Value::Text(text) => format!("\"{}\"", short(text)),
        Value::Date(date) => short(date),
        Value::List(_) | Value::Table(_) => String::new(),
    }
}

/// Somebody's text on one line, not too long, without secrets and control characters.
pub(super) fn short(text: &str) -> String {
    const ROOM: usize = 60;
    // Cut before redacting too: a value may be megabytes, and all but its beginning is thrown away.
    let beginning: String = text.chars().take(ROOM * 8).collect();
    let line = one_line(&redact(&beginning));
    let mut cut: String = line.chars().take(ROOM).collect();
    if cut.len() < line.len() {
        cut.push('…');
    }
    cut
}

/// A circle, written out; of one that nobody would read to its end, the beginning and the end.
fn way_round(lang: Lang, names: &[String]) -> String {
    const WHOLE: usize = 64;
    const ENDS: usize = 16;
    if names.len() <= WHOLE {
        return names.join(" → ");
    }
    let left_out = text(lang, "config.problem.more", &[("n", &(names.len() - 2 * ENDS))]);
    let (first, last) = (&names[..ENDS], &names[names.len() - ENDS..]);
    format!("{} → {left_out} → {}", first.join(" → "), last.join(" → "))
}

/// Bytes as a file would write them: in the largest unit that leaves nothing over.
fn human_size(bytes: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let whole = units.into_iter().find(|(_, bits)| bytes > 0 && bytes.trailing_zeros() >= *bits);
    whole.map_or_else(|| bytes.to_string(), |(unit, bits)| format!("{}{unit}", bytes >> bits))
}

/// "a, b or c" in the words of that language.
fn join(lang: Lang, word: &str, names: &[String]) -> String {
    let comma = text(lang, "config.join.comma", &[]);
    match names {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => first.join(&comma) + &text(lang, &format!("config.join.{word}"), &[]) + last,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-C2: every problem has its sentence in both languages.
    #[test]
    fn every_problem_has_words() {
        let name = || "x".to_owned();
        let names = || vec![name(), name()];
        let kinds = [
            ProblemKind::Syntax { detail: name() },
            ProblemKind::UnknownField { meant: Some(name()) },
            ProblemKind::UnknownName { given: name(), meant: None },
            ProblemKind::TooSmall { given: name() },
            ProblemKind::TooLarge { given: name() },
            ProblemKind::NotWhole { given: name() },
            ProblemKind::NotFinite { given: name() },
            ProblemKind::NotADuration { given: name() },
            ProblemKind::WrongBeginning { given: name() },
            ProblemKind::BadRegex { detail: name() },
            ProblemKind::Empty,
            ProblemKind::Missing { fields: names() },
            ProblemKind::SaidTwice { fields: names() },
            ProblemKind::GivenTwice { name: name() },
            ProblemKind::RetryIsStandard,
            ProblemKind::Reserved { name: name() },
            ProblemKind::Cycle { names: names() },
            ProblemKind::InitialAboveCap { initial: name(), cap: name() },
            ProblemKind::NoEffect { curve: name() },
            ProblemKind::Shadowed { causes: names() },
            ProblemKind::NotTogether { fields: names() },
            ProblemKind::TooMany { given: 1 },
            ProblemKind::Nul,
            ProblemKind::BadName { given: name() },
            ProblemKind::LeadsOut { given: name() },
            ProblemKind::NotASize { given: name() },
            ProblemKind::SameId { id: name(), first: name() },
            ProblemKind::NoSubtask { given: name(), meant: Some(name()) },
            ProblemKind::WaitsForItself { id: name() },
            ProblemKind::Circle { names: names() },
            ProblemKind::Circle { names: vec![name(); 1_000] },
            ProblemKind::BlamesStranger { id: name(), blamed: name() },
            ProblemKind::HintInScript,
            ProblemKind::SharedFiles { root: name(), both: Box::new([name(), name()]) },
        ];
        let types = [
            ValueType::Null,
            ValueType::Bool,
            ValueType::Number,
            ValueType::Text,
            ValueType::Date,
            ValueType::List,
            ValueType::Table,
        ];
        let given = |found| [name(), String::new()].map(|given| ProblemKind::WrongType { given, found });
        let expected = [
            Expected::Syntax(Format::Json),
            Expected::Syntax(Format::Toml),
            Expected::Bool,
            Expected::Whole { min: 0, max: 1 },
            Expected::Number { min: 0, max: 1 },
            Expected::Text { max_chars: 1 },
            Expected::Beginning(names()),
            Expected::Duration { max_ms: 1 },
            Expected::Regex,
            Expected::Size,
            Expected::Raw { min_chars: 0, max_chars: 1 },
            Expected::Id { max_chars: 1 },
            Expected::Variable,
            Expected::PathBelow,
            Expected::False,
            Expected::Any,
            Expected::UpTo { max: 1 },
            Expected::OtherSubtask(names()),
            Expected::OtherSubtask(Vec::new()),
            Expected::NoCircle,
            Expected::Dependency,
            Expected::OwnFiles,
            Expected::HintApart,
            Expected::OneOf(names()),
            Expected::Fields(names()),
            Expected::Keys(Box::new(Expected::Bool)),
            Expected::ListOf(Box::new(Expected::Bool)),
            Expected::Either(vec![Expected::Bool, Expected::Regex]),
            Expected::JustOne(names()),
            Expected::AtLeastOne(names()),
            Expected::Once,
            Expected::AnyNameBut(names()),
            Expected::NoCycle,
            Expected::AtMost(name()),
            Expected::Nothing,
        ];
        for lang in Lang::ALL {
            for kind in kinds.iter().cloned().chain(types.into_iter().flat_map(given)) {
                let problem = Problem { path: name(), kind, expected: Expected::Once, place: None };
                let line = problem.describe(lang);
                // A hint is the one thing that is written with braces.
                let line = line.replace("{hint}", "");
                assert!(!line.contains("config.") && !line.contains(['{', '}']), "{line}");
            }
            for expected in &expected {
                let words = expected.describe(lang).replace("{hint}", "");
                assert!(
                    !words.is_empty() && !words.contains("config.") && !words.contains(['{', '}']),
                    "{words}"
                );
            }
        }
    }

    /// R-C2: so has what can be wrong with guarded requests.
    #[test]
    fn every_problem_of_guarded_requests_has_words() {
        let name = || "x".to_owned();
        let kinds = [
            ProblemKind::Unfit { given: name() },
            ProblemKind::TooShort { given: name() },
            ProblemKind::NeverKept { given: name(), reason: "secret" },
            ProblemKind::NeverKept { given: name(), reason: "connection" },
            ProblemKind::NeverKept { given: name(), reason: "anew" },
        ];
        let expected = [
            Expected::SizeUpTo { max: 64 << 20 },
            Expected::Form("path-pattern"),
            Expected::Form("http-method"),
            Expected::Form("header-name"),
            Expected::Form("status-or-hundred"),
            Expected::Form("principal"),
            Expected::Form("address"),
            Expected::Form("http-url"),
            Expected::Form("allowed"),
            Expected::Form("host"),
            Expected::Form("origin"),
            Expected::AtLeast(name()),
            Expected::OtherHeader,
        ];
        for lang in Lang::ALL {
            for (kind, expected) in kinds.iter().flat_map(|kind| expected.iter().map(move |all| (kind, all)))
            {
                let (kind, expected) = (kind.clone(), expected.clone());
                let line = Problem { path: name(), kind, expected, place: None }.describe(lang);
                assert!(!line.contains("config.") && !line.contains(['{', '}']), "{line}");
            }
        }
    }

    /// R-D7: a secret in a value is not shown, nor is more of it than a line.
    #[test]
    fn values_are_shown_short_and_without_secrets() {
        assert_eq!(short("postgres://u:hunter2@h/db"), "postgres://u:[redacted]@h/db");
        assert_eq!(short(&"x".repeat(1_000_000)).chars().count(), 61);
        assert!(!short("a\u{1b}[31m\nb").contains(char::is_control));
    }
}
