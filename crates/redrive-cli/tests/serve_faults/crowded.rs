//! A server that may have few files, and more connections than that.

use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::line::Line;
use crate::serve_home::{Home, PATIENCE, Serving};
use crate::until;

const FILES: usize = 64;
/// More than that, and no more than may wait to be accepted.
const MORE: usize = FILES + 40;
const JOB: &str = r#"{"queue":"orders","kind":"order","payload":{}}"#;

/// The same command with so few files for all of its life.
fn with_few_files(inner: &Command) -> Command {
    let mut command = Command::new("prlimit");
    command.arg(format!("--nofile={FILES}:{FILES}")).arg(inner.get_program()).args(inner.get_args());
    command.env_clear().envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(inner.get_current_dir().unwrap());
    command.stdin(std::process::Stdio::null()).stderr(std::process::Stdio::piped());
    command
}

fn refused(serving: &Serving) -> usize {
    serving.said().matches("no connection can be accepted").count()
}

/// The time that it has computed so far, in hundredths of a second.
fn computed(serving: &Serving) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", serving.child.id())).unwrap();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// Reliability row 8, issue 8: without files for another connection the server waits with longer and longer pauses instead of spinning;
/// whoever is connected is served, and what is added is durable; when others leave it takes new ones, by itself.
#[test]
fn without_files_it_waits_serves_and_recovers() {
    for home in [Some(Home::new()), Home::on_postgres()].into_iter().flatten() {
        let mut serving = Serving::started(with_few_files(&home.command(&[
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--concurrency",
            "0",
        ])));
        let mut kept = Line::open(&serving.address).unwrap();
        assert_eq!(kept.ask("POST", "/v1/jobs", JOB).unwrap().0, 201);
        let mut added = 1;
        for round in 0..2 {
            let before = refused(&serving);
            let connect = |_| {
                TcpStream::connect(&serving.address)
                    .unwrap_or_else(|error| panic!("round {round}: {error}: {}", serving.said()))
            };
            let crowd: Vec<TcpStream> = (0..MORE).map(connect).collect();
            let began = Instant::now();
            while refused(&serving) <= before + 3 {
                assert!(began.elapsed() < PATIENCE, "it has files for everybody: {}", serving.said());
                std::thread::sleep(Duration::from_millis(20));
            }
            let (began, counted, worked) = (Instant::now(), refused(&serving), computed(&serving));
            while began.elapsed() < Duration::from_secs(3) {
                let (status, said) = kept.ask("POST", "/v1/jobs", JOB).unwrap();
                assert_eq!(status, 201, "round {round}: {said}");
                added += 1;
                std::thread::sleep(Duration::from_millis(100));
            }
            // A pause is at most a second and doubles from ten milliseconds: each accept that fails is one line.
            let tries = refused(&serving) - counted;
            let bound = 8 + usize::try_from(began.elapsed().as_secs()).unwrap();
            assert!(tries <= bound, "round {round}: it tried {tries} times in {:?}", began.elapsed());
            println!("{tries} tries, {} ms of computing", (computed(&serving) - worked) * 10);
            assert_eq!(kept.ask("GET", "/readyz", "").unwrap(), (200, "ok\n".to_owned()), "round {round}");
            drop(crowd);
            until("it takes nobody any more", || {
                serving.ask("POST", "/v1/jobs", JOB).is_some_and(|(status, _)| status == 201)
            });
            added += 1;
        }
        serving.signal("TERM");
        assert_eq!(serving.ends(), Some(0), "{}", serving.said());
        assert_eq!(home.json("status")["queues"][0]["ready"], added);
        assert_eq!(home.redrive("store check").0, Some(0));
    }
}
