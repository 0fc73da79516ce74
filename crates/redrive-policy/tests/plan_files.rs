//! Plans as files (R-T1): what is written is what is kept, in both formats, and nothing about it is slow.

use std::collections::BTreeMap;

use redrive_policy::Format;
use redrive_policy::graph::Graph;
use redrive_policy::plan::{
    CommandWork, HintBy, OnEscalate, Plan, Recovery, RecoveryStrategy, SnapshotPlan, Subtask, Work,
};
use redrive_policy::review::ReviewPlan;
use redrive_policy::strategy::{fixed_for, with_blamed};
use serde_json::{Value, json};

fn parse(source: &str) -> Plan {
    match Plan::parse(source, Format::Toml, "auth feature.toml") {
        Ok((plan, warnings)) => {
            assert_eq!(warnings, [], "{source}");
            plan
        }
        Err(error) => panic!("{error}\n{source}"),
    }
}

fn command(argv: &[&str]) -> Subtask {
    Subtask {
        id: None,
        work: Work::Command(CommandWork {
            argv: argv.iter().map(|arg| (*arg).to_owned()).collect(),
            cwd: None,
            env: BTreeMap::new(),
            stdin: None,
            hint: HintBy::Env,
        }),
        depends_on: vec![],
        blames: vec![],
        timeout_ms: None,
        policy: None,
        overrides: None,
        snapshot: None,
        review: None,
        recovery: None,
    }
}

/// R-T1: the least that a plan says; everything else has its default.
#[test]
fn a_plan_of_one_line_has_every_default() {
    let plan = parse("subtask = [{ command = 'echo hello | cat' }]");
    let expected = Plan {
        name: "auth feature".to_owned(),
        parallel: 4,
        queue: None,
        recovery: Recovery { strategy: None, rounds: 1, on_escalate: OnEscalate::Keep },
        subtasks: vec![command(&["/bin/sh", "-c", "echo hello | cat"])],
    };
    assert_eq!(plan, expected);
    assert_eq!(plan.name_of(0), "sub-1");
    let (nameless, _) = Plan::parse(r#"{"subtasks":[{"command":["a"]}]}"#, Format::Json, "-").unwrap();
    assert_eq!(nameless.name, "task");
}

const WHOLE: &str = r#"
name = "auth feature"
parallel = 2
queue = "slow"
timeout = "10m"
policy = "api"
snapshot = "./src//"
review = true

[recovery]
strategy = "ROLLBACK_AND_RETRY"
rounds = 3
on_escalate = "rollback"

[[subtasks]]
id = "design"
command = ["llm", "--prompt", "design it. {hint}"]
cwd = "sub/dir"
stdin = "please"
hint = "stdin"
env = { A = "b", EMPTY = "" }

[[subtasks]]
command = ["llm", ""]
dependencies = "design"
timeout = "1.5s"
policy = "standard"
overrides = { max_retries = 1, backoff = { type = "fixed", initial_delay = "1s" } }
snapshot = { roots = ["src", "src/auth", "docs"], ignore = "*.tmp", max_size = "20MiB", max_files = 500 }
review = { criteria = ["Q2"], files = ["docs/a.md"] }
recovery = "PARTIAL_COMMIT"

[[subtasks]]
id = "call"
http = { method = "POST", url = "https://example.com/x", headers = { X-A = "1" }, body = "{}" }
depends_on = ["design", "sub-2"]
blames = ["design"]

[[subtasks]]
id = "resize"
handler = "resize"
payload = { width = 3, of = [1.5, true], at = 2026-01-01 }

[[subtasks]]
command = "make test"
depends_on = "sub-2"
snapshot = false
review = false
"#;

/// R-T1, R-P8: every key of a plan is read, and what a subtask does not say comes from the plan.
#[test]
fn every_key_is_read() {
    let plan = parse(WHOLE);
    let recovery = Recovery {
        strategy: Some(RecoveryStrategy::RollbackAndRetry),
        rounds: 3,
        on_escalate: OnEscalate::Rollback,
    };
    assert_eq!((plan.parallel, plan.queue.as_deref()), (2, Some("slow")));
    assert_eq!((plan.name.as_str(), &plan.recovery), ("auth feature", &recovery));
    let of_the_plan =
        |subtask: Subtask| Subtask { timeout_ms: Some(600_000), policy: Some("api".to_owned()), ..subtask };
    let mut design = of_the_plan(command(&["llm", "--prompt", "design it. {hint}"]));
    design.id = Some("design".to_owned());
    design.snapshot = Some(SnapshotPlan { roots: vec!["src".to_owned()], ..SnapshotPlan::default() });
    design.review = Some(ReviewPlan::default());
    if let Work::Command(work) = &mut design.work {
        work.cwd = Some("sub/dir".to_owned());
        work.stdin = Some("please".to_owned());
        work.hint = HintBy::Stdin;
        work.env = [("A", "b"), ("EMPTY", "")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    }
    assert_eq!(plan.subtasks[0], design);
    let written = Subtask {
        depends_on: vec![0],
        timeout_ms: Some(1_500),
        policy: Some("standard".to_owned()),
        overrides: Some(json!({"max_retries": 1, "backoff": {"type": "fixed", "initial_delay": "1s"}})),
        snapshot: Some(SnapshotPlan {
            roots: vec!["src".to_owned(), "docs".to_owned()],
            ignore: vec!["*.tmp".to_owned()],
            max_bytes: Some(20 << 20),
            max_entries: Some(500),
        }),
        review: Some(ReviewPlan {
            criteria: vec![redrive_policy::review::Criterion::Q2],
            files: vec!["docs/a.md".to_owned()],
            ..ReviewPlan::default()
        }),
        recovery: Some(RecoveryStrategy::PartialCommit),
        ..command(&["llm", ""])
    };
    assert_eq!(plan.subtasks[1], written);
    let call =
        json!({"method": "POST", "url": "https://example.com/x", "headers": [["X-A", "1"]], "body": "{}"});
    assert_eq!(plan.subtasks[2].work, Work::Http(call));
    assert_eq!((&plan.subtasks[2].depends_on, &plan.subtasks[2].blames), (&vec![0, 1], &vec![0]));
    assert_eq!((&plan.subtasks[2].snapshot, &plan.subtasks[2].review), (&None, &None));
    let payload = json!({"width": 3, "of": [1.5, true], "at": "2026-01-01"});
    assert_eq!(plan.subtasks[3].work, Work::Handler { kind: "resize".to_owned(), payload });
    let test = of_the_plan(command(&["/bin/sh", "-c", "make test"]));
    assert_eq!(plan.subtasks[4], Subtask { depends_on: vec![1], ..test });
}

/// R-T1: a plan is stored as JSON and comes back as it was; the same plan written as JSON is the same plan.
#[test]
fn a_plan_survives_json() {
    let plan = parse(WHOLE);
    let json = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), plan);
    let mut file: Value = serde_json::to_value(toml::from_str::<toml::Table>(WHOLE).unwrap()).unwrap();
    file["subtasks"][3]["payload"]["at"] = json!("2026-01-01");
    let (again, _) = Plan::parse(&file.to_string(), Format::Json, "x.json").unwrap();
    assert_eq!(again, plan);
}

/// A plan as JSON text of that many subtasks; each says for itself what else it has.
fn long_plan(len: usize, rest: impl Fn(usize) -> String) -> String {
    let subtasks: Vec<String> =
        (0..len).map(|i| format!(r#"{{"id":"s{i}","command":["true"]{}}}"#, rest(i))).collect();
    format!(r#"{{"subtasks":[{}]}}"#, subtasks.join(","))
}

/// R-T1: a chain of a hundred thousand is a plan like any other, its blames from one end to the other included.
#[test]
fn a_very_deep_chain_is_no_trouble() {
    let chain = |i: usize| match i {
        0 => String::new(),
        99_999 => r#","depends_on":["s99998"],"blames":"s0""#.to_owned(),
        _ => format!(r#","depends_on":"s{}""#, i - 1),
    };
    let (plan, _) = Plan::parse(&long_plan(100_000, chain), Format::Json, "p").unwrap();
    let graph = Graph::of(&plan).unwrap();
    assert_eq!(graph.level(99_999), 99_999);
    assert_eq!(graph.upstream([99_999]).len(), 99_999);
    let round = |i: usize| if i == 0 { r#","depends_on":"s99999""#.to_owned() } else { chain(i) };
    let error = Plan::parse(&long_plan(100_000, round), Format::Json, "p").unwrap_err();
    assert_eq!(error.problems.len(), 1);
    assert!(error.to_string().contains("s0 → s99999 → s99998"), "{error}");
    assert!(error.to_string().contains("(99969 more)"), "{error}");
}

/// R-T1: ten thousand subtasks with fifty thousand dependencies, all blaming and sharing one folder, are read, and so is
/// the same with a mistake in every line. What this takes is for the benchmarks to say.
#[test]
fn a_large_plan_is_read() {
    let wide = |i: usize| {
        let needs = (1..=5).filter_map(|k| i.checked_sub(k * 37 + i % 11)).map(|j| format!("\"s{j}\""));
        let needs: Vec<String> = needs.collect();
        match needs.first() {
            Some(first) => {
                let all = needs.join(",");
                format!(r#","depends_on":[{all}],"blames":{first},"snapshot":["src","gen/{i}"]"#)
            }
            None => r#","snapshot":"src""#.to_owned(),
        }
    };
    let source = long_plan(10_000, wide);
    let (plan, warnings) = Plan::parse(&source, Format::Json, "p").unwrap();
    assert!(plan.subtasks.iter().map(|subtask| subtask.depends_on.len()).sum::<usize>() > 49_000);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    // Misspelt, every one of them.
    let source = source.replace("\"depends_on\":[\"s", "\"depends_on\":[\"x");
    let error = Plan::parse(&source, Format::Json, "p").unwrap_err();
    assert_eq!(error.problems.len(), 200, "of so many a person is told two hundred");
}

/// R-T2: what failed takes what it blames with it, and the most cautious word on its recovery is obeyed; what was blamed
/// has no word in it.
#[test]
fn blames_and_fixed_strategies_are_found() {
    let plan = parse(
        "recovery.strategy = 'ESCALATE'\n\
         [[subtasks]]\nid = 'a'\ncommand = 'x'\nrecovery = 'PARTIAL_COMMIT'\n\
         [[subtasks]]\nid = 'b'\ncommand = 'x'\ndepends_on = 'a'\nblames = 'a'\nrecovery = 'RETRY_FAILED_ONLY'\n\
         [[subtasks]]\nid = 'c'\ncommand = 'x'\ndepends_on = 'b'\nblames = ['b', 'a']\nrecovery = 'ROLLBACK_AND_RETRY'\n\
         [[subtasks]]\nid = 'd'\ncommand = 'x'\n",
    );
    assert_eq!(with_blamed(&plan, &[2, 3]), [0, 1, 2, 3]);
    assert_eq!(with_blamed(&plan, &[1]), [0, 1]);
    assert!(with_blamed(&plan, &[]).is_empty());
    assert_eq!(fixed_for(&plan, &[1]), Some(RecoveryStrategy::RetryFailedOnly));
    assert_eq!(fixed_for(&plan, &[1, 2]), Some(RecoveryStrategy::RollbackAndRetry));
    assert_eq!(fixed_for(&plan, &[0, 1, 2, 3]), Some(RecoveryStrategy::PartialCommit));
    assert_eq!(fixed_for(&plan, &[3]), Some(RecoveryStrategy::Escalate));
}

const GUIDE: &str = include_str!("../../../docs/tasks.md");

/// R-T1: the plans of the guide are plans, and the guide speaks of every key that a plan can have.
#[test]
fn the_guide_says_what_is_so() {
    let plans: Vec<Plan> = GUIDE
        .split("```toml plan\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .map(parse)
        .collect();
    assert_eq!(plans.len(), 2);
    assert_eq!(plans[0].subtasks[2].blames, [1]);
    assert_eq!(plans[1].recovery, Recovery::default());
    let schema = Plan::schema();
    let tables = ["subtask", "snapshot", "http", "review", "plan_recovery", "bytes"]
        .map(|name| &schema["$defs"][name]);
    for table in tables.into_iter().chain([&schema]) {
        for key in table["properties"].as_object().unwrap().keys() {
            let told = GUIDE.contains(&format!("`{key}`")) || GUIDE.contains(&format!("`{{ {key} = "));
            assert!(told, "docs/tasks.md does not speak of {key}");
        }
    }
    let wrong = plan_of_the_guide().replace("depends_on = [\"design\"]", "depends_on = [\"desing\"]");
    let told = Plan::parse(&wrong, Format::Toml, "plan.toml").unwrap_err().to_string();
    assert!(GUIDE.contains(&told), "{told}");
    for strategy in RecoveryStrategy::NAMES {
        assert!(GUIDE.contains(&format!("| `{strategy}` |")), "docs/tasks.md does not speak of {strategy}");
    }
}

fn plan_of_the_guide() -> &'static str {
    GUIDE.split("```toml plan\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap_or_default()
}
