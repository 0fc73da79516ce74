//! `work` and `events --follow` as processes: draining, several workers, and followers of what others do (R-D2, R-E1).

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod process_store;
mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::time::{Duration, Instant};

use process_store::Home;
use support::stored::is_sound;

/// R-D1: everything that can be run is run, and each attempt is told of on its line.
#[test]
fn a_worker_runs_what_is_there_and_tells_of_it() {
    let home = Home::new();
    home.redrive("enqueue --exec sh -c", &["echo quiet"]);
    home.redrive("enqueue --exec sh -c", &["echo 'permission denied' >&2; exit 77"]);
    home.redrive("enqueue --kind thumbnail --payload {}", &[]);
    let ran = home.redrive("work --until-empty", &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{ran}");
    let mut lines: Vec<&str> = ran.stderr.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines.len(), 3, "{ran}");
    assert!(lines[0].starts_with("redrive: job_1 exec attempt 1 succeeded after "), "{ran}");
    assert!(lines[1].starts_with("redrive: job_2 exec attempt 1 failed: exit code 77, auth_error"), "{ran}");
    // R-T8: a person is told at once, in the same breath.
    let told = "redrive: job_2 level 3 (analysis and settings): Check the permission for what was refused. · details: redrive trace job_2";
    assert_eq!(lines[2], told, "{ran}");
    let status = home.json("status");
    assert_eq!(status["dead_letter_queue"], 1);
    // What it cannot run waits for somebody who can.
    assert_eq!(home.json("explain 3")["state"], "ready");
    assert_eq!(home.redrive("work --until-empty -q", &[]).stderr, "");
    assert!(is_sound(&home.store));
}

/// R-T8: without `notify_immediately` a worker says once how many there were; without the link there is none.
#[test]
fn escalations_are_told_as_the_configuration_says() {
    let home = Home::new();
    let config = home.folder.path().join("redrive.toml");
    let fails = "echo 'permission denied' >&2; exit 77";
    std::fs::write(&config, "[escalate]\nnotify_immediately = false").unwrap();
    for _ in 0..2 {
        home.redrive("enqueue --exec sh -c", &[fails]);
    }
    let ran = home.redrive("work --until-empty --config redrive.toml", &[]);
    let gathered = "redrive: escalations since the last time: 2 (redrive escalations)";
    assert_eq!(ran.stderr.lines().filter(|line| line.contains("level")).count(), 0, "{ran}");
    assert_eq!(ran.stderr.lines().last(), Some(gathered), "{ran}");
    std::fs::write(&config, "[escalate]\ninclude_trace_link = false").unwrap();
    home.redrive("enqueue --exec sh -c", &[fails]);
    let ran = home.redrive("work --until-empty --config redrive.toml", &[]);
    assert!(ran.stderr.contains("job_3 level 3") && !ran.stderr.contains("redrive trace"), "{ran}");
}

/// R-D1: a higher priority comes first, and only the queues that were named are served.
#[test]
fn queues_and_priorities_are_kept_to() {
    let home = Home::new();
    for (flags, word) in [
        ("--queue mail --priority -5", "low"),
        ("--queue mail --priority 5", "high"),
        ("--queue other", "other"),
    ] {
        home.redrive(&format!("enqueue {flags} --exec sh -c"), &[&format!("echo {word} >> order")]);
    }
    assert_eq!(home.redrive("work --until-empty --concurrency 1 --queue mail", &[]).code, 0);
    let order = || std::fs::read_to_string(home.folder.path().join("order")).unwrap();
    assert_eq!(order(), "high\nlow\n");
    assert_eq!(home.redrive("work --until-empty --queue nowhere --queue other", &[]).code, 0);
    assert_eq!(order(), "high\nlow\nother\n");
}

/// R-D2: the first signal lets what runs finish, and nothing new is taken; exit 0.
#[test]
fn a_worker_drains() {
    let home = Home::new();
    home.redrive("enqueue --exec sh -c", &["echo begun > begun; sleep 1; echo done > done"]);
    let mut worker = home.spawn("work --concurrency 1", &[]);
    worker.wait_for("working on");
    wait_until(|| home.folder.path().join("begun").exists());
    home.redrive("enqueue --exec true", &[]);
    worker.signal("TERM");
    let ran = worker.finish();
    assert_eq!(ran.code, 0, "{ran}");
    assert!(home.folder.path().join("done").exists(), "{ran}");
    assert_eq!(home.json("explain 1")["state"], "succeeded");
    assert_eq!(home.json("explain 2")["state"], "ready");
    assert!(is_sound(&home.store));
}

/// R-D2: the second signal stops at once; what ran is given back, uncounted.
#[test]
fn a_second_signal_stops_at_once() {
    let home = Home::new();
    home.redrive("enqueue --exec sh -c", &["echo begun > begun; exec sleep 60"]);
    let mut worker = home.spawn("work", &[]);
    wait_until(|| home.folder.path().join("begun").exists());
    let began = Instant::now();
    worker.signal("INT");
    worker.wait_for("once more stops at once");
    worker.signal("INT");
    let ran = worker.finish();
    assert_eq!(ran.code, 0, "{ran}");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let story = home.json("explain 1");
    assert_eq!((&story["state"], &story["attempts"]), (&"ready".into(), &0.into()), "{story}");
    assert!(is_sound(&home.store));
}

/// R-D1, R-I8: a call is made until it is answered, each time with the same key.
#[test]
fn an_http_call_is_made_until_it_is_answered() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://ada:p%40ss@{}/hook", listener.local_addr().unwrap());
    listener.set_nonblocking(true).unwrap();
    let server = std::thread::spawn(move || {
        ["503 Service Unavailable", "200 OK"].map(|status| {
            let mut stream = accepted(&listener);
            let mut request = Vec::new();
            let mut chunk = [0; 4096];
            while !request.ends_with(b"{\"n\":1}") {
                let read = stream.read(&mut chunk).unwrap();
                assert_ne!(read, 0, "the request ended early");
                request.extend_from_slice(&chunk[..read]);
            }
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            stream.write_all(answer.as_bytes()).unwrap();
            String::from_utf8(request).unwrap().to_lowercase()
        })
    });
    let home = Home::new();
    std::fs::write(home.folder.path().join("redrive.toml"), QUICK).unwrap();
    std::fs::write(home.folder.path().join("body.json"), "{\"n\":1}").unwrap();
    let ran = home.redrive(
        "enqueue --policy quick --body @body.json --http POST",
        &[&url, "--header", "Content-Type: application/json"],
    );
    assert_eq!(ran.code, 0, "{ran}");
    let ran = home.redrive("work --until-empty", &[]);
    assert_eq!(ran.code, 0, "{ran}");
    let requests = server.join().unwrap();
    let key = |request: &str| {
        let line = request.lines().find(|line| line.starts_with("idempotency-key: "));
        line.expect("a key").to_owned()
    };
    assert_eq!(key(&requests[0]), key(&requests[1]));
    assert!(requests[0].starts_with("post /hook ") && requests[0].contains("content-type: application/json"));
    // A name and password in the address are sent as anybody would: `ada:p@ss`.
    assert!(requests[0].contains("authorization: basic ywrhonbac3m="), "{}", requests[0]);
    let told = home.json("explain 1");
    assert_eq!((&told["state"], &told["attempts"]), (&"succeeded".into(), &2.into()), "{told}");
    assert_eq!(told["history"][0]["cause"], "api_error");
}

/// The next connection; a call that never comes fails the test instead of hanging it.
fn accepted(listener: &TcpListener) -> TcpStream {
    let came = std::cell::RefCell::new(None);
    wait_until(|| {
        *came.borrow_mut() = listener.accept().ok();
        came.borrow().is_some()
    });
    let (stream, _) = came.into_inner().unwrap();
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

/// A policy that waits for nobody.
const QUICK: &str = "[policies.quick]\nextends = 'standard'\n[policies.quick.backoff]\ntype = 'constant'\ninitial_delay_ms = 10\n";

/// R-E1: a follower sees what other processes do, each event once and in order.
#[test]
fn events_are_followed_across_processes() {
    let home = Home::new();
    home.redrive("enqueue --exec true", &[]);
    let mut follower = home.spawn("events --follow --json", &[]);
    follower.wait_for("job_1");
    home.redrive("work --until-empty", &[]);
    home.redrive("enqueue --exec true", &[]);
    follower.wait_for("job_2");
    follower.signal("INT");
    let ran = follower.finish();
    assert_eq!(ran.code, 130, "{ran}");
    let ids: Vec<String> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["event_id"].to_string())
        .collect();
    let stored: Vec<String> = home.events("").iter().map(|event| event["event_id"].to_string()).collect();
    assert_eq!(ids, stored);
}

/// R-E4: `export | import -` brings everything over, once.
#[test]
fn an_export_is_piped_into_another_store() {
    let (here, there) = (Home::new(), Home::new());
    assert_eq!(here.redrive("run -- true", &[]).code, 0);
    let lines = here.redrive("export", &[]).stdout;
    for answer in ["3 added, 0 known", "0 added, 3 known"] {
        let mut import = there.command("import -").stdin(Stdio::piped()).spawn().unwrap();
        import.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        let output = import.wait_with_output().unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).starts_with(answer), "{output:?}");
    }
    assert_eq!(there.redrive("export", &[]).stdout, lines);
}

/// R-D1: several processes share one file, and nobody is told of a lock.
#[test]
fn several_processes_share_one_store() {
    let home = Home::new();
    home.redrive("store migrate", &[]);
    let scripts: Vec<_> = (0..4).map(|_| home.spawn("run -q -- sh -c", &["exit 0"])).collect();
    let adders: Vec<_> = (0..4).map(|_| home.spawn("enqueue --exec true", &[])).collect();
    for child in scripts.into_iter().chain(adders) {
        let ran = child.finish();
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran}");
    }
    let workers: Vec<_> = (0..3).map(|_| home.spawn("work --until-empty -q", &[])).collect();
    for worker in workers {
        let ran = worker.finish();
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran}");
    }
    let lanes = home.json("status");
    assert_eq!(lanes["queues"][0]["succeeded"], 8, "{lanes}");
    assert!(is_sound(&home.store));
}

fn wait_until(happened: impl Fn() -> bool) {
    let began = Instant::now();
    while !happened() {
        assert!(began.elapsed() < Duration::from_mins(1), "it did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// R-P14: a worker tells of files as `run` does, with the job that they belong to.
#[test]
fn a_worker_tells_of_the_files_of_commands() {
    let home = Home::new();
    let tree = home.folder.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    std::fs::write(tree.join("f"), "one").unwrap();
    let flags = "run --detach --max-retries 1 --initial-delay 10ms";
    home.redrive(
        &format!("{flags} --snapshot {} -- sh -c", tree.display()),
        &[&format!("echo two > {}/f; exit 75", tree.display())],
    );
    home.redrive(&format!("{flags} --snapshot nowhere -- sh -c"), &["exit 75"]);
    let ran = home.redrive("work --until-empty", &[]);
    let told =
        "redrive: job_1 exec: the files are as they were before the attempt: 1 put back, 0 moved aside";
    assert_eq!(ran.stderr.lines().filter(|line| *line == told).count(), 2, "{ran}");
    assert_eq!(ran.stderr.matches("warning: job_2 exec: its files are not protected").count(), 1, "{ran}");
}
