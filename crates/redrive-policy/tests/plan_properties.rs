//! What holds for every plan: nothing panics, the schema and the checker agree, both formats say the same (R-T1).

mod schema_checker;

use proptest::prelude::*;
use redrive_policy::graph::Graph;
use redrive_policy::plan::{Plan, conflicts};
use redrive_policy::{Format, Lang, ProblemKind};
use schema_checker::{accepts, make, toml_file};
use serde_json::{Value, json};

/// What only a look at the whole plan, or at the meaning of a text, can tell.
fn is_beyond_a_schema(kind: &ProblemKind) -> bool {
    matches!(
        kind,
        ProblemKind::SameId { .. }
            | ProblemKind::NoSubtask { .. }
            | ProblemKind::WaitsForItself { .. }
            | ProblemKind::Circle { .. }
            | ProblemKind::BlamesStranger { .. }
            | ProblemKind::TooSmall { .. }
            | ProblemKind::TooMany { .. }
            | ProblemKind::Empty
            | ProblemKind::HintInScript
    )
}

/// A plan of a few subtasks that mostly depend on one another.
fn small_plan() -> impl Strategy<Value = Value> {
    let names = prop::sample::subsequence(vec!["a", "b", "c", "sub-2"], 0..3);
    let subtask =
        (prop::option::of(prop::sample::select(vec!["a", "b", "c", "sub-2"])), names.clone(), names);
    prop::collection::vec(subtask, 0..5).prop_map(|subtasks| {
        let each = subtasks.into_iter().map(|(id, depends_on, blames)| {
            let mut subtask = json!({"command": ["x"], "depends_on": depends_on, "blames": blames});
            if let Some(id) = id {
                subtask["id"] = json!(id);
            }
            subtask
        });
        json!({"subtasks": each.collect::<Vec<_>>()})
    })
}

/// Roots for nine subtasks; most have none, so that a single pair can be all there is to find.
fn few_roots() -> impl Strategy<Value = Vec<Vec<&'static str>>> {
    let some = prop::sample::subsequence(vec!["a", "a/b", "a/c", "ab", "d", "."], 1..3);
    prop::collection::vec((some, 0..3), 9)
        .prop_map(|all| all.into_iter().map(|(roots, coin)| if coin == 0 { roots } else { vec![] }).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// R-T1: no text makes the parser panic, whatever is cut out of a plan or put into it.
    #[test]
    fn any_near_miss_is_answered(at in 0.0..1.0, cut in 0usize..20, put in "[\\[\\]{}=:,\"'.\n 0-9a-\u{1f600}-]{0,12}") {
        let whole = "name = 'x'\n[recovery]\nrounds = 2\n[[subtasks]]\nid = 'a'\ncommand = ['x', '{hint}']\n\
                     snapshot = { roots = 'src', max_size = '1MB' }\n[[subtasks]]\nhandler = 'h'\npayload = { a = [1] }\n\
                     depends_on = ['a']\nblames = 'a'\noverrides = { max_retries = 0 }\n";
        let json = serde_json::to_string(&toml::from_str::<toml::Table>(whole).unwrap()).unwrap();
        for (source, format) in [(whole, Format::Toml), (json.as_str(), Format::Json)] {
            let share = source.chars().count();
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
            let begin = (at * share as f64) as usize;
            let text: String =
                source.chars().take(begin).chain(put.chars()).chain(source.chars().skip(begin + cut)).collect();
            match Plan::parse(&text, format, "f") {
                Ok((plan, _)) => prop_assert!(Graph::of(&plan).is_ok()),
                Err(error) => prop_assert!(Lang::ALL.iter().all(|lang| !error.describe(*lang).is_empty())),
            }
        }
    }

    /// R-T2, R-T3: a look at every pair finds the same strangers that are blamed, and the same need for a word about files.
    #[test]
    fn strangers_and_shared_files_are_found(
        edges in prop::collection::vec((0u32..9, 0u32..9), 0..16),
        roots in few_roots(),
        blames in prop_oneof![Just(Vec::new()), prop::collection::vec((0u32..9, 0u32..9), 0..6)],
    ) {
        let of = |list: &[(u32, u32)], i: u32| -> Vec<String> {
            let own = list.iter().filter(|(from, _)| *from == i);
            let mut named: Vec<String> = own.map(|(_, to)| format!("s{to}")).collect();
            named.sort();
            named.dedup();
            named
        };
        let edges: Vec<(u32, u32)> =
            edges.into_iter().filter(|(a, b)| a != b).map(|(a, b)| (a.max(b), a.min(b))).collect();
        let graph = Graph::new(9, edges.iter().copied()).unwrap();
        let subtasks: Vec<Value> = (0..9_u32)
            .map(|i| {
                let roots = &roots[i as usize];
                let snapshot = if roots.is_empty() { json!(false) } else { json!(roots) };
                json!({"id": format!("s{i}"), "command": "x", "depends_on": of(&edges, i), "blames": of(&blames, i),
                       "snapshot": snapshot})
            })
            .collect();
        let strangers: std::collections::BTreeSet<(u32, u32)> =
            blames.iter().copied().filter(|(a, b)| !graph.upstream([*a]).contains(b)).collect();
        let file = json!({"subtasks": subtasks}).to_string();
        match Plan::parse(&file, Format::Json, "f") {
            Err(error) => prop_assert_eq!(error.problems.len(), strangers.len(), "{}", error),
            Ok((plan, warnings)) => {
                prop_assert!(strangers.is_empty());
                let roots = |i: u32| plan.subtasks[i as usize].snapshot.as_ref().map_or(&[][..], |own| &own.roots);
                let apart = |a: u32, b: u32| !graph.upstream([a]).contains(&b) && !graph.upstream([b]).contains(&a);
                let pairs = (0..9_u32).flat_map(|a| (0..a).map(move |b| (a, b)));
                let shared = pairs.filter(|(a, b)| apart(*a, *b) && conflicts(roots(*a), roots(*b)));
                let shared: Vec<[String; 2]> = shared.map(|(a, b)| [b, a].map(|i| format!("s{i}"))).collect();
                prop_assert_eq!(warnings.len(), usize::from(!shared.is_empty()), "{:?}", shared);
                if let Some(ProblemKind::SharedFiles { both, .. }) = warnings.first().map(|warning| &warning.kind) {
                    let mut both = (**both).clone();
                    both.sort();
                    prop_assert!(shared.contains(&both));
                }
            }
        }
    }

    /// R-T1: what the schema accepts is accepted, but for what no schema can say, and what is accepted the schema accepts;
    /// TOML says the same as JSON.
    #[test]
    fn schema_and_parser_agree(seed: u64, small in small_plan()) {
        let schema = Plan::schema();
        let made = make(&schema, seed);
        prop_assert_eq!(accepts(&schema, &made), Ok(()), "{:#}", made);
        for file in [made, small] {
            let from_json = Plan::parse(&file.to_string(), Format::Json, "f");
            let from_toml = toml_file(&file).map(|toml| Plan::parse(&toml, Format::Toml, "f"));
            match from_json {
                Ok((plan, _)) => {
                    prop_assert_eq!(accepts(&schema, &file), Ok(()));
                    prop_assert!(Graph::of(&plan).is_ok());
                    let stored = serde_json::to_string(&plan).unwrap();
                    prop_assert_eq!(&serde_json::from_str::<Plan>(&stored).unwrap(), &plan);
                    if let Some(twin) = from_toml {
                        prop_assert_eq!(twin.map(|(twin, _)| twin), Ok(plan));
                    }
                }
                Err(error) => {
                    let accepted = accepts(&schema, &file).is_ok();
                    let excused = error.problems.iter().all(|problem| is_beyond_a_schema(&problem.kind));
                    prop_assert!(excused || !accepted, "{error}\n{file:#}");
                    let paths = |error: &redrive_policy::ConfigError| -> Vec<String> {
                        let mut paths: Vec<String> = error.problems.iter().map(|problem| problem.path.clone()).collect();
                        paths.sort();
                        paths
                    };
                    if let Some(twin) = from_toml {
                        prop_assert_eq!(twin.map_err(|twin| paths(&twin)).map(drop), Err(paths(&error)));
                    }
                }
            }
        }
    }
}

/// R-T1: a plan that breaks a rule of its shape is refused by the schema as well.
#[test]
fn the_schema_refuses_what_the_shape_refuses() {
    let schema = Plan::schema();
    let subtask = |more: Value| {
        let mut subtask = json!({"command": "x"});
        for (key, value) in more.as_object().into_iter().flatten() {
            subtask[key] = value.clone();
        }
        json!({"subtasks": [subtask]})
    };
    assert_eq!(
        accepts(&schema, &subtask(json!({"id": "a", "snapshot": ["src", "."], "timeout": "1s"}))),
        Ok(())
    );
    for wrong in [
        json!({}),
        json!({"subtasks": []}),
        json!({"subtasks": [{"id": "a"}]}),
        subtask(json!({"handler": "x"})),
        subtask(json!({"payload": 1})),
        subtask(json!({"id": "a b"})),
        subtask(json!({"snapshot": true})),
        subtask(json!({"snapshot": "/etc"})),
        subtask(json!({"snapshot": "a/../.."})),
        subtask(json!({"stdin": "\u{0}"})),
        subtask(json!({"env": {"a=b": "c"}})),
        subtask(json!({"recovery": "auto"})),
        subtask(json!({"depends_on": "a", "dependencies": "a"})),
        subtask(json!({"snapshot": {"roots": "a", "max_size": "1 apple"}})),
    ] {
        assert!(accepts(&schema, &wrong).is_err(), "{wrong}");
        assert!(Plan::parse(&wrong.to_string(), Format::Json, "f").is_err(), "{wrong}");
    }
}
