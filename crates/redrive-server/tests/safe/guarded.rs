//! Work that came in over the API reaches nothing inside (reliability 60): each way in is tried against a service on this machine
//! that counts who comes.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redrive::engine::{CommandExecutor, HttpExecutor};
use redrive::{Guard, GuardedCalls, HttpSpec, Lookup, Override};
use redrive_store::{JobId, NewJob, Origin};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::world::World;

/// A service that only this machine can reach. Answers everything with these bytes.
struct Victim {
    address: SocketAddr,
    visits: Arc<AtomicUsize>,
}

impl Victim {
    async fn answering(answer: String) -> Victim {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let visits = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&visits);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                let answer = answer.clone();
                tokio::spawn(async move {
                    let mut request = [0; 4096];
                    let _ = stream.read(&mut request).await;
                    let _ = stream.write_all(answer.as_bytes()).await;
                });
            }
        });
        Victim { address, visits }
    }

    async fn new() -> Victim {
        Victim::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".into()).await
    }

    fn visits(&self) -> usize {
        self.visits.load(Ordering::SeqCst)
    }
}

fn config(text: &str) -> redrive_policy::ServerConfig {
    redrive_policy::Config::parse(text, redrive_policy::Format::Toml, "redrive.toml").unwrap().server
}

/// A guard that lets ports of the test pass, so that addresses are what is judged.
fn any_port(port: u16) -> Guard {
    Guard::of(&config(&format!("[server]\nports = [80, 443, {port}]\n")))
}

/// What these names stand for, one answer after the other; the last repeats.
fn names(answers: Vec<io::Result<Vec<IpAddr>>>) -> (Lookup, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let answers: Vec<Option<Vec<IpAddr>>> = answers.into_iter().map(Result::ok).collect();
    let lookup = Lookup::by(move |_| {
        let n = count.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1);
        let answer = answers[n].clone().ok_or_else(|| io::Error::other("no such name"));
        Box::pin(async move { answer })
    });
    (lookup, asked)
}

async fn add(world: &World, url: &str, origin: Origin) -> JobId {
    let wish = Override {
        initial: Some(Duration::from_millis(1)),
        cap: Some(Duration::from_millis(2)),
        max_retries: Some(2),
        ..Override::default()
    };
    let overrides = redrive::engine::overrides_to_json(&wish);
    let job = NewJob {
        origin,
        timeout: Some(Duration::from_millis(500)),
        overrides,
        ..NewJob::new("http", HttpSpec::new("GET", url).to_payload())
    };
    let added = world.engine.store().enqueue(world.engine.now(), vec![job]).await.unwrap();
    added[0].id
}

/// Runs what is there; what the job's last failure said, and how many attempts it had.
async fn run(world: &World, id: JobId, guard: Guard, lookup: &Lookup) -> (String, u32) {
    let guarded = GuardedCalls::looking_up(guard, lookup).unwrap();
    let client = redrive::http_client().no_proxy().build().unwrap();
    let executor = HttpExecutor::with(client, Guard::default()).unwrap().and_guarded(guarded);
    world.engine.worker().executor("http", Arc::new(executor)).run_until_empty().await.unwrap();
    let record = world.engine.store().job(id).await.unwrap().unwrap();
    let filter = redrive_store::EventFilter { job: Some(id), ..Default::default() };
    let events = world.engine.query(filter, 100).await.unwrap();
    let said =
        events.iter().find_map(|event| event.error_info.as_ref().map(|error| error.error_message.clone()));
    (said.unwrap_or_default(), record.attempts)
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Reliability 60: literal, decimal, octal, hexadecimal, mapped: refused, with the reason in its story, and not tried again.
#[tokio::test]
async fn every_way_to_write_this_machine_is_refused() {
    let world = World::new().await;
    let victim = Victim::new().await;
    let port = victim.address.port();
    let (lookup, _) = names(vec![Err(io::Error::other("not asked"))]);
    for host in [
        "127.0.0.1",
        "2130706433",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "127.1",
        "0",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
    ] {
        let id = add(&world, &format!("http://{host}:{port}/"), Origin::Api).await;
        let (said, attempts) = run(&world, id, any_port(port), &lookup).await;
        assert!(said.contains("[server] allow"), "{host}: {said}");
        assert_eq!(attempts, 1, "{host}: what is refused is not tried again");
    }
    let id = add(&world, "http://169.254.169.254/latest/meta-data/", Origin::Api).await;
    let (said, attempts) = run(&world, id, any_port(port), &lookup).await;
    assert!(said.contains("169.254.169.254") && said.contains("link-local") && attempts == 1, "{said}");
    let id = add(&world, &format!("http://example.com:{}/", port - 1), Origin::Api).await;
    assert!(run(&world, id, any_port(port), &lookup).await.0.contains("[server] ports"));
    assert_eq!(victim.visits(), 0);
    // The letter says it, too.
    let letters = world.engine.get_dead_letter_queue(100).await.unwrap();
    assert_eq!(letters.len(), 11);
    // What was enqueued on this machine is not so limited.
    let id = add(&world, &format!("http://127.0.0.1:{port}/"), Origin::Local).await;
    run(&world, id, any_port(port), &lookup).await;
    assert_eq!(victim.visits(), 1);
}

/// Reliability 60: a name that stands for an address inside is refused, also when it is one of several.
#[tokio::test]
async fn a_name_that_leads_inside_is_refused() {
    let world = World::new().await;
    let victim = Victim::new().await;
    let port = victim.address.port();
    for answer in [
        vec![ip("127.0.0.1")],
        vec![ip("1.1.1.1"), ip("127.0.0.1")],
        vec![ip("::ffff:127.0.0.1")],
        vec![ip("10.0.0.1")],
    ] {
        let (lookup, _) = names(vec![Ok(answer.clone())]);
        let id = add(&world, &format!("http://innocent.example:{port}/"), Origin::Api).await;
        let (said, attempts) = run(&world, id, any_port(port), &lookup).await;
        assert!(
            said.contains("innocent.example is") && said.contains("[server] allow"),
            "{answer:?}: {said}"
        );
        assert_eq!(attempts, 1, "{answer:?}");
    }
    assert_eq!(victim.visits(), 0);
}

/// Reliability 60: a name that changes its mind (DNS rebinding) gains nothing: each connection is to an address that was looked at.
#[tokio::test]
async fn a_name_that_changes_its_mind_gains_nothing() {
    let world = World::new().await;
    let victim = Victim::new().await;
    let port = victim.address.port();
    // The first answer is of the outside world, where nobody answers in time; the next ones lead here.
    let (lookup, asked) = names(vec![Ok(vec![ip("1.2.3.4")]), Ok(vec![ip("127.0.0.1")])]);
    let id = add(&world, &format!("http://rebinding.example:{port}/"), Origin::Api).await;
    let (said, attempts) = run(&world, id, any_port(port), &lookup).await;
    assert!(said.contains("127.0.0.1"), "{said}");
    assert_eq!((attempts, asked.load(Ordering::SeqCst), victim.visits()), (2, 2, 0));
    // A name is looked up once for a connection, and what that answered is what is connected to.
    let allowed = Guard::of(&config(&format!("[server]\nallow = [\"127.0.0.1\"]\nports = [{port}]\n")));
    let (lookup, asked) = names(vec![Ok(vec![ip("127.0.0.1")]), Ok(vec![ip("10.0.0.1")])]);
    let id = add(&world, &format!("http://once.example:{port}/"), Origin::Api).await;
    run(&world, id, allowed, &lookup).await;
    assert_eq!((asked.load(Ordering::SeqCst), victim.visits()), (1, 1));
}

/// Reliability 60: a name that cannot be looked up is not connected to; that may heal, so it is tried again.
#[tokio::test]
async fn a_name_that_nobody_knows_is_tried_again() {
    let world = World::new().await;
    let (lookup, asked) = names(vec![Err(io::Error::other("no such name"))]);
    let id = add(&world, "http://nowhere.example/", Origin::Api).await;
    let (_, attempts) = run(&world, id, Guard::default(), &lookup).await;
    assert_eq!((attempts, asked.load(Ordering::SeqCst)), (3, 3));
}

/// Reliability 60: a redirect is not followed, wherever it leads, and the story says where it led.
#[tokio::test]
async fn a_redirect_inside_is_not_followed() {
    let world = World::new().await;
    let victim = Victim::new().await;
    let answer = format!(
        "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:{}/secrets\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        victim.address.port()
    );
    let outside = Victim::answering(answer).await;
    let port = outside.address.port();
    let guard = Guard::of(&config(&format!("[server]\nallow = [\"outside.example:{port}\"]\n")));
    let (lookup, _) = names(vec![Ok(vec![ip("127.0.0.1")])]);
    let id = add(&world, &format!("http://outside.example:{port}/"), Origin::Api).await;
    let (said, _) = run(&world, id, guard, &lookup).await;
    assert!(said.contains("redirected to http://127.0.0.1") && said.contains("not followed"), "{said}");
    assert_eq!((outside.visits() > 0, victim.visits()), (true, 0));
}

/// Design.md §6: jobs that came in over the API run no command that is not listed, at the door and in every worker.
#[tokio::test]
async fn a_command_that_is_not_listed_is_not_run() {
    let world = World::with(|settings| settings.commands = vec!["/bin/true".into()]).await;
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    let mark = mark.to_str().unwrap();
    for (payload, status) in [
        (json!({ "argv": ["touch", mark] }), 403),
        (json!({ "argv": ["/bin/true"], "env": { "LD_PRELOAD": "/tmp/x.so" } }), 403),
        (json!({ "argv": ["/bin/true"], "review": { "test": ["touch", mark] } }), 403),
        (json!({ "argv": ["/bin/true"], "cwd": "/" }), 403),
        (json!({ "argv": [] }), 400),
        (json!({ "argv": ["/bin/true"] }), 201),
    ] {
        let body = json!({ "kind": "exec", "payload": payload });
        let answer = world.client.post(world.url("/v1/jobs")).json(&body).send().await.unwrap();
        assert_eq!(answer.status(), status, "{payload}: {}", answer.text().await.unwrap());
    }
    // One that got past the door: another server may have let it in.
    let argv = json!({ "argv": ["touch", mark] }).to_string();
    let job = NewJob { origin: Origin::Api, ..NewJob::new("exec", argv) };
    let added = world.engine.store().enqueue(world.engine.now(), vec![job]).await.unwrap();
    let executor = CommandExecutor::captured().listing(["/bin/true"]);
    world.engine.worker().executor("exec", Arc::new(executor)).run_until_empty().await.unwrap();
    let record = world.engine.store().job(added[0].id).await.unwrap().unwrap();
    assert_eq!(record.attempts, 1);
    let letters = world.engine.get_dead_letter_queue(10).await.unwrap();
    assert_eq!(letters.len(), 1, "the listed one succeeded");
    assert!(!std::path::Path::new(mark).exists());
}

/// Reliability 60: a name that stands for where we listen ourselves is refused at that port, although it is listed by name; whether
/// we listen at that address or at all of this machine. Another port of the same machine is not ours.
#[tokio::test]
async fn a_name_for_where_we_listen_is_refused() {
    let world = World::new().await;
    let victim = Victim::new().await;
    let port = victim.address.port();
    let guard = || Guard::of(&config(&format!("[server]\nallow = [\"self.example:{port}\"]\n")));
    let mut machine = vec![ip("127.0.0.1")];
    // Beside loopback: the address by which this machine would go elsewhere, if it has one.
    let out = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    if out.connect("192.0.2.1:9").is_ok() {
        machine.push(out.local_addr().unwrap().ip());
    }
    for address in machine {
        let (lookup, _) = names(vec![Ok(vec![address])]);
        let listens = [
            SocketAddr::new(address, port),
            SocketAddr::new(ip("0.0.0.0"), port),
            SocketAddr::new(ip("::"), port),
        ];
        for own in listens {
            let id = add(&world, &format!("http://self.example:{port}/"), Origin::Api).await;
            let (said, attempts) = run(&world, id, guard().and_not([own]), &lookup).await;
            assert!(said.contains("where this server listens itself"), "{own}: {said}");
            assert_eq!((attempts, victim.visits()), (1, 0), "{own}");
        }
    }
    let (lookup, _) = names(vec![Ok(vec![ip("127.0.0.1")])]);
    let id = add(&world, &format!("http://self.example:{port}/"), Origin::Api).await;
    let other = SocketAddr::new(ip("127.0.0.1"), port.wrapping_add(1).max(1));
    let (said, _) = run(&world, id, guard().and_not([other]), &lookup).await;
    assert_eq!((said.as_str(), victim.visits()), ("", 1));
}
