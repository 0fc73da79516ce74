//! Two servers on one PostgreSQL, workers in Python over HTTP, and servers that are killed or restarted under them (issue 8, "must
//! show"): every job is done, and what was done twice shows as attempts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)]

#[path = "../serve_home/mod.rs"]
mod serve_home;

use std::collections::{HashMap, HashSet};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serve_home::{Home, Serving};

/// How much is done, and how long each takes. `REDRIVE_LONG=1` is the run of the issue: 10,000 jobs, a kill every 5 s for a minute.
/// `REDRIVE_KILLS=200` is that of reliability row 2: so many kills, a little over a second apart.
struct Size {
    jobs: usize,
    pause: &'static str,
    every: Duration,
    kills: usize,
}

fn size() -> Size {
    if let Some(kills) = std::env::var("REDRIVE_KILLS").ok().and_then(|kills| kills.parse().ok()) {
        return Size { jobs: kills * 150, pause: "0.15", every: Duration::from_millis(1_200), kills };
    }
    if std::env::var_os("REDRIVE_LONG").is_some() {
        return Size { jobs: 10_000, pause: "0.19", every: Duration::from_secs(5), kills: 12 };
    }
    Size { jobs: 400, pause: "0.15", every: Duration::from_millis(1_200), kills: 3 }
}

/// A process of ours, which ends with the test.
struct Ours(Child);

impl Drop for Ours {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Site {
    home: Home,
    addresses: [String; 2],
    servers: [Option<Serving>; 2],
}

impl Site {
    fn start() -> Option<Site> {
        let there =
            Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success());
        if !there {
            assert!(std::env::var_os("CI").is_none(), "python3 is missing");
            eprintln!("SKIPPED: python3 is missing; nothing about its workers was proved on this machine");
            return None;
        }
        let home = Home::on_postgres()?;
        // The same port each time, as whoever restarts a server does.
        let free = [TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap()];
        let addresses = free.each_ref().map(|free| free.local_addr().unwrap().to_string());
        drop(free);
        let mut site = Site { home, addresses, servers: [None, None] };
        site.serve(0);
        site.serve(1);
        Some(site)
    }

    fn serve(&mut self, which: usize) {
        let words = ["serve", "--listen", &self.addresses[which], "--concurrency", "0"];
        self.servers[which] = Some(Serving::started(self.home.command(&words)));
    }

    fn urls(&self) -> String {
        self.addresses.each_ref().map(|address| format!("http://{address}")).join(",")
    }

    fn python(&self, script: &str, words: &[&str]) -> Ours {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut command = Command::new("python3");
        command
            .arg("-B")
            .arg(root.join("tests/two_servers").join(script))
            .arg(root.join("../../clients/python"))
            .arg(self.urls())
            .args(words)
            .current_dir(self.home.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Ours(command.spawn().unwrap())
    }

    fn sink(&self, number: usize) -> PathBuf {
        self.home.path(&format!("effects-{number}"))
    }

    /// Every effect: job, attempt, key, what it was.
    fn effects(&self) -> Vec<[String; 4]> {
        let read = |number| std::fs::read_to_string(self.sink(number)).unwrap_or_default();
        let text = read(0) + &read(1);
        let words = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            words.try_into().ok()
        };
        text.lines().filter_map(words).collect()
    }

    fn status(&self) -> serde_json::Value {
        self.home.json("status")["queues"][0].clone()
    }

    /// Waits until all are over, and looks at what was done.
    fn finish(&self, jobs: usize) -> (usize, usize) {
        let began = Instant::now();
        let patience = Duration::from_mins(1) + Duration::from_millis(20) * u32::try_from(jobs).unwrap();
        loop {
            let status = self.status();
            if status["succeeded"].as_u64() == Some(jobs as u64) {
                break;
            }
            assert!(began.elapsed() < patience, "not all are done: {status}");
            std::thread::sleep(Duration::from_millis(200));
        }
        let status = self.status();
        assert_eq!((&status["ready"], &status["dead"]), (&0.into(), &0.into()), "{status}");
        let effects = self.effects();
        let things: HashSet<&str> = effects.iter().map(|[.., n]| n.as_str()).collect();
        assert_eq!(things.len(), jobs, "every thing was done");
        let mut by_job: HashMap<&str, HashSet<&str>> = HashMap::new();
        for [job, attempt, ..] in &effects {
            let fresh = by_job.entry(job).or_default().insert(attempt);
            assert!(fresh, "{job} was done twice in attempt {attempt}");
        }
        assert_eq!(by_job.len(), jobs, "every job was added once");
        let keys: HashSet<&str> = effects.iter().map(|[_, _, key, _]| key.as_str()).collect();
        assert_eq!(keys.len(), jobs, "each has one key, over all attempts");
        (effects.len(), effects.len() - jobs)
    }
}

/// Issue 8, R-D2, reliability row 2: one server is killed every few seconds and started again. Every job succeeds, its effect is there, and an effect that
/// is there twice is that of another attempt.
#[test]
fn servers_are_killed_and_every_job_succeeds() {
    let Some(mut site) = Site::start() else { return };
    let run = size();
    let sinks = [site.sink(0), site.sink(1)].map(|sink| sink.display().to_string());
    // Before anybody is killed: whether a request was done whose server died is not known, and its key says so.
    let mut producer = site.python("producer.py", &[&run.jobs.to_string()]);
    assert!(producer.0.wait().unwrap().success(), "everything was added");
    let _workers = sinks.each_ref().map(|sink| site.python("worker.py", &[sink, run.pause]));
    let began = Instant::now();
    for kill in 0..run.kills {
        std::thread::sleep(run.every);
        let which = kill % 2;
        if let Some(mut server) = site.servers[which].take() {
            server.signal("KILL");
            assert_eq!(server.ends(), None, "it was killed");
        }
        site.serve(which);
    }
    let (effects, again) = site.finish(run.jobs);
    println!(
        "{} jobs, {} kills: {effects} effects, {again} of them again, in {:.1} s",
        run.jobs,
        run.kills,
        began.elapsed().as_secs_f64()
    );
}

/// Issue 8, operations: servers that are restarted one after the other, under load, lose nothing and do nothing twice.
#[test]
fn a_rolling_restart_loses_nothing_and_does_nothing_twice() {
    let Some(mut site) = Site::start() else { return };
    let run = size();
    let sinks = [site.sink(0), site.sink(1)].map(|sink| sink.display().to_string());
    let _workers = sinks.each_ref().map(|sink| site.python("worker.py", &[sink, run.pause]));
    let mut producer = site.python("producer.py", &[&run.jobs.to_string()]);
    for restart in 0..run.kills.min(4) {
        std::thread::sleep(run.every);
        let which = restart % 2;
        if let Some(mut server) = site.servers[which].take() {
            server.signal("TERM");
            assert_eq!(server.ends(), Some(0), "it leaves in good order: {}", server.said());
        }
        site.serve(which);
    }
    assert!(producer.0.wait().unwrap().success(), "everything was added");
    let (effects, again) = site.finish(run.jobs);
    assert_eq!((effects, again), (run.jobs, 0));
}
