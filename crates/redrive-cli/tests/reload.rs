//! SIGHUP as an operator meets it: what a configuration can change while `redrive serve` runs, what waits for a restart, and what a
//! broken one changes, which is nothing (reliability row 73).

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod serve_home;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serve_home::{Home, PATIENCE, Serving};

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Writes a configuration, asks for a reload, and waits for what is said of it.
fn reload(home: &Home, serving: &Serving, toml: &str, said: &str) {
    let before = serving.said().matches(said).count();
    home.configure(toml);
    serving.signal("HUP");
    let began = Instant::now();
    while serving.said().matches(said).count() <= before {
        assert!(began.elapsed() < PATIENCE, "it does not say {said:?}: {}", serving.said());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A service that says who called, and that all is well.
fn service() -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (called, calls) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut bytes = [0; 8192];
            let n = stream.read(&mut bytes).unwrap_or(0);
            let head = String::from_utf8_lossy(&bytes[..n]).into_owned();
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            if called.send(head).is_err() {
                return;
            }
        }
    });
    (address, calls)
}

/// R-C1, reliability row 73: what the API's jobs may run and reach, to which names it answers, whom it pushes to, which rules of recovery and
/// which alerts hold: all of it is exchanged at once, and the log says what.
#[test]
fn everything_that_can_be_changed_is() {
    let home = Home::new();
    home.configure("");
    let (address, calls) = service();
    let mut command = home.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.env("HOOK", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    let mut serving = Serving::started(command);
    let asks = |serving: &Serving, body: &str| serving.ask("POST", "/v1/jobs", body).unwrap();
    let command = r#"{"kind":"exec","payload":{"argv":["/bin/true"]}}"#;
    assert_eq!(asks(&serving, command).0, 403);
    assert_eq!(serving.ask_as("redrive.internal", "GET", "/version", "").unwrap().0, 403);
    let toml = format!(
        "[server]\nhosts = [\"redrive.internal\"]\ncommands = [\"/bin/true\"]\nallow = [\"{address}\"]\n\
         [[push]]\nname = \"mail\"\nqueue = \"mail\"\nurl = \"http://{address}/push\"\nsecret_env = [\"HOOK\"]\n\
         [[auto_redrive]]\nname = \"nightly\"\nwhere = \"cause=timeout\"\n\
         [targets.\"queue:slow\"]\nconcurrency = 1\n\
         [[alerts.receivers]]\nname = \"ops\"\nwebhook = \"http://{address}/alert\"\n"
    );
    let said =
        "took effect: alerts, auto_redrive, targets, push, server.hosts, server.allow, server.commands";
    reload(&home, &serving, &toml, said);
    // The program is listed, and what is listed is run.
    let (status, said) = asks(&serving, command);
    assert_eq!(status, 201, "{said}");
    until("the command does not run", || home.json("status")["queues"][0]["succeeded"] == 1);
    assert_eq!(serving.ask_as("redrive.internal", "GET", "/version", "").unwrap().0, 200);
    // A private address is reached, by jobs and by pushes, and alerts are delivered.
    let call = format!(r#"{{"kind":"http","payload":{{"method":"GET","url":"http://{address}/call"}}}}"#);
    assert_eq!(asks(&serving, &call).0, 201);
    let next = || calls.recv_timeout(PATIENCE).expect("nobody calls");
    let head = next();
    assert!(head.starts_with("GET /call"), "{head}");
    assert_eq!(asks(&serving, r#"{"queue":"mail","kind":"letter","payload":{}}"#).0, 201);
    let head = next();
    assert!(head.starts_with("POST /push") && head.contains("webhook-signature"), "{head}");
    assert_eq!(home.redrive("alerts test").0, Some(0));
    let head = next();
    assert!(head.starts_with("POST /alert"), "{head}");
    // Taken away again, it holds no more.
    reload(&home, &serving, "", "took effect: alerts, auto_redrive, targets, push, server.hosts");
    assert_eq!(asks(&serving, command).0, 403);
    assert_eq!(serving.ask_as("redrive.internal", "GET", "/version", "").unwrap().0, 403);
    reload(&home, &serving, "", "and holds: nothing has changed");
    let told = home.redrive("events --json --type config_reloaded").1;
    assert!(told.contains("auto_redrive") && told.lines().count() == 3, "{told}");
    serving.signal("TERM");
    assert_eq!(serving.ends(), Some(0), "{}", serving.said());
}

/// Reliability row 73: what cannot be exchanged is named, each time until there is a restart; what can be is taken all the same.
#[test]
fn what_needs_a_restart_is_named() {
    let home = Home::new();
    home.configure("[server]\nlisten = [\"127.0.0.1:0\"]\n");
    let mut serving = Serving::started(home.command(&["serve", "--concurrency", "0"]));
    let other = "[server]\nlisten = [\"127.0.0.1:1\"]\nmax_body = \"1MiB\"\nhosts = [\"a\"]\n";
    reload(
        &home,
        &serving,
        other,
        "took effect: server.hosts; needs a restart: server.listen, server.max_body",
    );
    reload(&home, &serving, other, "nothing took effect; needs a restart: server.listen, server.max_body");
    assert_eq!(serving.get("/livez").0, 200);
    serving.signal("TERM");
    assert_eq!(serving.ends(), Some(0), "{}", serving.said());
}

/// Reliability row 73: a configuration of which one thing is wrong changes nothing else either, and one line says where it is.
#[test]
fn a_broken_one_changes_nothing() {
    let home = Home::new();
    home.configure("");
    let serving = home.serve("--concurrency 0");
    let good = "[server]\nhosts = [\"a\"]\ncommands = [\"/bin/true\"]\n";
    for (bad, said) in [
        ("[server.tls]\ncert = 1\nkey = \"b\"\n", "redrive.toml:5:1: server.tls.cert"),
        ("[server]\n", "line 4, column 2"),
        ("[[auto_redrive]]\nname = \"a\"\nwhere = \"casue=network\"\n", "casue"),
        (
            "[[push]]\nname = \"a\"\nqueue = \"q\"\nurl = \"http://a/\"\nsecret_env = [\"NOT_SET\"]\n",
            "NOT_SET holds no secret",
        ),
        ("[[alerts.receivers]]\nname = \"ops\"\nwebhook = \"http://127.0.0.1:7411/\"\n", "ops"),
    ] {
        let before = serving.said().lines().count();
        reload(&home, &serving, &format!("{good}{bad}"), "what held before still holds: ");
        let all = serving.said();
        let lines: Vec<&str> = all.lines().skip(before).collect();
        assert!(lines.len() == 1 && lines[0].contains(said), "{lines:?}");
        assert_eq!(serving.ask_as("a", "GET", "/version", "").unwrap().0, 403, "{bad}");
    }
    let refused = home.redrive("events --json --type config_refused").1;
    assert_eq!(refused.lines().count(), 5, "{refused}");
    reload(&home, &serving, good, "took effect: server.hosts, server.commands");
}
