//! The language as a whole: what is read, what is refused and where, and random filters beside a naive judge.

use proptest::prelude::*;
use serde_json::json;

use super::expr::{Comparison, Expr, Moment, Pattern, Precision, Test, Value};
use super::*;
use crate::dead_letter::{LetterFilter, LetterHead};
use crate::event::{Event, EventFilter, EventStatus};
use crate::id::{EventSeq, JobId};
use crate::settle::LetterReason;

/// A letter as far as a filter sees it.
struct Letter {
    id: i64,
    queue: &'static str,
    cause: &'static str,
    group: &'static str,
    error: &'static str,
    caller_id: Option<&'static str>,
    attempts: i64,
    died: &'static str,
}

const LETTER: Letter = Letter {
    id: 17,
    queue: "mail",
    cause: "rate_limit",
    group: "deadbeef01",
    error: "Timeout talking to smtp (接続)",
    caller_id: None,
    attempts: 4,
    died: "2026-11-15T11:03:32.123Z",
};

impl Fields<LetterField> for Letter {
    fn fact(&self, field: LetterField) -> Fact<'_> {
        match field {
            LetterField::Id => Fact::Id(JobId(self.id)),
            LetterField::Queue => self.queue.into(),
            LetterField::Cause => self.cause.into(),
            LetterField::Group => self.group.into(),
            LetterField::Error => self.error.into(),
            LetterField::CallerId => self.caller_id.into(),
            LetterField::Attempts => Fact::Number(self.attempts),
            LetterField::Retryable => Fact::Flag(true),
            LetterField::Age | LetterField::Died => Fact::Moment(self.died.parse().unwrap()),
            _ => Fact::Absent,
        }
    }
}

fn now() -> Timestamp {
    "2026-11-15T13:03:32.123Z".parse().unwrap()
}

fn read(text: &str) -> Filter<LetterField> {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// R-C1: one language says which letters: names, patterns, ages, sets, and how they are joined.
#[test]
fn what_is_asked_is_what_is_found() {
    for (text, found) in [
        ("queue=mail", true),
        ("QUEUE = 'mail' AND cause=RATE-LIMIT", true),
        ("queue=mai", false),
        ("queue!=mail", false),
        ("not queue=sms", true),
        ("queue in (sms, mail)", true),
        ("queue not in (sms, mail)", false),
        (r#"error~"timeout.*\(接続\)""#, true),
        ("error ~ '^timeout' and error !~ refused", true),
        ("(error~(smtp|imap)) and error~t(im)+e{1,2}", true),
        ("cause=network or queue=mail and attempts>3", true),
        ("(cause=network or queue=mail) and attempts>4", false),
        ("id=job_17 and id>=17 and id<18", true),
        ("group=deadbeef", true),
        ("group=beef", false),
        ("group in (feed, dead)", true),
        ("age>1h", true),
        ("age>2h", false),
        ("age>=2h and age<=2h and age=2h", true),
        ("died=2026-11-15", true),
        ("died<2026-11-15 or died>2026-11-15", false),
        ("died>=2026-11-15T20:03+09:00 and died<2026-11-15T11:03:33Z", true),
        ("died=2026-11-15T11:03:32Z", true),
        ("died=2026-11-15T11:03:32.122Z", false),
        ("caller_id=\"\"", true),
        ("caller_id!=x", true),
        ("caller_id=x or caller_id~x", false),
        ("attempts in (3, 4)", true),
        ("retryable=true and retryable!=FALSE", true),
        ("redrives>0 or redrives<=0", false),
    ] {
        assert_eq!(read(text).matches(&LETTER, now()), found, "{text}");
    }
}

/// Bad input: a filter that does not parse points at the place and says what could stand there.
#[test]
fn what_is_wrong_is_pointed_at() {
    let check = |text: &str, place: &str, problem: &str| {
        let error = text.parse::<Filter<LetterField>>().unwrap_err();
        assert_eq!(&text[error.span.clone()], place, "{text}: {error}");
        assert!(error.to_string().contains(problem), "{text}: {error}");
    };
    check("", "", "expected a field");
    check("cuase=network", "cuase", "no field");
    check("queue=mail kind=x", "kind", "expected and, or, or the end, found \"kind\"");
    check("queue=", "", "expected a value");
    check("queue==mail", "=", "expected a value");
    check("queue= and kind=x", "and", "expected a value");
    check("(queue=mail", "", "closing parenthesis");
    check("queue=mail)", ")", "expected and, or, or the end");
    check("queue in mail", "mail", "an opening parenthesis");
    check("queue in (a b)", "b", "a comma");
    check("queue in ()", ")", "expected a value");
    check("queue not mail", "not", "a comparison");
    check("queue>mail", ">", "cannot be compared");
    check("age~1h", "~", "cannot be compared");
    check("age>soon", "soon", "age cannot be");
    check("died>yesterday", "yesterday", "died cannot be");
    check("cause=netwrok", "netwrok", "cause cannot be");
    check("id=seventeen", "seventeen", "id cannot be");
    check("error~\"(\"", "\"(\"", "unclosed group");
    check("error~\"a{1000}{1000}\"", "\"a{1000}{1000}\"", "size limit");
    check("error=\"never", "\"", "never closed");
    check("エラー=x", "エラー", "no field");
    check(&"(".repeat(65), "(", "nested deeper than 64");
    check(&"not ".repeat(65), "not", "nested deeper than 64");
    check(&format!("queue={}", "x".repeat(9_000)), "", "longer than 8192 bytes");
    let error = "cuase=network".parse::<Filter<LetterField>>().unwrap_err();
    assert!(matches!(error.problem, FilterProblem::UnknownField { meant: Some("cause"), .. }), "{error:?}");
    let error = "cause=netwrok".parse::<Filter<LetterField>>().unwrap_err();
    assert!(matches!(error.problem, FilterProblem::BadValue { meant: Some("network"), .. }), "{error:?}");
}

/// Speed: what an index can serve is taken out, and it is known whether that is all.
#[test]
fn what_an_index_can_serve_is_taken_out() {
    let narrowed = |text: &str| read(text).narrowed(now());
    let whole = narrowed("queue=mail and (cause=network or cause in (timeout)) and group=dead and age>1h");
    let hour_ago = Timestamp::from_millis(now().millis() - 3_600_000);
    assert_eq!(
        whole.conditions,
        [
            (LetterField::Queue, Within::Texts(vec!["mail".into()])),
            (LetterField::Cause, Within::Texts(vec!["network".into(), "timeout".into()])),
            (LetterField::Group, Within::Prefix("dead".into())),
            (LetterField::Age, Within::Period { from: None, until: Some(hour_ago) }),
        ]
    );
    assert!(whole.is_whole);
    for (text, conditions) in [
        ("queue=mail and error~x", 1),
        ("queue=mail or kind=x", 0),
        ("not queue=mail", 0),
        ("queue!=mail", 0),
        ("queue=\"\"", 0),
        ("attempts>1 and id in (1, 2)", 1),
        ("age<0s", 0),
        ("queue=mail and (kind=a or attempts=1)", 1),
    ] {
        let narrowed = narrowed(text);
        assert_eq!((narrowed.conditions.len(), narrowed.is_whole), (conditions, false), "{text}");
    }
}

fn event() -> Event {
    Event {
        seq: EventSeq(42),
        event_id: "EVT-20261115-110332-00002a".into(),
        timestamp: LETTER.died.parse().unwrap(),
        event_type: "job_retry".into(),
        source: "mailer".into(),
        data: json!({"queue": "mail", "attempt": 2, "cause": "network", "caller_id": "c-1"}),
        parent_event_id: None,
        related_hypothesis_id: None,
        tags: vec!["a".into(), "b".into()],
        latency_ms: Some(1_500),
        exit_code: Some(75),
        importance: 3,
        status: EventStatus::Retrying,
        error_info: None,
        retry_info: None,
        recovery_actions: Vec::new(),
        job: Some(JobId(7)),
        parent: None,
    }
}

/// R-E3: events are asked in the same language; what the store knows how to look for is handed to it.
#[test]
fn events_are_asked_in_the_same_language() {
    for (text, found, whole) in [
        ("type=job_retry and source=mailer and status=retrying and job=7", true, true),
        ("tag=b and tag!=c", true, false),
        ("tag!=a", false, false),
        ("latency>1s and exit_code=75 and attempt=2 and importance<=3", true, false),
        ("status in (failed, dead_letter)", false, true),
        ("id=EVT-20261115 and caller_id=c-1", true, false),
        ("at>=2026-11-15 and age<1d", true, true),
        ("type=a and type=job_retry", false, false),
        ("error~x or error_type!=\"\"", false, false),
    ] {
        let filter: Filter<EventField> = text.parse().unwrap();
        assert_eq!(filter.matches(&event(), now()), found, "{text}");
        assert_eq!(filter.narrow(&mut EventFilter::default(), now()), whole, "{text}");
    }
}

fn text_value() -> impl Strategy<Value = Value> {
    prop_oneof!["mail|sms|and|NOT|", "[ -~]{0,6}", "\\PC{0,4}", any::<String>()].prop_map(Value::Text)
}

fn moment() -> impl Strategy<Value = Value> {
    let precision = prop_oneof![
        Just((Precision::Day, 86_400_000_i64)),
        Just((Precision::Minute, 60_000)),
        Just((Precision::Second, 1_000)),
        Just((Precision::Millisecond, 1)),
    ];
    (0_i64..4_000_000_000_000, precision).prop_map(|(at, (precision, of))| {
        Value::Moment(Moment { from: Timestamp::from_millis(at / of * of), precision })
    })
}

fn comparison() -> impl Strategy<Value = Comparison> {
    use Comparison::{AtLeast, AtMost, Equal, Less, More, Unequal};
    prop::sample::select(vec![Equal, Unequal, Less, AtMost, More, AtLeast])
}

fn equality() -> impl Strategy<Value = Comparison> {
    prop::sample::select(vec![Comparison::Equal, Comparison::Unequal])
}

fn pattern() -> impl Strategy<Value = Pattern> {
    prop_oneof!["[ -~]{0,6}", r"\\d+ ?\\\\?", "時間|timeout"].prop_filter_map("a pattern", |text: String| {
        let regex = regex::RegexBuilder::new(&text).case_insensitive(true).build().ok()?;
        Some(Pattern { text, regex })
    })
}

fn condition() -> impl Strategy<Value = Expr<LetterField>> {
    use LetterField::{Age, Attempts, Cause, Died, Error, Group, Id, Queue, Retryable};
    let cause = || {
        prop::sample::select(redrive_policy::Cause::NAMES.to_vec())
            .prop_map(|name| Value::Text(name.to_owned()))
    };
    let small = || (0_i64..6).prop_map(Value::Number);
    let id = || (0_i64..40).prop_map(|id| Value::Id(JobId(id)));
    let compare = |(comparison, value)| Test::Compare(comparison, value);
    let is = |field: LetterField| move |test: Test| Expr::Is(field, test);
    prop_oneof![
        (equality(), text_value()).prop_map(compare).prop_map(is(Queue)),
        prop::collection::vec(text_value(), 1..4).prop_map(Test::In).prop_map(is(Queue)),
        (equality(), cause()).prop_map(compare).prop_map(is(Cause)),
        prop::collection::vec(cause(), 1..4).prop_map(Test::In).prop_map(is(Cause)),
        (equality(), "[a-f0-9]{0,4}".prop_map(Value::Prefix)).prop_map(compare).prop_map(is(Group)),
        pattern().prop_map(Test::Matches).prop_map(is(Error)),
        pattern().prop_map(Test::Differs).prop_map(is(Error)),
        (comparison(), small()).prop_map(compare).prop_map(is(Attempts)),
        (comparison(), id()).prop_map(compare).prop_map(is(Id)),
        (equality(), any::<bool>().prop_map(Value::Flag)).prop_map(compare).prop_map(is(Retryable)),
        (comparison(), (0_u64..20_000_000_000).prop_map(Value::Length)).prop_map(compare).prop_map(is(Age)),
        (comparison(), moment()).prop_map(compare).prop_map(is(Died)),
    ]
}

fn expr() -> impl Strategy<Value = Expr<LetterField>> {
    condition().prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 2..4).prop_map(Expr::All),
            prop::collection::vec(inner.clone(), 2..4).prop_map(Expr::Any),
            inner.prop_map(|inner| Expr::Not(Box::new(inner))),
        ]
    })
}

/// The same question, asked as simply as can be: every condition by itself, everything else by truth tables.
fn naive(expr: &Expr<LetterField>, letter: &Letter, now: Timestamp) -> bool {
    let (field, test) = match expr {
        Expr::All(parts) => return !parts.iter().any(|part| !naive(part, letter, now)),
        Expr::Any(parts) => return parts.iter().filter(|part| naive(part, letter, now)).count() > 0,
        Expr::Not(inner) => return !naive(inner, letter, now),
        Expr::Is(field, test) => (*field, test),
    };
    if let Test::In(values) = test {
        let one = |value: &Value| Expr::Is(field, Test::Compare(Comparison::Equal, value.clone()));
        return values.iter().any(|value| naive(&one(value), letter, now));
    }
    let words = match field {
        LetterField::Queue => letter.queue,
        LetterField::Cause => letter.cause,
        LetterField::Group => letter.group,
        _ => letter.error,
    };
    let died: Timestamp = letter.died.parse().unwrap();
    let order = |asked: i64, value: i64, comparison: Comparison| match comparison {
        Comparison::Equal => asked == value,
        Comparison::Unequal => asked != value,
        Comparison::Less => asked < value,
        Comparison::AtMost => asked <= value,
        Comparison::More => asked > value,
        Comparison::AtLeast => asked >= value,
    };
    match test {
        Test::Matches(pattern) => pattern.regex.is_match(letter.error),
        Test::Differs(pattern) => !pattern.regex.is_match(letter.error),
        Test::In(_) => unreachable!(),
        Test::Compare(comparison, value) => match value {
            Value::Text(wanted) => (words == wanted) == (*comparison == Comparison::Equal),
            Value::Prefix(begin) => {
                (!begin.is_empty() && words.starts_with(begin)) == (*comparison == Comparison::Equal)
            }
            Value::Flag(wanted) => *wanted == (*comparison == Comparison::Equal),
            Value::Number(wanted) => order(letter.attempts, *wanted, *comparison),
            Value::Id(wanted) => order(letter.id, wanted.0, *comparison),
            Value::Length(wanted) => {
                let age = (now.millis() - died.millis()).max(0);
                order(age, i64::try_from(*wanted).unwrap(), *comparison)
            }
            // A day, a minute or a second is where its first millisecond is, for everything that lies within.
            Value::Moment(wanted) => {
                let inside = (wanted.from..wanted.until()).contains(&died);
                let at = if inside { wanted.from } else { died };
                order(at.millis(), wanted.from.millis(), *comparison)
            }
        },
    }
}

/// Whether what an index would answer holds.
fn allowed(narrowed: &Narrowed<LetterField>, letter: &Letter) -> bool {
    narrowed.conditions.iter().all(|(field, within)| match (letter.fact(*field), within) {
        (Fact::Text(text), Within::Texts(texts)) => texts.iter().any(|one| *one == text),
        (Fact::Text(text), Within::Prefix(begin)) => text.starts_with(begin),
        (Fact::Id(id), Within::Ids(ids)) => ids.contains(&id),
        (Fact::Flag(flag), Within::Flag(wanted)) => flag == *wanted,
        (Fact::Moment(at), Within::Period { from, until }) => {
            from.is_none_or(|from| at >= from) && until.is_none_or(|until| at < until)
        }
        other => panic!("{other:?}"),
    })
}

/// The letter as a store hands it to a test.
fn head() -> LetterHead {
    LetterHead {
        id: JobId(LETTER.id),
        queue: LETTER.queue.into(),
        kind: "send".into(),
        died_at: LETTER.died.parse().unwrap(),
        reason: LetterReason::Exhausted,
        cause: LETTER.cause.parse().unwrap(),
        retryable: true,
        rule: "status-429".into(),
        fingerprint: LETTER.group.into(),
        error_type: "HttpStatus".into(),
        error_message: LETTER.error.into(),
        attempts: 4,
        retries: 3,
        redrives: 0,
        caller_id: None,
    }
}

/// Whether a store that does as it is told would find the letter.
fn would_be_found(filter: &LetterFilter, head: &LetterHead) -> bool {
    let is = |wanted: &Option<String>, value: &str| wanted.as_deref().is_none_or(|wanted| wanted == value);
    filter.ids.as_ref().is_none_or(|ids| ids.contains(&head.id))
        && (filter.causes.is_empty() || filter.causes.contains(&head.cause))
        && filter.reason.is_none_or(|reason| reason == head.reason)
        && filter.fingerprint_prefix.as_ref().is_none_or(|begin| head.fingerprint.starts_with(begin))
        && filter.since.is_none_or(|since| head.died_at >= since)
        && filter.before.is_none_or(|before| head.died_at < before)
        && is(&filter.queue, &head.queue)
        && is(&filter.kind, &head.kind)
        && filter.caller_id.is_none()
        && filter.only.as_ref().is_none_or(|test| (test.0)(head))
}

/// Speed: what an index can serve alone needs no test, so that it can be counted without looking at each.
#[test]
fn letters_that_an_index_finds_need_no_test() {
    for (text, found, tested) in [
        (
            "queue=mail and kind=send and class=transient and reason=exhausted and died=2026-11-15",
            true,
            false,
        ),
        ("class=permanent", false, false),
        ("class in (permanent, transient) and id=17", true, false),
        ("class=transient and cause=network", false, true),
        ("queue in (mail, sms)", true, true),
        ("error~timeout and group=dead", true, true),
        ("caller_id=x", false, false),
    ] {
        let filter = read(text).letters(now());
        assert_eq!((would_be_found(&filter, &head()), filter.only.is_some()), (found, tested), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    /// R-C1: a filter is stored as its text; what is printed parses to the same.
    #[test]
    fn what_is_printed_parses_to_the_same(expr in expr()) {
        let filter = Filter { expr };
        let text = filter.to_string();
        prop_assume!(text.len() <= parse::LONGEST);
        prop_assert_eq!(Filter::parse(&text).map_err(|error| format!("{text}: {error}")), Ok(filter));
    }

    /// Bad input: no text panics, and a place is a place in the text.
    #[test]
    fn no_text_panics(text in prop_oneof![any::<String>(), "[a-z_=!~<>()\"' ,0-9\\\\]{0,40}", "(queue|age|not|and|or|in|\\(|\\)|=|~|<|,|'|\"|1h| ){0,20}"]) {
        match text.parse::<Filter<LetterField>>() {
            Ok(filter) => prop_assert_eq!(filter.to_string().parse(), Ok(filter)),
            Err(error) => prop_assert!(text.get(error.span.clone()).is_some(), "{:?}", error),
        }
        let _ = text.parse::<Filter<EventField>>();
    }

    /// R-C1: what is found is what a naive judge finds, and an index never loses any of it.
    #[test]
    fn judged_as_a_naive_judge_would(expr in expr(), minutes in -5_i64..300) {
        let now = Timestamp::from_millis(LETTER.died.parse::<Timestamp>().unwrap().millis() + minutes * 60_000);
        let found = naive(&expr, &LETTER, now);
        let filter = Filter { expr };
        prop_assert_eq!(filter.matches(&LETTER, now), found, "{}", filter);
        let narrowed = filter.narrowed(now);
        let allowed = allowed(&narrowed, &LETTER);
        prop_assert!(allowed || !found, "{} lost one: {:?}", filter, narrowed);
        prop_assert!(!narrowed.is_whole || allowed == found, "{} is not whole: {:?}", filter, narrowed);
        let letters = filter.letters(now);
        prop_assert_eq!(would_be_found(&letters, &head()), found, "{}: {:?}", filter, letters);
    }
}
