//! Plans that are wrong (R-T1): each is answered with the place, what is wrong, and what is allowed.

use redrive_policy::plan::Plan;
use redrive_policy::{ConfigError, Format, Lang};

fn refused(source: &str, format: Format) -> ConfigError {
    match Plan::parse(source, format, "plan.toml") {
        Err(error) => error,
        Ok((plan, _)) => panic!("accepted: {source}\n{plan:?}"),
    }
}

/// The one line that this TOML is answered with.
fn check(source: &str, expected: &str) {
    assert_eq!(refused(source, Format::Toml).to_string(), format!("plan.toml:{expected}"), "{source}");
}

/// A plan whose subtasks are these tables.
fn plan(subtasks: &[&str]) -> String {
    let each = subtasks.iter().map(|subtask| format!("[[subtasks]]\ncommand = 'true'\n{subtask}\n"));
    each.collect::<Vec<_>>().concat()
}

/// R-T1: ids are unique and have a form.
#[test]
fn bad_ids_are_refused() {
    check(
        &plan(&["id = 'a'", "", "id = 'a'"]),
        "9:1: subtasks[2].id: a is the id of subtasks[0].id already; allowed: each only once",
    );
    check(
        &plan(&["id = 'sub-2'", ""]),
        "4:1: subtasks[1]: sub-2 is the id of subtasks[0].id already; allowed: each only once",
    );
    check(
        &plan(&["id = 'a b'"]),
        "3:1: subtasks[0].id: \"a b\" cannot be a name; \
         allowed: 1 to 64 letters (A–Z, a–z), digits, dots, dashes and underscores",
    );
    check(
        &plan(&["id = 'task-7-sub-1'"]),
        "3:1: subtasks[0].id: task-7-sub-1 is a reserved word; allowed: any other name than task-<n>-sub-<n>",
    );
}

/// R-T1: dependencies exist, and the nearest one is told.
#[test]
fn unknown_dependencies_are_refused() {
    check(
        &plan(&["id = 'build'", "id = 'test'", "id = 'ship'\ndepends_on = ['test', 'bild']"]),
        "10:23: subtasks[2].depends_on[1]: \"bild\" is no subtask (did you mean build?); allowed: build or test",
    );
    check(
        &plan(&["", "blames = 'sub-3'"]),
        "6:1: subtasks[1].blames: \"sub-3\" is no subtask (did you mean sub-1?); allowed: sub-1",
    );
    let many: Vec<String> = (0..20).map(|i| format!("id = 'n{i}'")).collect();
    let mut many: Vec<&str> = many.iter().map(String::as_str).collect();
    many.push("dependencies = 'nowhere'");
    check(
        &plan(&many),
        "63:1: subtasks[20].dependencies: \"nowhere\" is no subtask; allowed: the id of another subtask",
    );
}

/// R-T1: circles are written out, one for each knot, each at a place of its own.
#[test]
fn circles_are_refused() {
    let circle = plan(&[
        "id = 'd'\ndepends_on = ['a']",
        "id = 'a'\ndepends_on = ['b']",
        "id = 'b'\ndepends_on = ['c']",
        "id = 'c'\ndepends_on = ['a']",
        "id = 'x'\ndepends_on = ['y']",
        "id = 'y'\ndepends_on = ['x', 'c']",
    ]);
    let error = refused(&circle, Format::Toml).to_string();
    let lines: Vec<&str> = error.lines().collect();
    let end = "allowed: dependencies that do not lead back";
    assert_eq!(
        lines,
        [
            format!(
                "plan.toml:8:15: subtasks[1].depends_on[0]: subtasks depend on one another in a circle: a → b → c → a; {end}"
            ),
            format!(
                "plan.toml:20:15: subtasks[4].depends_on[0]: subtasks depend on one another in a circle: x → y → x; {end}"
            ),
        ]
    );
    check(
        &plan(&["id = 'me'\ndepends_on = 'me'"]),
        &format!("4:1: subtasks[0].depends_on: me depends on itself; {end}"),
    );
}

/// R-T2: only what something depends on can be to blame for its failure, from afar as well.
#[test]
fn strangers_are_not_to_blame() {
    let chain =
        ["id = 'a'", "id = 'b'\ndepends_on = 'a'", "id = 'c'\ndepends_on = 'b'\nblames = 'a'", "id = 'd'"];
    assert!(Plan::parse(&plan(&chain), Format::Toml, "p").is_ok());
    let wrong = [
        "id = 'a'\nblames = 'a'",
        "id = 'b'\ndepends_on = 'a'",
        "id = 'c'\ndepends_on = 'a'\nblames = ['a', 'b']",
    ];
    let error = refused(&plan(&wrong), Format::Toml).to_string();
    let end = "allowed: a subtask that it depends on, directly or from afar";
    assert_eq!(
        error.lines().collect::<Vec<_>>(),
        [
            format!(
                "plan.toml:4:1: subtasks[0].blames: a does not depend on a, so a cannot be to blame; {end}"
            ),
            format!(
                "plan.toml:13:16: subtasks[2].blames[1]: c does not depend on b, so b cannot be to blame; {end}"
            ),
        ]
    );
}

/// R-T1: a subtask does one thing, and says only what belongs to it.
#[test]
fn a_subtask_does_exactly_one_thing() {
    let one = "allowed: only one of command, http or handler";
    check(
        "[[subtasks]]\nid = 'a'\n",
        &format!("1:1: subtasks[0]: command, http or handler is missing; {one}"),
    );
    check(
        &plan(&["handler = 'x'"]),
        &format!("3:1: subtasks[0]: command and handler do not go together; {one}"),
    );
    check(
        "[[subtasks]]\nhandler = 'x'\nstdin = 'y'",
        "3:1: subtasks[0].stdin: stdin and handler do not go together; allowed: to leave it out",
    );
    check(
        "[[subtasks]]\nhttp = { url = 'https://a/' }\nsnapshot = 'src'",
        "3:1: subtasks[0].snapshot: snapshot and http do not go together; allowed: to leave it out",
    );
    check(
        &plan(&["payload = 1"]),
        "3:1: subtasks[0].payload: payload and command do not go together; allowed: to leave it out",
    );
    check(
        "name = 'x'",
        "1:1: (top): subtasks or subtask is missing; allowed: at least one of subtasks or subtask",
    );
    for empty in ["", "subtasks = []"] {
        assert_eq!(refused(empty, Format::Toml).problems.len(), 1, "{empty}");
    }
}

/// Reliability row 50: no snapshot is kept of anything above or outside of the plan.
#[test]
fn roots_that_lead_out_are_refused() {
    for root in ["/etc", "../x", "src/../../x", "src/..", "..", "/"] {
        let line = format!(
            "\"{root}\" leads out of the folder of the plan; \
             allowed: a path below the folder of the plan, without .. and without / at its beginning"
        );
        check(&plan(&[&format!("snapshot = '{root}'")]), &format!("3:1: subtasks[0].snapshot: {line}"));
        check(
            &plan(&[&format!("snapshot = {{ roots = ['src', '{root}'] }}")]),
            &format!("3:30: subtasks[0].snapshot.roots[1]: {line}"),
        );
        let at_the_top = format!("snapshot = ['{root}']\n{}", plan(&[""]));
        check(&at_the_top, &format!("1:13: snapshot[0]: {line}"));
    }
    for fine in ["..a", "a..", "a/..b/c", "...", "."] {
        assert!(Plan::parse(&plan(&[&format!("snapshot = '{fine}'")]), Format::Toml, "p").is_ok(), "{fine}");
    }
    let error = refused(&plan(&["snapshot = true"]), Format::Toml).to_string();
    assert!(error.contains("subtasks[0].snapshot: true is not known; allowed: false; or a path"), "{error}");
}

/// R-T1: what no program can be given is refused before anything is stored.
#[test]
fn what_no_program_can_be_given_is_refused() {
    let check = |subtask: &str, expected: &str| {
        let source = format!("{{\"subtasks\": [{subtask}]}}");
        let error = refused(&source, Format::Json).to_string();
        assert!(error.contains(expected) && error.lines().count() == 1, "{source}: {error}");
    };
    check(
        r#"{"command": ["a", "b\u0000c"]}"#,
        "1:33: subtasks[0].command[1]: there is a NUL character in it",
    );
    check(r#"{"command": "a\u0000"}"#, "subtasks[0].command: there is a NUL");
    check(r#"{"command": []}"#, "subtasks[0].command: nothing is given");
    check(r#"{"command": [""]}"#, "subtasks[0].command[0]: nothing is given");
    check(
        r#"{"command": ["a"], "env": {"A=B": "c"}}"#,
        "subtasks[0].env.\"A=B\": \"[redacted]\" cannot be a name",
    );
    check(r#"{"command": ["a"], "env": {"A": "\u0000"}}"#, "subtasks[0].env.A: there is a NUL");
    check(r#"{"command": ["a"], "cwd": ""}"#, "subtasks[0].cwd: nothing is given");
    check(r#"{"command": ["a"], "timeout": "0"}"#, "subtasks[0].timeout: \"0\" is too small");
    check(
        r#"{"command": ["a"], "snapshot": {"roots": "a", "max_size": "9 apples"}}"#,
        "\"9 apples\" is not a size",
    );
    check(r#"{"http": {"url": "ftp://a"}}"#, "subtasks[0].http.url: \"[redacted]\" is not recognised");
    check(
        r#"{"http": {"url": "http://a", "headers": [["a", "b", "c"]]}}"#,
        "subtasks[0].http.headers[0]: 3 are too many",
    );
    check(r#"{"handler": "x", "payload": {"a": 1, "a": 2}}"#, "subtasks[0].payload.a: a is given twice");
}

/// R-T6: what an attempt is told quotes somebody's output, and never becomes a part of a script.
#[test]
fn a_hint_is_no_part_of_a_script() {
    check(
        "[[subtasks]]\ncommand = 'llm write it. {hint}'",
        "2:1: subtasks[0].command: the shell would read what {hint} stands for as a part of its script, and run it; \
         allowed: \"$REDRIVE_HINT\" in a script; {hint} in a list of arguments, or in stdin",
    );
    for script in ["['bash', '-lc', 'echo {hint}']", "['/usr/bin/zsh', '-e', '-c', '{hint}', 'x']"] {
        let error = refused(&format!("[[subtasks]]\ncommand = {script}"), Format::Toml).to_string();
        assert!(error.contains("run it") && error.lines().count() == 1, "{error}");
    }
    for fine in [
        "['llm', '-c', '{hint}']",
        "['sh', '-c', 'echo \"$1\"', 'x', '{hint}']",
        "'echo \"$REDRIVE_HINT\"'",
        "['sh', 'script.sh', '{hint}']",
    ] {
        let source = format!("[[subtasks]]\ncommand = {fine}\nstdin = '{{hint}}'");
        assert!(Plan::parse(&source, Format::Toml, "p").is_ok(), "{fine}");
    }
}

/// R-P8: overrides are checked by the code that reads those of any task, and blamed where they stand.
#[test]
fn bad_overrides_are_refused_where_they_stand() {
    check(
        &plan(&["", "overrides = { backoff = { type = 'list' } }"]),
        "6:27: subtasks[1].overrides.backoff.type: \"list\" is not known; \
         allowed: exponential, linear, constant, fixed or fibonacci",
    );
    let error = refused(&plan(&["overrides = { max_retrys = 1 }"]), Format::Toml).to_string();
    assert!(
        error.contains("subtasks[0].overrides.max_retrys: unknown field (did you mean max_retries?)"),
        "{error}"
    );
    let odd = plan(&["overrides = { cause_specific = [{ cause = 'timeout' }, { cause = 'timeout' }] }"]);
    let (_, warnings) = Plan::parse(&odd, Format::Toml, "p").unwrap();
    assert_eq!(warnings[0].path, "subtasks[0].overrides.cause_specific[1]");
}

/// R-T1: numbers have bounds, names their lists; everything wrong is told at once, in the order of the file.
#[test]
fn everything_wrong_is_told_at_once() {
    let source = format!(
        "paralell = 3\nparallel = 2000\n[recovery]\nstrategy = 'ROLLBACK'\nrounds = 101\non_escalate = 'drop'\n{}",
        plan(&[
            "id = 'a'\nhint = 'args'\nrecovery = 'auto'",
            "id = 'a'\ndepends_on = ['b', 7]\nreview = 'yes'"
        ])
    );
    let error = refused(&source, Format::Toml);
    let places: Vec<(String, u32)> =
        error.problems.iter().map(|problem| (problem.path.clone(), problem.place.unwrap().line)).collect();
    let expected = [
        ("paralell", 1),
        ("parallel", 2),
        ("recovery.strategy", 4),
        ("recovery.rounds", 5),
        ("recovery.on_escalate", 6),
        ("subtasks[0].hint", 10),
        ("subtasks[0].recovery", 11),
        ("subtasks[1].id", 14),
        ("subtasks[1].depends_on[0]", 15),
        ("subtasks[1].depends_on[1]", 15),
        ("subtasks[1].review", 16),
    ];
    assert_eq!(places, expected.map(|(path, line)| (path.to_owned(), line)), "{error}");
    let japanese = error.describe(Lang::Ja);
    assert!(japanese.contains("subtasks[1].depends_on[0]: \"b\" というサブタスクはありません"), "{japanese}");
}

/// R-T1: more subtasks than a plan may have are refused without being looked at.
#[test]
fn too_many_subtasks_are_refused() {
    let source = format!("{{\"subtasks\": [{}]}}", vec![r#"{"command":"a"}"#; 100_001].join(","));
    let error = refused(&source, Format::Json).to_string();
    assert_eq!(error, "plan.toml:1:14: subtasks: 100001 are too many; allowed: at most 100000");
}

/// R-T3: subtasks that would put back each other's files while the other runs are told of, once.
#[test]
fn shared_files_are_told_of_once() {
    let warned = |subtasks: &[&str]| -> Vec<String> {
        let (_, warnings) = Plan::parse(&plan(subtasks), Format::Toml, "p").unwrap();
        warnings.iter().map(ToString::to_string).collect()
    };
    assert_eq!(
        warned(&["snapshot = 'src'", "snapshot = ['docs', 'src/a']", "snapshot = 'src/a/b'"]),
        [
            "subtasks[1].snapshot: sub-1 and sub-2 could run at the same time and both put back \"src/a\"; they run one \
          after the other; allowed: a dependency between the two, or folders that do not overlap"
        ]
    );
    let none: [String; 0] = [];
    assert_eq!(warned(&["snapshot = 'src'", "snapshot = 'src2'", "snapshot = 'a/src'"]), none);
    assert_eq!(
        warned(&[
            "snapshot = 'src'",
            "snapshot = 'src/b'\ndepends_on = 'sub-3'",
            "depends_on = 'sub-1'",
            "snapshot = '.'\ndepends_on = 'sub-2'"
        ]),
        none
    );
    // Both are inside the third's folder and not in each other's; only the third comes last.
    assert_eq!(
        warned(&[
            "snapshot = 'src/a'",
            "snapshot = 'src/b'",
            "snapshot = 'src'\ndepends_on = ['sub-1', 'sub-2']"
        ]),
        none
    );
    assert_eq!(
        warned(&["snapshot = 'src/a'", "snapshot = 'src/b'", "snapshot = 'src'\ndepends_on = ['sub-1']"])
            .len(),
        1
    );
    let (_, warnings) =
        Plan::parse(&plan(&["", "depends_on = ['sub-1', 'sub-1']"]), Format::Toml, "p").unwrap();
    assert_eq!(
        warnings[0].to_string(),
        "subtasks[1].depends_on[1]: sub-1 is given twice; allowed: each only once"
    );
}
