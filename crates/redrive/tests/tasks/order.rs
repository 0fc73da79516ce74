//! What runs when: dependencies first, no more at a time than the plan allows, and never two on the same files.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redrive::Fail;
use redrive::engine::{Context, WorkerBuilder};
use redrive_store::TaskState;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Kind, World, on_both};

on_both! {
    /// R-T1: commands, calls and handlers stand in one plan; each gets what the plan gives it, after what it depends on.
    every_kind_of_work = every_kind;
    /// R-T1: no more run at a time than the plan allows, and as many as it allows do.
    no_more_at_a_time = no_more;
    /// R-T3: what puts back the same files, or one folder within the other's, never runs at the same time.
    files_are_one_step_s_at_a_time = one_at_a_time;
    /// R-T1: a plan without a limit worth the name begins as much as a step may hold, and comes to its end.
    a_wide_plan = wide;
}

/// What handlers have noted, in order.
type Notes = Arc<Mutex<Vec<String>>>;

fn noting(worker: WorkerBuilder, notes: &Notes) -> WorkerBuilder {
    let notes = Arc::clone(notes);
    worker.handle("note", move |payload: Value, cx: Context| {
        let line = format!("{payload} for {}", cx.caller_id().unwrap_or_default());
        notes.lock().unwrap().push(line);
        async { Ok::<_, Fail>(()) }
    })
}

/// A server that answers one call, and tells what it was sent.
async fn server() -> (String, tokio::task::JoinHandle<String>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/greet", listener.local_addr().unwrap());
    let served = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut got = Vec::new();
        while !String::from_utf8_lossy(&got).contains("hello") {
            let mut some = [0; 1024];
            let read = stream.read(&mut some).await.unwrap();
            assert!(read > 0, "{}", String::from_utf8_lossy(&got));
            got.extend_from_slice(&some[..read]);
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        String::from_utf8(got).unwrap()
    });
    (url, served)
}

async fn every_kind(kind: Kind) {
    let world = World::new(kind).await;
    let (url, served) = server().await;
    let plan = format!(
        r#"
[[subtasks]]
id = "last"
depends_on = ["call", "run"]
handler = "note"
payload = {{ n = [1, 2], of = "last" }}
[[subtasks]]
id = "call"
depends_on = "first"
http = {{ method = "POST", url = "{url}", body = "hello" }}
[[subtasks]]
id = "first"
handler = "note"
payload = "first"
[[subtasks]]
id = "run"
depends_on = "first"
command = "echo ran > ran"
"#
    );
    let id = world.start(&plan).await;
    let notes = Notes::default();
    let (state, _) = world.finish(id, noting(world.worker(), &notes)).await;
    assert_eq!(state, TaskState::Succeeded, "{:#?}", world.task(id).await);
    let last = json!({ "n": [1, 2], "of": "last" });
    assert_eq!(*notes.lock().unwrap(), [format!("\"first\" for {id}"), format!("{last} for {id}")]);
    assert!(served.await.unwrap().starts_with("POST /greet"));
    assert_eq!(world.text("ran").as_deref(), Some("ran\n"));
    world.is_sound().await;
}

async fn no_more(kind: Kind) {
    let world = World::new(kind).await;
    let mut plan = String::from("parallel = 3\n");
    for number in 0..30 {
        plan += &format!("[[subtasks]]\nid = \"s{number}\"\nhandler = \"count\"\npayload = {number}\n");
        if number >= 10 {
            plan += &format!("depends_on = [\"s{}\", \"s{}\"]\n", number - 10, number - 7);
        }
    }
    let id = world.start(&plan).await;
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let done: Arc<Mutex<Vec<usize>>> = Arc::default();
    let (running, seen, over) = (Arc::clone(&now), Arc::clone(&most), Arc::clone(&done));
    let worker = world.worker().handle("count", move |number: usize, _: Context| {
        let (running, seen, over) = (Arc::clone(&running), Arc::clone(&seen), Arc::clone(&over));
        async move {
            seen.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            if number >= 10 {
                let over = over.lock().unwrap();
                assert!(over.contains(&(number - 10)) && over.contains(&(number - 7)), "{number}");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
            over.lock().unwrap().push(number);
            running.fetch_sub(1, Ordering::SeqCst);
            Ok::<_, Fail>(())
        }
    });
    let (state, _) = world.finish(id, worker).await;
    assert_eq!(state, TaskState::Succeeded, "{:#?}", world.task(id).await);
    assert_eq!(most.load(Ordering::SeqCst), 3);
    assert_eq!(done.lock().unwrap().len(), 30);
}

async fn one_at_a_time(kind: Kind) {
    let world = World::new(kind).await;
    for name in ["src/deep/a", "out/a", "apart/a"] {
        world.write(name, "");
    }
    // Whoever finds the mark of another one in its files says so; those in `apart` wait for one another.
    let inside = "[ -e src/deep/mark ] && touch overlap; touch src/deep/mark; sleep 0.05; rm src/deep/mark";
    let plan = format!(
        r#"
parallel = 8
[[subtasks]]
snapshot = "src"
command = "{inside}"
[[subtasks]]
snapshot = ["out", "src/deep"]
command = "{inside}"
[[subtasks]]
snapshot = ["src/deep"]
command = "{inside}"
[[subtasks]]
snapshot = ["out"]
command = "touch l; until [ -e r ]; do sleep 0.01; done"
[[subtasks]]
snapshot = ["apart"]
command = "touch r; until [ -e l ]; do sleep 0.01; done"
"#
    );
    let (id, state, _) = world.done(&plan).await;
    assert_eq!(state, TaskState::Succeeded, "{:#?}", world.task(id).await);
    assert_eq!(world.text("overlap"), None);
}

async fn wide(kind: Kind) {
    let world = World::new(kind).await;
    let count: usize = 10_050;
    let subtask = |number| json!({ "work": { "handler": { "kind": "note", "payload": number } } });
    let subtasks: Vec<Value> = (0..count).map(subtask).collect();
    // More than a plan file may say: a program may.
    let plan = json!({ "name": "wide", "parallel": 20_000, "subtasks": subtasks });
    let id = world.start_plan(serde_json::from_value(plan).unwrap()).await;
    let notes = Notes::default();
    let worker = noting(world.worker().concurrency(500), &notes);
    let (state, _) = world.finish(id, worker).await;
    assert_eq!(state, TaskState::Succeeded);
    let mut times: HashMap<String, u32> = HashMap::new();
    for note in notes.lock().unwrap().iter() {
        *times.entry(note.clone()).or_default() += 1;
    }
    assert_eq!(times.len(), count);
    assert!(times.values().all(|times| *times == 1));
}
