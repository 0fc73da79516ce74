//! What people see: stdout, stderr and exit code of each command, rich, plain and as JSON, in both languages.
//!
//! Delays are drawn from a seed, the clock stands still, and the width is 80.

#![allow(clippy::unwrap_used, clippy::format_push_string, clippy::format_collect)]

mod support;

use support::{line, redrive};

/// The forms that every view has.
const FORMS: [(&str, &str); 5] = [
    ("rich_en", "--color always"),
    ("rich_ja", "--color always --lang ja"),
    ("plain_en", "--plain"),
    ("plain_ja", "--plain --lang ja"),
    ("json", "--json"),
];

/// One snapshot with all forms of a command.
fn check(name: &str, command: &str) {
    let mut page = String::new();
    for (form, flags) in FORMS {
        let ran = line(&format!("{command} {flags}")).run();
        page.push_str(&format!("===== {form}: redrive {command} {flags}\n{ran}\n"));
    }
    insta::assert_snapshot!(name, page);
}

/// R-C2
#[test]
fn policy_list_in_every_form() {
    check("policy_list", "policy list");
}

/// R-C2, R-P9
#[test]
fn policy_show_in_every_form() {
    check("policy_show", "policy show collector");
}

/// R-C2: narrow terminals get stacked rows, and whole words.
#[test]
fn narrow_terminals_get_stacked_rows() {
    let mut page = String::new();
    for command in ["policy list", "policy explain --cause network --jitter none", "policy show collector"] {
        for lang in ["en", "ja"] {
            let command = format!("{command} --color always --lang {lang}");
            let ran = line(&command).env("REDRIVE_WIDTH", "44").run();
            page.push_str(&format!("===== 44 columns: redrive {command}\n{ran}\n"));
        }
    }
    insta::assert_snapshot!("narrow", page);
}

/// R-C2: nobody scrolls sideways to read a policy.
#[test]
fn a_plain_policy_is_not_wide() {
    for name in redrive_policy::PRESETS {
        let ran = line(&format!("policy show {name} --plain")).run();
        let widest = ran.stdout.lines().map(str::len).max();
        assert!(ran.code == 0 && widest <= Some(100), "{ran}");
    }
}

/// R-C2, R-P10
#[test]
fn policy_explain_in_every_form() {
    check("policy_explain_retry", "policy explain --cause rate_limit --retry-count 2 --seed 1");
    check("policy_explain_escalate", "policy explain --cause auth_error --http-status 401");
    check("policy_explain_exhausted", "policy explain --cause timeout --retry-count 2");
    check("policy_explain_retry_after", "policy explain --cause rate_limit --retry-after 30");
    check("policy_explain_crashed", "policy explain --cause crashed --retry-count 1 --jitter none");
}

/// R-C2, R-P5: the curve is drawn.
#[test]
fn policy_delays_draws_its_curve() {
    check("policy_delays", "policy delays --backoff exponential");
    check("policy_delays_jitter", "policy delays --policy api --cause rate_limit --seed 2 --count 8");
    check(
        "policy_delays_above_cap",
        "policy delays --backoff linear --initial-delay 2m --max-delay 1m --count 3",
    );
}

/// R-C2
#[test]
fn config_show_in_every_form() {
    check("config_show", "config show --origin");
}

/// R-C2: plain is ASCII, as long as the words are.
#[test]
fn plain_english_is_ascii() {
    for command in [
        "policy list",
        "policy show collector",
        "policy explain --cause rate_limit",
        "policy explain --cause network --max-retries 99",
        "policy delays --policy api --jitter 0.2",
        "config show --origin",
        "classify --http-status 503 -v",
    ] {
        let ran = line(&format!("{command} --plain")).run();
        assert!(ran.code == 0 && ran.stdout.is_ascii(), "{ran}");
    }
}

/// R-C2: Japanese is Japanese, down to the headings and the errors.
#[test]
fn help_in_both_languages() {
    for lang in ["en", "ja"] {
        let pages = [
            "",
            "classify -h",
            "policy",
            "policy explain --help",
            "help policy delays",
            "config",
            "help demo",
            "run -h",
            "help",
            "enqueue -h",
            "work -h",
            "help dlq",
            "dlq show -h",
            "events -h",
            "redrive -h",
            "store",
        ];
        let page: String = pages
            .iter()
            .map(|command| {
                format!("===== redrive {command}\n{}\n", line(&format!("--lang {lang} {command}")).run())
            })
            .collect();
        insta::assert_snapshot!(format!("help_{lang}"), page);
    }
}

/// R-C2: errors and hints in both languages.
#[test]
fn usage_errors_in_both_languages() {
    let commands = [
        "polcy",
        "policy list --josn",
        "policy show",
        "policy show standrad",
        "policy explain",
        "policy explain --cause netwrok",
        "policy delays --multiplier NaN",
        "policy delays --jitter 2",
        "policy delays --initial-delay 5",
        "policy delays --count",
        "--lang fr policy list",
        "classify --jsonl --http-status 500",
        "config check",
        "run ls",
        "enqueue --http GET",
        "explain seventeen",
        "events --since soon",
    ];
    for lang in ["en", "ja"] {
        let page: String = commands
            .iter()
            .map(|command| {
                format!("===== redrive {command}\n{}\n", line(command).env("REDRIVE_LANG", lang).run())
            })
            .collect();
        insta::assert_snapshot!(format!("errors_{lang}"), page);
    }
}

/// A directory with a `redrive.toml` of that text.
fn directory(config: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("redrive.toml"), config).unwrap();
    directory
}

/// R-P3, R-C2: a user's rule comes first and is named; what came from outside is escaped in every form.
#[test]
fn classify_with_a_rule_of_ones_own() {
    let directory = directory(
        "[[rules]]\nid = 'window'\ncause = 'api_error'\nretry = true\nreason = 'the batch window is closed'\n\
         regex = '(?i)window closed'\n",
    );
    let mut page = String::new();
    for (form, flags) in FORMS {
        let words = ["classify", "-v", "--seed", "1", "Window closed \u{1b}[31muntil 06:00"];
        let ran = redrive(words.into_iter().chain(flags.split(' '))).in_directory(directory.path()).run();
        page.push_str(&format!("===== {form}\n{ran}\n"));
    }
    insta::assert_snapshot!("classify_own_rule", page);
}

/// Issue 8, operations: what a file holds is counted, and a service that no server could call is found before one is started.
#[test]
fn config_check_counts_what_it_checked() {
    let folder = tempfile::tempdir().unwrap();
    let push = "[[push]]\nname = \"crm\"\nqueue = \"q\"\nurl = \"http://localhost/\"\nsecret_env = [\"S\"]\n";
    let file = format!(
        "[policies.slow]\nmax_retries = 9\n\n[targets.\"queue:mail\"]\nconcurrency = 2\n\n\
         [[alerts.receivers]]\nname = \"desk\"\ncommand = \"cat\"\n\n{push}"
    );
    let check = |text: &str, flags: &str| {
        std::fs::write(folder.path().join("redrive.toml"), text).unwrap();
        let secret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
        line(&format!("config check {flags}")).env("S", secret).in_directory(folder.path()).run()
    };
    let passed = check(&file, "--plain");
    let counted = "is fine (policies: 1, targets: 1, receivers of alerts: 1, push endpoints: 1)\n";
    assert!(passed.code == 0 && passed.stdout.ends_with(counted), "{passed}");
    let passed = check(&file, "--plain --lang ja");
    let counted = "（ポリシー 1 件、呼び出し先 1 件、アラートの通知先 1 件、プッシュ先 1 件）\n";
    assert!(passed.stdout.ends_with(counted), "{passed}");
    let json: serde_json::Value = serde_json::from_str(&check(&file, "--json").stdout).unwrap();
    assert_eq!((&json["targets"][0], &json["push"][0]), (&"queue:mail".into(), &"crm".into()), "{json}");
    assert!(check("# nothing\n", "--plain").stdout.ends_with("redrive.toml is fine\n"));
    let bad = check(&format!("{push}batch = 10\n"), "--plain");
    assert!(bad.code == 1 && bad.stdout.contains("push[0].kinds"), "{bad}");
}

/// R-P7: everything that is wrong in a file is shown, and the exit code says so.
#[test]
fn config_check_shows_everything_that_is_wrong() {
    let directory = directory(
        "[policies.mine]\nextends = 'standrad'\nmax_retries = -1\n[policies.mine.backoff]\nmultiplier = 0.5\n",
    );
    let mut page = String::new();
    for (form, flags) in FORMS {
        for command in ["config check", "policy list"] {
            let command = format!("--config redrive.toml {command} {flags}");
            let ran = line(&command).in_directory(directory.path()).run();
            page.push_str(&format!("===== {form}: redrive {command}\n{ran}\n"));
        }
    }
    insta::assert_snapshot!("config_check_broken", page);
}

/// R-P7, R-C1: the file's language, policy and store hold, and flags and variables beat them.
#[test]
fn a_file_is_found_upward_and_beaten_by_variables_and_flags() {
    let directory = directory(
        "lang = 'ja'\npolicy = 'patient'\nstore = 'sqlite:here.db'\n[policies.patient]\nextends = 'standard'\nmax_retries = 9\n",
    );
    let deep = directory.path().join("a").join("b");
    std::fs::create_dir_all(&deep).unwrap();
    let show = |flags: &str| line(&format!("config show --json {flags}")).in_directory(&deep);
    let mut page = String::new();
    for ran in [
        show("").run(),
        show("--store sqlite:flag.db --lang en").env("REDRIVE_STORE", "sqlite:env.db").run(),
        show("").env("REDRIVE_STORE", "sqlite:env.db").env("REDRIVE_LANG", "en").run(),
    ] {
        page.push_str(&ran.to_string().replace(directory.path().to_str().unwrap(), "[DIR]"));
        page.push('\n');
    }
    insta::assert_snapshot!("config_layers", page);
}

/// R-I1, R-I6: what is guarded, and what the proxy is told, is shown where a file says it; a mistake is told with its place.
#[test]
fn guarded_requests_are_shown_and_checked() {
    let good = "[idempotency]\nkey = 'any'\n[[idempotency.route]]\nmethods = ['POST']\npath = '/v1/bookmarks'\nrequired = true\n\
                [[idempotency.route]]\npath = '/v1/**'\n[proxy]\nupstream = 'http://127.0.0.1:3000'\nclient_timeout = '10s'\n";
    let bad = "[idempotency]\nin_flight = 'waits'\nheaders = ['etag', 'Set-Cookie']\nmax_response = '1GiB'\n\
               [idempotency.outcomes]\n'6xx' = 'release'\n[[idempotency.route]]\npath = 'v1'\n[proxy]\npolicy = 'stadnard'\n";
    let mut page = String::new();
    for (text, command) in [
        (good, "config show --json"),
        (good, "config check"),
        (good, "config check --lang ja"),
        (good, "config check --json"),
        (bad, "config check --plain"),
        (bad, "config check --plain --lang ja"),
    ] {
        let directory = directory(text);
        let ran = line(command).in_directory(directory.path()).run();
        page.push_str(
            &format!("===== redrive {command}\n{ran}\n").replace(directory.path().to_str().unwrap(), "[DIR]"),
        );
    }
    insta::assert_snapshot!("config_idempotency", page);
}

/// The figures of a corpus, with every miss.
#[test]
fn accuracy_in_every_form() {
    let directory = tempfile::tempdir().unwrap();
    let entries = concat!(
        "{\"id\":\"e3\",\"text\":\"?\",\"cause\":\"unknown\",\"retry\":false,\"tricky\":true}\n",
        "{\"id\":\"e2\",\"text\":\"\\u001b[31m??\\nand more\",\"cause\":\"network\",\"retry\":true}\n",
        "not a label\n",
    );
    std::fs::write(directory.path().join("corpus.jsonl"), entries).unwrap();
    let mut page = String::new();
    for (form, flags) in FORMS {
        let command = format!("classify --corpus corpus.jsonl -v {flags}");
        let ran = line(&command).in_directory(directory.path()).run();
        page.push_str(&format!("===== {form}: redrive {command}\n{ran}\n"));
    }
    insta::assert_snapshot!("accuracy", page);
}
