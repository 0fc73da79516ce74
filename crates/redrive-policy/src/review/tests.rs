//! The examples of each criterion, and what holds for any output.

use std::sync::Arc;

use proptest::prelude::*;
use serde::Deserialize;

use super::*;
use crate::cause::Cause;
use crate::failure::Failure;
use crate::hint::Hint;
use crate::lang::Lang;

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

fn seen(path: &str, state: FileState, content: Option<&str>) -> FileSeen {
    let content = content.map(|content| content.as_bytes().to_vec());
    let total_bytes = content.as_ref().map_or(0, |content| content.len() as u64);
    FileSeen { state, content, total_bytes, ..FileSeen::expected(path) }
}

fn judge_with(plan: &ReviewPlan, output: &str, files: &[FileSeen]) -> Judgment {
    plan.reviewer().unwrap().review(&Material { files, ..Material::of_output(output.as_bytes()) })
}

/// R-T5: what fails only Q3, or ends midway, is incomplete; whatever else fails makes it a failure of quality.
#[test]
fn the_cause_is_what_is_missing_or_what_is_bad() {
    for (output, cause) in [
        ("// ...", Cause::Incomplete),
        ("```rust\nfn a() {", Cause::Incomplete),
        ("[output truncated]", Cause::Incomplete),
        ("// ...\n```rust\nfn a() {", Cause::Incomplete),
        ("// ...\n// TODO", Cause::Quality),
        ("```rust\nfn a() {\n```", Cause::Quality),
        ("Done.", Cause::Quality),
    ] {
        assert_eq!(judge(output).cause(), Some(cause), "{output}");
    }
    assert_eq!(judge("The answer is 42.").cause(), None);
    assert!(judge("The answer is 42.").passed());
}

/// R-T4 Q5: an output that is nothing but a tool's error failed for that reason, which decides about the next attempt.
#[test]
fn the_error_of_a_tool_keeps_its_cause() {
    for (output, cause) in [
        (
            "Error: 529 {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n",
            Cause::ApiError,
        ),
        ("Invalid API key · Please run /login\n", Cause::AuthError),
        ("Claude AI usage limit reached|1760000000\n", Cause::ResourceExhausted),
        ("Rate limit exceeded. Try again in 20 s.", Cause::RateLimit),
    ] {
        assert_eq!(found(output), [(Criterion::Q5, What::ToolError, Some(1))], "{output}");
        assert_eq!(judge(output).cause(), Some(cause), "{output}");
        // Files that changed do not make it a result; a file that was asked for and is there does.
        let plan = ReviewPlan::default();
        let changed = Material { changed_files: Some(1), ..Material::of_output(output.as_bytes()) };
        assert_eq!(plan.reviewer().unwrap().review(&changed).cause(), Some(cause));
        assert!(judge_with(&plan, output, &[seen("a.rs", FileState::Exists, Some("fn a() {}\n"))]).passed());
    }
    assert_eq!(judge("I must decline.").message(Lang::En).lines().count(), 1);
    assert_eq!(
        found("Sure!\n\nLet me look at the code first."),
        [(Criterion::Q5, What::NoEvidence, Some(3))]
    );
}

/// R-T4 Q1, Q5: what is expected must be there, outside nobody looks, and what is there is evidence.
#[test]
fn expected_files_are_judged() {
    let plan = ReviewPlan::default();
    let output = "The parser is rewritten.";
    let check = |files: &[FileSeen], expected: &[(Criterion, What)]| {
        let judgment = judge_with(&plan, output, files);
        let found: Vec<_> =
            judgment.findings.iter().map(|finding| (finding.criterion, finding.what)).collect();
        assert_eq!(found, expected, "{files:?}");
    };
    check(&[seen("a.rs", FileState::Exists, Some("fn a() {}\n"))], &[]);
    let nothing = (Criterion::Q5, What::NoEvidence);
    check(&[seen("a.rs", FileState::Missing, None)], &[(Criterion::Q1, What::MissingFile), nothing]);
    check(&[seen("../a.rs", FileState::Outside, None)], &[(Criterion::Q1, What::OutsideFile), nothing]);
    check(&[seen("a.rs", FileState::Exists, Some(" \n"))], &[(Criterion::Q5, What::EmptyFile)]);
    check(&[seen("pkg/__init__.py", FileState::Exists, Some(""))], &[]);
    check(&[seen("a.rs", FileState::Exists, Some("fn a() {\n"))], &[(Criterion::Q4, What::OpenAtEnd)]);
    check(&[seen("a.rs", FileState::Exists, Some("fn a() {}}\n"))], &[(Criterion::Q4, What::Unbalanced)]);
    check(&[seen("a.py", FileState::Exists, Some("a = 1\nb = a +\n"))], &[(Criterion::Q4, What::Dangling)]);
    check(&[seen("a.png", FileState::Exists, Some("\0TODO"))], &[]);
    let done = "Implementation complete.";
    assert!(judge_with(&plan, done, &[seen("a.rs", FileState::Exists, Some("fn a() {}\n"))]).passed());
    // A plan that asks for a file may be served by a command that says nothing.
    assert!(judge_with(&plan, "", &[seen("a.rs", FileState::Exists, Some("fn a() {}\n"))]).passed());
    assert!(!judge_with(&plan, "", &[seen("a.rs", FileState::Missing, None)]).passed());
    let changed = Material { changed_files: Some(2), ..Material::of_output(done.as_bytes()) };
    assert!(plan.reviewer().unwrap().review(&changed).passed());
    let unchanged = Material { changed_files: Some(0), ..Material::of_output(done.as_bytes()) };
    assert!(!plan.reviewer().unwrap().review(&unchanged).passed());
}

/// R-T5: where a whole file was asked for, a fragment is incomplete; otherwise it is an answer like any other.
#[test]
fn a_fragment_is_no_whole_file() {
    let plan = ReviewPlan { whole_file: true, ..ReviewPlan::default() };
    for fragment in [
        "```diff\n@@ -1,2 +1,2 @@\n-a\n+b\n```",
        "@@ -10,7 +10,7 @@ impl Queue {\n-    a\n+    b",
        "Add this after line 10:\n\n```js\nfoo();\n```",
        "Insert the following into your `main` function:\n\n```rust\nrun();\n```",
        "Here are the changed lines, only the relevant parts:\n```js\nfoo();\n```",
        "```python\n} else {\n    b()\n```",
        "```js\n  .then((a) => a)\n```",
        "10 行目の後に追加してください。\n```js\nfoo();\n```",
        "変更箇所のみ示します。\n```js\nfoo();\n```",
    ] {
        let judgment = judge_with(&plan, fragment, &[]);
        assert!(
            judgment.findings.iter().any(|finding| finding.what == What::Fragment),
            "{fragment}: {judgment:?}"
        );
        let otherwise = judge(fragment);
        assert!(otherwise.findings.iter().all(|finding| finding.what != What::Fragment), "{fragment}");
    }
    for whole in ["```js\nfoo();\n```", "fn main() {\n    run();\n}\n", "def a():\n    return 1\n"] {
        assert!(judge_with(&plan, whole, &[]).passed(), "{whole}: {:?}", judge_with(&plan, whole, &[]));
    }
    let report = "I replaced lines 10 to 20 as shown:\n\n```diff\n@@ -10,2 +10,2 @@\n-a\n+b\n```";
    let file = seen("a.rs", FileState::Exists, Some("fn a() {}\n"));
    assert!(judge_with(&ReviewPlan { files: vec!["a.rs".into()], ..plan }, report, &[file]).passed());
}

/// R-T5: patterns of one's own find more, and allow takes back.
#[test]
fn patterns_are_configurable() {
    let plan = ReviewPlan {
        omission_patterns: vec![r"(?i)\bto be added\b".to_owned()],
        early_termination_patterns: vec!["(?i)mission accomplished".to_owned()],
        todo_words: vec!["LATER".to_owned(), "未定".to_owned(), "@wip".to_owned()],
        allow: vec!["^> ".to_owned()],
        ..ReviewPlan::default()
    };
    for (output, criterion) in [
        ("The printer is to be added.", Criterion::Q3),
        ("Mission accomplished.", Criterion::Q6),
        ("We do it later, all of it.", Criterion::Q2),
        ("担当者は未定です。", Criterion::Q2),
        ("@wip the parser", Criterion::Q2),
    ] {
        assert!(judge_with(&plan, output, &[]).failed_criteria().contains(&criterion), "{output}");
        assert!(judge_with(&plan, &format!("> {output}\nThe answer is 42."), &[]).passed(), "{output}");
    }
    assert!(judge_with(&plan, "The collateral is enough.", &[]).passed());
    let bad = ReviewPlan { allow: vec!["(".to_owned()], ..ReviewPlan::default() };
    let error = bad.reviewer().unwrap_err();
    assert_eq!((error.field, error.pattern.as_str()), ("allow", "("));
}

/// R-T4: only the criteria that are asked are judged; emptiness is always a rejection.
#[test]
fn only_what_is_asked_is_judged() {
    let output = "// TODO\n// ...\n```rust\nfn a() {";
    for asked in [Criterion::Q2, Criterion::Q3, Criterion::Q4] {
        let plan = ReviewPlan { criteria: vec![asked], ..ReviewPlan::default() };
        assert_eq!(judge_with(&plan, output, &[]).failed_criteria(), [asked]);
        assert!(!judge_with(&plan, "", &[]).passed());
    }
}

/// Bad input: bytes that are no text, a character that is broken off, colours, and more than was kept.
#[test]
fn bytes_are_judged_too() {
    let what = |output: &[u8]| {
        let judgment = ReviewPlan::default().reviewer().unwrap().review(&Material::of_output(output));
        judgment.findings.iter().map(|finding| (finding.what, finding.line)).collect::<Vec<_>>()
    };
    assert_eq!(what(b"The answer\nis \xff 42."), [(What::NotText, Some(2))]);
    assert_eq!(what("The answer is 四".as_bytes().split_last().unwrap().1), [(What::BrokenCharacter, None)]);
    assert_eq!(what(b"\x1b[31m// TODO\x1b[0m later"), [(What::TodoLeft, Some(1))]);
    let kept = Material { total_bytes: 100, ..Material::of_output(b"```rust\nfn a() {") };
    let judgment = ReviewPlan::default().reviewer().unwrap().review(&kept);
    assert_eq!(judgment.findings.iter().map(|finding| finding.what).collect::<Vec<_>>(), [What::TooLong]);
}

/// R-T4, R-T6: noise is only called that: its accidental marks are no findings, and none of it is told to anybody.
#[test]
fn noise_is_not_read_as_text() {
    let noise = b"\xff\xfe\0// TODO ...\n```rust\nfn a() {\nCreated src/a.rs.\nDone.\n";
    let judged = |plan: &ReviewPlan, files: &[FileSeen]| {
        plan.reviewer().unwrap().review(&Material { files, ..Material::of_output(noise) })
    };
    let plan = ReviewPlan::default();
    let judgment = judged(&plan, &[]);
    let what = |judgment: &Judgment| judgment.findings.iter().map(|finding| finding.what).collect::<Vec<_>>();
    assert_eq!(what(&judgment), [What::NotText]);
    for lang in Lang::ALL {
        let details = judgment.details(lang);
        assert!(!format!("{details:?}").contains("TODO"), "{details:?}");
        assert_eq!(details.previous_output_summary, None);
    }
    assert!(plan.reviewer().unwrap().claims(&Material::of_output(noise)).is_empty());
    // Files are owed all the same, and are told after it.
    let owed = judged(&plan, &[seen("a.rs", FileState::Missing, None)]);
    assert_eq!(what(&owed), [What::NotText, What::MissingFile, What::NoEvidence]);
    let only = ReviewPlan { criteria: vec![Criterion::Q2], ..ReviewPlan::default() };
    assert!(judged(&only, &[]).passed());
    // A stray byte in a text hides nothing from a plan that asks only for marks.
    let stray = only.reviewer().unwrap().review(&Material::of_output(b"caf\xe9 // TODO: price\n"));
    assert_eq!(what(&stray), [What::TodoLeft]);
}

/// R-T6: the hint names line and excerpt, stays small however much was found, and keeps secrets to itself.
#[test]
fn the_hint_is_bounded_and_blanked() {
    let line = format!("{} // TODO: 直す password=hunter2 {}\n", "前".repeat(300), "後".repeat(300));
    let long = format!("{}// ...\n", line.repeat(60));
    for (output, first) in
        [(long, ["line 1: ", "1 行目: "]), ("// ... 残り\n".repeat(300), ["line 1: ", "1 行目: "])]
    {
        for (lang, first) in Lang::ALL.into_iter().zip(first) {
            let judgment = judge(&output);
            let details = judgment.details(lang);
            assert_eq!(details.specific_issues.len(), TOLD + 1);
            assert!(judgment.findings.iter().all(|finding| finding.excerpt.chars().count() <= EXCERPT_CHARS));
            let failure =
                Failure { details: Some(Arc::new(details)), ..Failure::of(judgment.cause().unwrap()) };
            let hint = Hint::for_failure(&failure, None).unwrap().render(lang);
            assert!(hint.len() < 7 * 1024, "{}", hint.len());
            assert!(!hint.contains("hunter2") && hint.contains(first), "{hint}");
        }
    }
    let one = judge("fn a() {}\n// ...\n");
    assert_eq!(one.message(Lang::En), "Rejected (Q3): line 2: something is left out: // ...");
    assert_eq!(one.message(Lang::Ja), "不合格 (Q3): 2 行目: 内容が省略されています: // ...");
}

/// R-T4: what a finding points at is where it says.
#[test]
fn a_finding_marks_its_place() {
    let judgment = judge("first\n\t\tlet a = 1; // FIXME soon\n");
    let finding = &judgment.findings[0];
    assert_eq!((finding.line, finding.excerpt.as_str()), (Some(2), "let a = 1; // FIXME soon"));
    let (from, to) = finding.mark.unwrap();
    assert_eq!(finding.excerpt.chars().skip(from).take(to - from).collect::<String>(), "FIXME");
}

/// A piece of what a model or a program might write.
fn scrap() -> impl Strategy<Value = String> {
    let scraps = vec![
        "```rust\n",
        "```\n",
        "```js title=\"a.js\"\n",
        "~~~\n",
        "\n",
        "// ",
        "...",
        "…",
        "TODO",
        "`",
        "\"",
        "'",
        "${",
        "}",
        "(",
        ")",
        "[",
        "/*",
        "*/",
        "r#\"",
        "R\"x(",
        "<<EOF\n",
        "EOF\n",
        "#if A\n",
        "#else\n",
        "#endif\n",
        "Created `a.rs`",
        "省略",
        "完了しました。",
        "etc.",
        "truncated",
        "\\",
        "「",
        "」",
        "password=x",
        "\"\"\"",
        "'''",
        "```python\n",
        "```bash\n",
        "case x) ;;",
        "/[",
        ",",
        "- ",
        ": ",
        "\u{1b}[31m",
        "\u{202e}",
        "\t",
    ];
    prop_oneof![2 => prop::sample::select(scraps).prop_map(str::to_owned), 1 => any::<String>()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Bad input: no bytes make a review panic, and every line that it names is there.
    #[test]
    fn no_output_makes_it_panic(
        bytes in any::<Vec<u8>>(),
        scraps in prop::collection::vec(scrap(), 0..40),
        whole_file: bool,
    ) {
        let text = scraps.concat();
        let plan = ReviewPlan { whole_file, ..ReviewPlan::default() };
        let reviewer = plan.reviewer().unwrap();
        for output in [bytes.as_slice(), text.as_bytes()] {
            for name in [None, Some("a.rs"), Some("a.py"), Some("a.tsx"), Some("a.sh"), Some("a.md")] {
                let judgment = reviewer.review(&Material { name, ..Material::of_output(output) });
                let lines = u32::try_from(material::readable(output).lines().count().max(1)).unwrap();
                for finding in &judgment.findings {
                    prop_assert!(finding.line.is_none_or(|line| line >= 1 && line <= lines), "{finding:?}");
                    let length = finding.excerpt.chars().count();
                    prop_assert!(length <= EXCERPT_CHARS && !finding.excerpt.chars().any(char::is_control));
                    prop_assert!(finding.mark.is_none_or(|(from, to)| from <= to && to <= length), "{finding:?}");
                }
                let told = format!("{:?}", judgment.details(Lang::Ja));
                prop_assert!(!told.contains("\\u{1b}"), "{told}");
                prop_assert!(reviewer.claims(&Material::of_output(output)).len() <= MAX_CLAIMS);
            }
        }
    }
}
