//! `redrive serve` as its operator meets it: how it begins, what it refuses, how it reloads, and how it leaves (issue 8, operations;
//! R-D1: what was acknowledged is there, R-D2: what runs is leased and given back).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod serve_home;

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::{Duration, Instant};

use serve_home::{Home, PATIENCE, Serving};

/// Waits until this holds.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Issue 8, operations: health is answered, the log is JSON where nobody watches, and the first SIGTERM ends with 0.
#[test]
fn it_serves_says_how_it_stands_and_leaves() {
    let home = Home::new();
    let mut serving = home.serve("");
    assert_eq!(serving.get("/livez"), (200, "ok\n".to_owned()));
    assert_eq!(serving.get("/readyz"), (200, "ok\n".to_owned()));
    let (status, version) = serving.get("/version");
    assert!(status == 200 && version.contains(env!("CARGO_PKG_VERSION")), "{status} {version}");
    let url = format!("health http://{}", serving.address);
    let (code, _, said) = home.redrive(&url);
    assert!(code == Some(0) && said.contains("takes work"), "{said}");
    // What is enqueued by hand is run by the server.
    assert_eq!(home.redrive("enqueue --exec true").0, Some(0));
    until("the job is not done", || home.json("status")["queues"][0]["succeeded"] == 1);
    let found = home.json(&format!("doctor --server http://{}", serving.address));
    assert_eq!(found["problems"], 0, "{found}");
    serving.signal("TERM");
    assert_eq!(serving.ends(), Some(0), "{}", serving.said());
    for line in serving.said().lines() {
        let read: serde_json::Value =
            serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}"));
        assert!(
            read["time"].is_string() && read["level"].is_string() && read["message"].is_string(),
            "{line}"
        );
    }
    assert!(serving.said().contains("open to this machine"), "{}", serving.said());
    let (code, _, said) = home.redrive(&url);
    assert!(code == Some(1) && said.contains("nobody listens"), "{said}");
    assert_eq!(home.redrive("store check").0, Some(0));
}

/// Issue 8, operations: what it cannot do is said before anything is begun, with the exit codes that supervisors rely on.
#[test]
fn what_it_cannot_do_is_said_at_once() {
    let home = Home::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let key = home.path("key.pem");
    std::fs::write(&key, "no key").unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    std::fs::write(home.path("cert.pem"), "no certificate").unwrap();
    for (words, code, said) in [
        (format!("--listen {taken}"), 1, "is in use already"),
        ("--listen 7411".to_owned(), 2, "no address to listen at"),
        ("--listen ::1:7411".to_owned(), 2, "no address to listen at"),
        ("--listen 192.0.2.1:7411 --insecure-http".to_owned(), 2, "no token exists"),
        ("--listen 0.0.0.0:0".to_owned(), 2, "no token exists"),
        ("--listen 127.0.0.1:0 --tls-cert gone.pem --tls-key key.pem".to_owned(), 1, "gone.pem"),
        ("--listen 127.0.0.1:0 --tls-cert cert.pem --tls-key key.pem".to_owned(), 1, "cert.pem"),
        ("--listen 127.0.0.1:0 --tls-cert cert.pem".to_owned(), 2, "--tls-key"),
        ("--listen 127.0.0.1:0 --concurrency -1".to_owned(), 2, "concurrency"),
        ("--listen 127.0.0.1:0 --policy x".to_owned(), 2, "--policy"),
    ] {
        for lang in ["en", "ja"] {
            let (got, _, told) = home.redrive(&format!("serve {words} --lang {lang}"));
            assert_eq!(got, Some(code), "{words}: {told}");
            assert!(lang == "ja" || told.contains(said), "{words}: {told}");
        }
    }
    // In a log for collectors the trouble is a line of JSON with its hint; for people it is the usual one.
    let (_, _, told) = home.redrive(&format!("serve --listen {taken}"));
    let read: serde_json::Value = serde_json::from_str(told.trim()).unwrap();
    assert!(read["level"] == "error" && read["hint"].as_str().unwrap().contains("ss -ltnp"), "{told}");
    let (_, _, told) = home.redrive(&format!("serve --listen {taken} --log text"));
    assert!(told.starts_with("error: ") && told.contains("\nhint: "), "{told}");
}

/// Reliability row 73: a configuration that cannot be obeyed keeps the old one, and an event says what is wrong; one that can holds.
#[test]
fn a_broken_configuration_keeps_the_old_one() {
    let home = Home::new();
    let fine = "[policies.own]\nextends = \"stream\"\nmax_retries = 0\n";
    home.configure(fine);
    let serving = home.serve("");
    let dead = |n: u64| {
        assert_eq!(home.redrive("enqueue --policy own --exec false").0, Some(0));
        until("the job is not dead", || home.json("status")["dead_letter_queue"] == n);
    };
    dead(1);
    for (broken, what) in [
        ("[policies.own]\nmax_retries = \"many\"\n", "policies.own.max_retries"),
        ("[policies.own\n", "redrive.toml"),
        ("[[auto_redrive]]\nname = \"a\"\nwhere = \"casue=network\"\n", "casue"),
    ] {
        let before = serving.said().matches("still holds").count();
        home.configure(broken);
        serving.signal("HUP");
        until("it does not refuse", || serving.said().matches("still holds").count() > before);
        serving.says(what);
        assert_eq!(serving.get("/readyz").0, 200);
    }
    // The server is not told of this one: whoever adds the job needs a file that loads.
    home.configure(fine);
    dead(2);
    let events = home.redrive("events --json --type config_refused").1;
    assert_eq!(events.lines().count(), 3, "{events}");
    assert!(events.contains("policies.own.max_retries"), "{events}");
    home.configure(
        "[policies.own]\nextends = \"stream\"\nmax_retries = 3\n[policies.own.backoff]\ntype = \"constant\"\ninitial_delay = \"1h\"\n",
    );
    serving.signal("HUP");
    serving.says("was read again, and holds");
    assert_eq!(home.redrive("enqueue --policy own --exec false").0, Some(0));
    until("the job does not wait for its retry", || home.json("status")["queues"][0]["scheduled"] == 1);
    assert_eq!(home.json("status")["dead_letter_queue"], 2);
}

/// A command that takes so long and leaves its name.
fn write_script(home: &Home) {
    let script = home.path("work.sh");
    std::fs::write(&script, "#!/bin/sh\nsleep $1\necho $2 >> done\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Issue 8, operations: a drain loses nothing. What runs is finished or given back uncounted, what waits stays.
#[test]
fn a_drain_loses_nothing() {
    let home = Home::new();
    let mut serving = home.serve("--concurrency 4 --drain-for 300ms");
    write_script(&home);
    let enqueue =
        |words: &str| assert_eq!(home.redrive(&format!("enqueue --exec ./work.sh {words}")).0, Some(0));
    // Two end within the drain, two do not, and two never begin.
    ["0.2 a", "0.2 b", "60 c", "60 d"].into_iter().for_each(enqueue);
    until("nothing is leased", || home.json("status")["queues"][0]["leased"].as_u64() >= Some(2));
    ["0 e", "0 f"].into_iter().for_each(enqueue);
    serving.signal("TERM");
    assert_eq!(serving.ends(), Some(0), "{}", serving.said());
    let lane = home.json("status")["queues"][0].clone();
    let (ready, leased) = (lane["ready"].as_u64().unwrap(), lane["leased"].as_u64().unwrap());
    let (succeeded, dead) = (lane["succeeded"].as_u64().unwrap(), lane["dead"].as_u64().unwrap());
    assert_eq!((ready + succeeded, leased, dead), (6, 0, 0), "{lane}");
    let done = std::fs::read_to_string(home.path("done")).unwrap_or_default();
    assert_eq!(u64::try_from(done.lines().count()).unwrap(), succeeded, "{done}");
    // Given back: their next attempt is the first that counts.
    let failed = home.redrive("events --json --type attempt_failed").1;
    assert_eq!(failed, "", "nothing was counted as a failure");
    assert_eq!(home.redrive("store check").0, Some(0));
}

/// Issue 8, operations: the second signal ends at once, whatever runs.
#[test]
fn the_second_signal_ends_at_once() {
    let home = Home::new();
    let mut serving = home.serve("--drain-for 1h");
    assert_eq!(home.redrive("enqueue --exec sleep 600").0, Some(0));
    until("it is not leased", || home.json("status")["queues"][0]["leased"] == 1);
    serving.signal("INT");
    serving.says("once more stops at once");
    // A reload that comes late is no second signal.
    serving.signal("HUP");
    serving.says("the configuration is not read again");
    assert_eq!(home.json("status")["queues"][0]["leased"], 1);
    let began = Instant::now();
    serving.signal("TERM");
    assert_eq!(serving.ends(), Some(0), "{}", serving.said());
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let lane = &home.json("status")["queues"][0];
    assert_eq!((&lane["ready"], &lane["leased"]), (&1.into(), &0.into()), "{lane}");
}

/// Issue 8, operations: signals at 50 instants of a server's life, before it listens too. It never hangs, never leaves a lease behind, and
/// what was acknowledged is there.
#[test]
fn signals_at_any_instant() {
    let home = Home::new();
    let mut acknowledged = 0;
    for instant in 0..50_u64 {
        let mut child = home.command(&["serve", "--listen", "127.0.0.1:0", "--drain-for", "2s"]);
        let mut child = child.spawn().unwrap();
        let pid = child.id().to_string();
        // From the first moments, in which nobody listens yet, to well after.
        std::thread::sleep(Duration::from_millis(instant * 7));
        if instant % 5 == 0 {
            assert_eq!(home.redrive("enqueue --exec true").0, Some(0));
            acknowledged += 1;
        }
        for signal in ["TERM", "HUP", "INT"].into_iter().take(1 + usize::try_from(instant % 3).unwrap()) {
            // It may be gone already.
            let _ =
                Command::new("kill").args(["-s", signal, &pid]).stderr(std::process::Stdio::null()).status();
        }
        let began = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if began.elapsed() > PATIENCE {
                child.kill().unwrap();
                panic!("it hangs after instant {instant}");
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        // Before its handlers are there a signal ends it as it ends any program; nothing was begun then.
        let by_signal = std::os::unix::process::ExitStatusExt::signal(&status);
        assert!(status.code() == Some(0) || by_signal.is_some(), "instant {instant}: {status}");
    }
    let mut serving = home.serve("");
    until("not everything is done", || home.json("status")["queues"][0]["succeeded"] == acknowledged);
    serving.signal("TERM");
    assert_eq!(serving.ends(), Some(0));
    assert_eq!(home.redrive("store check").0, Some(0));
}

/// Issue 8: two servers on one SQLite file are one system: what one takes the other's worker may do, and nothing is done twice.
#[test]
fn two_servers_on_one_file() {
    let home = Home::new();
    write_script(&home);
    let servers: Vec<Serving> = (0..2).map(|_| home.serve("--concurrency 2")).collect();
    for n in 0..20 {
        let body = format!(r#"{{"kind":"other","payload":{{"n":{n}}},"queue":"q"}}"#);
        let (status, said) = servers[n % 2].ask("POST", "/v1/jobs", &body).unwrap();
        assert_eq!(status, 201, "{said}");
        assert_eq!(home.redrive(&format!("enqueue --exec ./work.sh 0 {n}")).0, Some(0));
    }
    until("not everything is done", || {
        home.json("status")["queues"].as_array().unwrap().iter().any(|lane| lane["succeeded"] == 20)
    });
    let done = std::fs::read_to_string(home.path("done")).unwrap();
    assert_eq!(done.lines().count(), 20, "{done}");
    assert_eq!(home.json("status")["workers"], 2);
    for mut server in servers {
        assert_eq!(server.get("/readyz").0, 200);
        server.signal("TERM");
        assert_eq!(server.ends(), Some(0));
    }
    assert_eq!(home.redrive("store check").0, Some(0));
}

/// Issue 8, operations: a service manager hears READY, RELOADING and STOPPING, and the watchdog.
#[test]
fn a_service_manager_hears_how_it_stands() {
    let home = Home::new();
    let path = home.path("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command = home.command(&["serve", "--listen", "127.0.0.1:0", "--concurrency", "0"]);
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "1000000");
    let mut serving = Serving::started(command);
    let hear = |wanted: &str| {
        let mut bytes = [0; 4096];
        loop {
            let n = socket.recv(&mut bytes).unwrap_or_else(|_| panic!("never {wanted}"));
            let said = String::from_utf8_lossy(&bytes[..n]).into_owned();
            if said.contains(wanted) {
                return said;
            }
        }
    };
    assert!(hear("READY=1").contains("STATUS=serving http://"));
    hear("WATCHDOG=1");
    serving.signal("HUP");
    assert!(hear("RELOADING=1").contains("MONOTONIC_USEC="));
    hear("READY=1");
    serving.signal("TERM");
    hear("STOPPING=1");
    assert_eq!(serving.ends(), Some(0));
}

/// Issue 8, operations: a store that cannot be written to is told of at once, in words, by `serve` and by `doctor`. A read-only mount needs
/// rights that not everybody has; where it cannot be made, that is said.
#[test]
fn a_read_only_mount_is_told_of() {
    let home = Home::new();
    assert_eq!(home.redrive("enqueue --exec true").0, Some(0));
    let folder = home.folder.path().to_str().unwrap().to_owned();
    let script = format!(
        "mount --bind '{folder}' '{folder}' && mount -o remount,ro,bind '{folder}' && cd / && \"$@\"; code=$?; exit $code"
    );
    let read_only = |words: &[&str]| {
        let inner = home.command(words);
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &script, "sh"]).arg(inner.get_program()).args(inner.get_args());
        command.env_clear().envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.output()
    };
    let possible = read_only(&["--version"]).is_ok_and(|output| output.status.success());
    if !possible {
        assert!(std::env::var_os("CI").is_none(), "a mount namespace is needed: run as root");
        println!("SKIPPED: no mount namespace can be made; nothing about read-only mounts was proved");
        return;
    }
    let output = read_only(&["serve", "--listen", "127.0.0.1:0", "--log", "text"]).unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("read-only") && said.contains("hint: "), "{said}");
    let output = read_only(&["doctor", "--plain"]).unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.code() == Some(1) && said.contains("cannot be written to"), "{said}");
}

/// Issue 8: on PostgreSQL it begins, works and leaves as it does on SQLite.
#[test]
fn it_serves_on_postgres() {
    let Some(home) = Home::on_postgres() else { return };
    let mut serving = home.serve("");
    assert_eq!(serving.get("/readyz"), (200, "ok\n".to_owned()));
    assert_eq!(home.redrive("enqueue --exec true").0, Some(0));
    until("the job is not done", || home.json("status")["queues"][0]["succeeded"] == 1);
    let found = home.json(&format!("doctor --server http://{}", serving.address));
    assert_eq!(found["problems"], 0, "{found}");
    serving.signal("TERM");
    assert_eq!(serving.ends(), Some(0), "{}", serving.said());
}

/// Issue 8, operations, R-C1: health asks over TLS as well, whatever the certificate is called, and whoever only listens is not well.
#[test]
fn health_asks_over_tls() {
    let home = Home::new();
    let words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -out cert.pem -days 2 \
                 -subj /CN=redrive.example.com";
    let made = std::process::Command::new("openssl")
        .args(words.split_whitespace())
        .current_dir(home.folder.path())
        .output();
    if !made.is_ok_and(|made| made.status.success()) {
        assert!(std::env::var_os("CI").is_none(), "openssl is missing");
        println!("SKIPPED: openssl is missing; nothing about TLS was proved on this machine");
        return;
    }
    std::fs::set_permissions(home.path("key.pem"), std::fs::Permissions::from_mode(0o600)).unwrap();
    let mut serving = home.serve("--tls-cert cert.pem --tls-key key.pem");
    let (code, _, said) = home.redrive(&format!("health https://{}", serving.address));
    assert!(code == Some(0) && said.contains("takes work"), "{said}");
    serving.signal("TERM");
    assert_eq!(serving.ends(), Some(0), "{}", serving.said());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || while listener.accept().is_ok() {});
    let (code, _, said) = home.redrive(&format!("health {url}"));
    assert_eq!(code, Some(1), "{said}");
}
