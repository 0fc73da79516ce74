//! `schedule` and `alerts` at the terminal: the real binary, its words in both languages, and a worker that fires and tells.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod process_store;

use process_store::Home;

/// Schedules: both ways to write one, a worker that fires it, and what the list says of its last tick.
#[test]
fn a_schedule_fires_under_a_worker() {
    let home = Home::new();
    // As the issue writes it: without a name.
    let added = home.redrive("schedule add --json --tz Asia/Tokyo", &["0 6 * * *", "--exec", "true"]);
    assert_eq!(added.code, 0, "{added}");
    assert!(
        added.stdout.contains("\"name\": \"0_6_x_x_x\"") || added.stdout.contains("\"name\":\"0_6_x_x_x\""),
        "{added}"
    );
    let named = ["tick", "* * * * * *", "--exec", "sh", "-c", "echo tick >> ticks"];
    assert_eq!(home.redrive("schedule add", &named).code, 0);
    let mut worker = home.spawn("work", &[]);
    worker.wait_for("job_2");
    worker.signal("TERM");
    let ended = worker.finish();
    assert_eq!(ended.code, 0, "{ended}");
    let ticks = std::fs::read_to_string(home.folder.path().join("ticks")).unwrap();
    assert!(ticks.lines().count() >= 1, "{ticks}");
    let list = home.json("schedule list");
    assert_eq!(list["schema"], "redrive/schedules.v1");
    let tick = &list["items"][1];
    assert_eq!((tick["name"].as_str(), tick["kind"].as_str()), (Some("tick"), Some("exec")));
    assert!(tick["last"]["job"].as_str().unwrap().starts_with("job_"), "{tick}");
    assert!(tick["fired"].as_u64().unwrap() >= 2, "{tick}");
    let shown = home.redrive("schedule show tick --plain", &[]);
    assert!(shown.stdout.contains("when: * * * * * * (UTC)"), "{shown}");
    // Who did it is written down.
    let acts = home.events("--type operator_act");
    assert_eq!(acts[1]["data"]["act"], "schedule.add", "{acts:?}");
    assert_eq!(home.redrive("schedule remove tick", &[]).code, 0);
    assert_eq!(home.redrive("schedule remove tick", &[]).code, 3);
}

/// Schedules: what is wrong is pointed at, in both languages, and shows what would be right.
#[test]
fn a_bad_expression_is_pointed_at() {
    let home = Home::new();
    let add = |lang: &str, words: &[&str]| {
        let all: Vec<&str> = words.iter().copied().chain(["--exec", "true"]).collect();
        home.redrive(&format!("schedule add --lang {lang}"), &all)
    };
    let bad = add("en", &["0 25 * * *"]);
    assert_eq!(bad.code, 2, "{bad}");
    assert!(bad.stderr.contains("hour: 25 is not between 0 and 23"), "{bad}");
    let lines: Vec<&str> = bad.stderr.lines().collect();
    let at = lines.iter().position(|line| line.trim() == "0 25 * * *").unwrap_or_else(|| panic!("{bad}"));
    assert_eq!(lines[at].find("25"), lines[at + 1].find("^^"), "{bad}");
    assert!(bad.stderr.contains("hint: 0 to 23; 5 is one"), "{bad}");
    for (written, said) in [
        ("@dayly", "hint: did you mean @daily?"),
        ("0 6 * * Friday", "hint: did you mean FRI?"),
        ("every day", "hint: minute hour day month weekday: '0 6 * * *' is every day at 06:00"),
        ("", "it is empty"),
    ] {
        let bad = add("en", &[written]);
        assert!(bad.code == 2 && bad.stderr.contains(said), "{written}: {bad}");
    }
    // As a shell leaves it when nobody quotes it.
    for (lang, said) in [("en", "put the expression in quotes"), ("ja", "式を引用符で囲んでください")]
    {
        let bad = add(lang, &["0", "6", "README.md", "docs", "src"]);
        assert!(bad.code == 2 && bad.stderr.contains(said), "{bad}");
    }
    let bad = add("ja", &["0 6 31 2 *"]);
    assert!(bad.stderr.contains("日: 該当する日が永久に来ません"), "{bad}");
    let zone = add("en", &["@daily", "--tz", "Tokyo"]);
    assert!(zone.code == 2 && zone.stderr.contains("Asia/Tokyo"), "{zone}");
    let zone = add("ja", &["@daily", "--tz", "Asia/Toyko"]);
    assert!(zone.stderr.contains("Asia/Tokyo のことですか"), "{zone}");
    let twice = add("en", &["a", "@daily", "--name", "b"]);
    assert!(twice.code == 2 && twice.stderr.contains("two names"), "{twice}");
    assert!(!home.store.exists(), "nothing is made for what is refused");
}

/// Schedules: a job by the clock is written in the words of a job that is enqueued.
#[test]
fn a_schedule_takes_the_words_of_enqueue() {
    let home = Home::new();
    let job = "--queue mail --priority 5 --target tenant-7 --policy standard --timeout 2m --kind greet";
    let added = home.redrive(&format!("schedule add @daily --name greet {job} --payload {{}}"), &[]);
    assert_eq!(added.code, 0, "{added}");
    assert_eq!(home.redrive("schedule run greet", &[]).code, 0);
    assert_eq!(home.redrive(&format!("enqueue {job} --payload {{}}"), &[]).code, 0);
    let made: Vec<serde_json::Value> = home
        .events("--type job_enqueued")
        .into_iter()
        .map(|event| {
            let mut data = event["data"].clone();
            data.as_object_mut().unwrap().retain(|name, _| !["job_id", "caller_id"].contains(&name.as_str()));
            data
        })
        .collect();
    assert!(made.len() == 2 && made[0] == made[1], "{made:#?}");
    assert_eq!((&made[0]["queue"], &made[0]["kind"]), (&"mail".into(), &"greet".into()), "{made:#?}");
}

/// R-C5: a worker tells a command of the first letter; list, check, silence and test say how things stand.
#[test]
fn a_worker_tells_of_the_first_letter() {
    let home = Home::new();
    let config = "[[alerts.receivers]]\nname = \"file\"\ncommand = \"cat >> told\"\n";
    std::fs::write(home.folder.path().join("redrive.toml"), config).unwrap();
    assert_eq!(
        home.redrive("enqueue --exec", &["sh", "-c", "echo 'permission denied' >&2; exit 77"]).code,
        0
    );
    assert_eq!(home.redrive("alerts check -q", &[]).code, 0, "nothing is wrong yet");
    let mut worker = home.spawn("work", &[]);
    worker.wait_for("job_2");
    worker.signal("TERM");
    let ended = worker.finish();
    assert_eq!(ended.code, 0, "{ended}");
    let told = std::fs::read_to_string(home.folder.path().join("told")).unwrap();
    assert!(told.starts_with("redrive: critical: dead letters: 1 (limit 1).\n"), "{told}");
    let check = home.redrive("alerts check --plain", &[]);
    assert!(check.code == 1 && check.stdout.contains("dead_letters  critical      1          1"), "{check}");
    let alerts = home.json("alerts list");
    assert_eq!(
        (alerts["schema"].as_str(), alerts["receivers"][0]["to"].as_str()),
        (Some("redrive/alerts.v1"), Some("sh"))
    );
    assert!(alerts["rules"][0]["told_at"].is_string(), "{alerts}");
    let silenced = home.redrive("alerts silence dead_letters --for 2h --why known --lang ja", &[]);
    assert!(silenced.code == 0 && silenced.stdout.contains("の通知を"), "{silenced}");
    let listed = home.redrive("alerts --plain", &[]);
    assert!(listed.stdout.contains("known") && listed.stdout.contains("Receiver: file (sh)"), "{listed}");
    assert_eq!(home.redrive("alerts check", &[]).code, 0, "what is silenced calls nobody");
    assert_eq!(home.redrive("alerts silence dead_letters --end", &[]).code, 0);
    assert_eq!(home.redrive("alerts silence dead_letters --end", &[]).code, 3);
    let test = home.redrive("alerts test file --plain", &[]);
    assert!(
        test.code == 0 && test.stdout.contains("; redrive explain job_3 says whether it arrived."),
        "{test}"
    );
    assert_eq!(home.redrive("work --until-empty -q", &[]).code, 0);
    let told = std::fs::read_to_string(home.folder.path().join("told")).unwrap();
    assert!(told.ends_with("redrive: a test. Messages reach file.\n"), "{told}");
    assert_eq!(home.redrive("alerts test nobody", &[]).code, 3);
}
