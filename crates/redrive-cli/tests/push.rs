//! `push list|show|set|remove`: services that are called for jobs, set up at the command line (R-P15, reliability rows 60 and 62).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::format_push_string)]

mod serve_home;
mod support;

use std::io::{Read, Write};
use std::net::TcpListener;

use serde_json::Value;
use serve_home::Home;
use support::line;
use support::stored::seeded;

const FORMS: [(&str, &str); 5] = [
    ("rich_en", "--color always"),
    ("rich_ja", "--color always --lang ja"),
    ("plain_en", "--plain"),
    ("plain_ja", "--plain --lang ja"),
    ("json", "--json"),
];

/// A configuration that names a service, too.
const CONFIG: &str = "[[push]]\nname = \"billing\"\nqueue = \"invoices\"\nurl = \"https://hooks.example.com/T0/canary-path\"\nsecret_env = [\"BILLING_SECRET\"]\n";

/// The secret that stands alone on stdout.
fn secret_of(stdout: &str) -> String {
    let text = stdout.trim_end_matches('\n');
    assert!(text.starts_with("whsec_") && text.len() == 50 && stdout.ends_with('\n'), "{stdout:?}");
    text.to_owned()
}

/// R-C2: what people see of push endpoints, in every form.
#[test]
fn endpoints_in_every_form() {
    let mut page = String::new();
    for (form, flags) in FORMS {
        let store = seeded();
        std::fs::write(store.folder.path().join("redrive.toml"), CONFIG).unwrap();
        let flags = format!("{flags} {}", store.flags());
        let run = |words: &str| line(&format!("{words} {flags}")).in_directory(store.folder.path()).run();
        // Its secret is new every time; what else is said of it is not.
        let made = run("push set crm --queue orders --url http://localhost:9000/hook/canary-path");
        let said = made.stderr.replace('\x1b', "␛");
        page.push_str(&format!("===== {form}: made\nexit: {}\n{said}", made.code));
        for words in [
            "push",
            "push show crm",
            "push show billing --with-url",
            "push set crm --kind a,b --batch 10 --timeout 2m --concurrency 8 --disable",
            "push set billing --queue orders --url http://localhost:1/x --secret-env UNSET",
            "push set other --concurrency 2",
            "push set crm --batch 5000",
            "push set crm --url ftp://localhost/x",
            "push set crm --all-kinds",
            "push remove billing",
            "push remove nobody",
            "push remove crm",
        ] {
            let ran = run(words);
            page.push_str(&format!("===== {form}: redrive {words}\n{ran}\n"));
        }
        page = store.anonymous(&page);
    }
    insta::assert_snapshot!("push", page);
}

/// Reliability row 62: a secret is shown when it is made, alone on stdout, and never again, by nothing; nor is what follows the host.
#[test]
fn a_secret_is_shown_once_and_the_one_before_is_kept() {
    let store = seeded();
    let flags = store.flags();
    let run = |words: &str| line(&format!("{words} --plain {flags}")).env("USER", "ada").run();
    let made = run("push set crm --queue orders --url http://localhost:9000/canary-path --why a=b");
    assert_eq!(made.code, 0, "{}", made.stderr);
    let mut secrets = vec![secret_of(&made.stdout)];
    // What is set again without a word about secrets makes none.
    let same = run("push set crm --concurrency 9");
    assert!(same.stdout.contains("9 at a time") && !same.stdout.contains("whsec_"), "{}", same.stdout);
    let rotated = run("push set crm --rotate");
    secrets.push(secret_of(&rotated.stdout));
    let json = line(&format!("push set crm --rotate --json {flags}")).run();
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(
        (json["schema"].as_str(), json["secrets"].as_u64()),
        (Some("redrive/push_endpoint.v1"), Some(2))
    );
    secrets.push(json["new_secret"].as_str().unwrap().to_owned());
    assert_ne!(secrets[0], secrets[1]);
    for form in ["--color always", "--plain --lang ja", "--json"] {
        for words in ["push", "push show crm", "events --type operator_act", "push set crm --batch 1"] {
            let shown = line(&format!("{words} {form} {flags}")).run();
            assert_eq!(shown.code, 0, "{words} {form}: {}", shown.stderr);
            let said = shown.stdout + &shown.stderr;
            assert!(said.contains("crm") && !said.contains("canary-path"), "{words} {form}: {said}");
            for secret in &secrets {
                assert!(!said.contains(&secret[6..]), "{words} {form}: {said}");
            }
        }
    }
    let whole = run("push show crm --with-url").stdout;
    assert!(whole.contains("http://localhost:9000/canary-path"), "{whole}");
    run("push remove crm --why gone");
    let acts = run("events --type operator_act").stdout;
    for word in ["push.add", "push.remove", "cli:ada", "gone"] {
        assert!(acts.contains(word), "{word}: {acts}");
    }
    assert_eq!(run("push show crm").code, 3);
}

/// R-C1: what is refused leaves no store, no endpoint and no act behind.
#[test]
fn what_is_refused_leaves_nothing_behind() {
    let home = Home::new();
    for words in [
        "push set x",
        "push set x --queue q",
        "push set x --queue q --url nowhere",
        "push set x --queue q --url http://ada:hunter2@localhost/",
        "push set x --queue q --url http://localhost/ --batch 2",
        "push set a.b --queue q --url http://localhost/",
        "push set x --queue q --url http://localhost/ --secret-env NOT_THERE",
        "push set x --queue q --url http://localhost/ --rotate --secret-env PATH",
        "push set x --enable --disable",
    ] {
        let (code, out, err) = home.redrive(words);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{words}: {err}");
        assert!(err.contains("hint: ") && !err.contains("hunter2"), "{words}: {err}");
    }
    assert!(!home.path("redrive.db").exists());
}

/// Secrets that are there already are taken from the environment.
#[test]
fn secrets_come_from_the_environment() {
    let home = Home::new();
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let set = |variable: &str| {
        let words =
            ["push", "set", "crm", "--queue", "q", "--url", "http://localhost/", "--secret-env", variable];
        let output = home.command(&words).envs([("GOOD", secret), ("BAD", "hunter2")]).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    };
    let (code, said) = set("GOOD");
    assert!(code == Some(0) && !said.contains("whsec_"), "{said}");
    assert_eq!(home.json("push show crm")["secrets"], 1);
    let (code, said) = set("GOOD,BAD");
    assert!(code == Some(2) && said.contains("BAD") && !said.contains("hunter2"), "{said}");
}

/// Reliability row 60: a running server calls what was set here, on a private address, and refuses the same address from the API;
/// a change here of something else does not open that door.
#[test]
fn a_local_operator_may_name_a_private_address_and_the_api_may_not() {
    let home = Home::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let mut serving = home.serve("");
    let body = format!("{{\"queue\": \"orders\", \"url\": \"{url}\"}}");
    let (status, said) = serving.ask("PUT", "/v1/push/crm", &body).unwrap();
    assert_eq!(status, 400, "{said}");
    let elsewhere = "{\"queue\": \"orders\", \"url\": \"http://hooks.example/a\"}";
    assert_eq!(serving.ask("PUT", "/v1/push/crm", elsewhere).unwrap().0, 200);
    home.redrive("push set crm --concurrency 2");
    assert_eq!(home.json("push show crm")["origin"], "api");
    // Who looks for what is wrong is told of a service that is not called.
    home.redrive("push set crm --disable --why maintenance");
    let doctor = home.redrive("doctor --plain").1;
    assert!(
        doctor.contains("push endpoint crm is not called") && doctor.contains("push set crm --enable"),
        "{doctor}"
    );
    home.redrive("push set crm --enable");
    assert!(!home.redrive("doctor --plain").1.contains("crm"));
    let acts = home.redrive("events --json --type operator_act").1;
    for act in ["push.change", "push.disable", "push.enable"] {
        assert!(acts.contains(&format!("\"{act}\"")), "{act}: {acts}");
    }
    home.redrive(&format!("push set crm --url {url}"));
    assert_eq!(home.json("push show crm")["origin"], "local");
    let (code, id, said) = home.redrive("enqueue --queue orders --kind greet --payload {\"name\":\"Ada\"}");
    assert_eq!(code, Some(0), "{said}");
    let (mut called, _) = listener.accept().unwrap();
    called.set_read_timeout(Some(serve_home::PATIENCE)).unwrap();
    let mut heard = Vec::new();
    let mut chunk = [0; 4096];
    while !String::from_utf8_lossy(&heard).contains("\"Ada\"") {
        let read = called.read(&mut chunk).unwrap();
        assert_ne!(read, 0, "{}", String::from_utf8_lossy(&heard));
        heard.extend_from_slice(&chunk[..read]);
    }
    called.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
    let began = std::time::Instant::now();
    let id = id.trim().to_owned();
    while home.json(&format!("detail {id}"))["status"] != "success" {
        assert!(began.elapsed() < serve_home::PATIENCE, "{}", home.json(&format!("detail {id}")));
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let heard = String::from_utf8_lossy(&heard).to_lowercase();
    assert!(heard.contains("webhook-signature: v1,"), "{heard}");
    serving.signal("TERM");
    assert_eq!(serving.ends(), Some(0));
}
