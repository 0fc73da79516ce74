//! Files that are put back, and files that cannot be (R-T3, R-P14).

use std::fs;
use std::path::{Path, PathBuf};

use redrive::engine::{Driver, TaskNews};
use redrive_store::{TaskId, TaskState};
use tokio::sync::Notify;

use crate::support::{Kind, World, drive, on_both, worker};

on_both! {
    /// R-T2, R-T3, reliability 1: whoever undoes may be replaced after every turn, and the end is the same.
    undone_by_many = undone_turn_by_turn;
    /// R-P14: what a damaged snapshot cannot put back is told to a person, and nothing is touched.
    damaged_under_a_rollback = damaged_snapshot;
    /// R-P14: a failed attempt whose files cannot be put back is not tried again: a person is told what is wrong.
    damaged_under_an_attempt = damaged_meanwhile;
    /// R-P14: a snapshot that cannot be made is told, and the work goes on.
    a_snapshot_that_cannot_be_made = too_much;
    /// R-T2: `on_escalate = "rollback"` leaves the files as they were before the task.
    all_or_nothing = rolled_back;
}

/// Everything below a folder, but what redrive put aside.
fn tree(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_string_lossy().starts_with(".redrive") {
            continue;
        }
        if path.is_dir() {
            found.extend(tree(&path));
        } else {
            found.push((path.clone(), fs::read_to_string(&path).unwrap()));
        }
    }
    found.sort();
    found
}

/// Every file of the snapshots' folder whose path has this in it.
fn kept(folder: &Path, part: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(kept(&path, part));
        } else if path.to_string_lossy().contains(part) {
            found.push(path);
        }
    }
    found
}

/// One byte of every kept content is another one.
fn damage(world: &World) {
    let objects = kept(&world.folder.path().join("snapshots"), "objects");
    assert!(!objects.is_empty(), "nothing is kept");
    for path in objects {
        let mut bytes = fs::read(&path).unwrap();
        if let Some(last) = bytes.last_mut() {
            *last ^= 1;
        }
        let mut permissions = fs::metadata(&path).unwrap().permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o644);
        fs::set_permissions(&path, permissions).unwrap();
        fs::write(&path, bytes).unwrap();
    }
}

/// Four steps on the same files; the last one blames the first, until it is told so.
const CHAIN: &str = r#"
[[subtasks]]
id = "a"
snapshot = "src"
command = "printf '%s' \"$REDRIVE_HINT\" > told; echo a >> src/log; echo a > src/a"
[[subtasks]]
id = "b"
depends_on = "a"
snapshot = "src"
command = "echo b >> src/log; rm src/old"
[[subtasks]]
id = "c"
depends_on = "b"
snapshot = "src"
command = "echo c >> src/log; mkdir src/new; echo c > src/new/c; echo c >> runs"
[[subtasks]]
id = "d"
depends_on = "c"
blames = "a"
overrides = { max_retries = 0 }
snapshot = "src"
command = "echo d >> src/log; [ -s told ] || { echo broken > src/a; exit 1; }"
"#;

async fn undone_turn_by_turn(kind: Kind) {
    let world = World::new(kind).await;
    world.write("src/log", "");
    world.write("src/old", "old\n");
    let id = world.start(CHAIN).await;
    let registered = worker(&world.engine).register().await.unwrap();
    let holder = registered.id();
    let shutdown = redrive::engine::Shutdown::new();
    let driving = async {
        let (mut news, mut turns) = (Vec::new(), 0);
        let state = loop {
            // Each turn is somebody else's, who knows nothing but what is stored.
            let mut driver: Driver = world.engine.task_driver(id, holder.0, Some(holder));
            let turn = driver.turn().await.unwrap();
            news.extend(turn.news);
            turns += 1;
            let Some(again_in) = turn.again_in else { break turn.state };
            tokio::time::sleep(again_in.min(std::time::Duration::from_millis(20))).await;
        };
        shutdown.signal();
        (state, news, turns)
    };
    let (worked, (state, news, turns)) = tokio::join!(registered.run(&shutdown), driving);
    worked.unwrap();
    assert_eq!(state, TaskState::Succeeded, "{:#?}", world.task(id).await);
    assert!(turns > 8, "{turns}");
    let restored = |one: &TaskNews| match one {
        TaskNews::Restored { subtask, .. } => Some(subtask.clone()),
        _ => None,
    };
    // `d` failed, and put its files back itself.
    assert_eq!(news.iter().filter_map(restored).collect::<Vec<_>>(), ["c", "b", "a"]);
    let src = world.base().join("src");
    let expected = [("a", "a\n"), ("log", "a\nb\nc\nd\n"), ("new/c", "c\n")];
    assert_eq!(tree(&src), expected.map(|(name, text)| (src.join(name), text.to_owned())));
    assert_eq!(world.text("runs").as_deref(), Some("c\nc\n"));
    world.is_sound().await;
}

/// What a person is told about files that are not what they were.
async fn told(world: &World, id: TaskId) -> String {
    let task = world.task(id).await;
    let report = task.report.expect("a person is told");
    assert_eq!(report["task_id"], id.to_string());
    format!("{} {}", task.why.unwrap_or_default(), report)
}

async fn damaged_snapshot(kind: Kind) {
    let world = World::new(kind).await;
    world.write("src/a", "before\n");
    let plan = r#"
[[subtasks]]
id = "write"
snapshot = "src"
command = "echo after > src/a; echo new > src/b"
[[subtasks]]
id = "test"
depends_on = "write"
blames = "write"
overrides = { max_retries = 0 }
command = "touch testing; until [ -e go ]; do sleep 0.01; done; exit 1"
"#;
    let id = world.start(plan).await;
    let meanwhile = async {
        crate::support::until("the test runs", async || world.text("testing").is_some()).await;
        damage(&world);
        world.write("go", "");
    };
    let ((state, news), ()) = tokio::join!(world.finish(id, world.worker()), meanwhile);
    assert_eq!(state, TaskState::Escalated);
    let not_restored =
        |one: &TaskNews| matches!(one, TaskNews::NotRestored { subtask, .. } if subtask == "write");
    assert!(news.iter().any(not_restored), "{news:?}");
    let src = world.base().join("src");
    let expected = [("a", "after\n"), ("b", "new\n")];
    assert_eq!(tree(&src), expected.map(|(name, text)| (src.join(name), text.to_owned())));
    let told = told(&world, id).await;
    assert!(told.contains("could not be put back") && told.contains("write"), "{told}");
    assert!(told.contains("damaged") || told.contains("changed"), "{told}");
    world.is_sound().await;
}

async fn damaged_meanwhile(kind: Kind) {
    let world = World::new(kind).await;
    world.write("src/a", "before\n");
    let plan = r#"
[[subtasks]]
id = "write"
snapshot = "src"
command = "echo x >> tries; echo after > src/a; until [ -e go ]; do sleep 0.01; done; exit 75"
"#;
    let id = world.start(plan).await;
    let meanwhile = async {
        crate::support::until("it runs", async || world.text("tries").is_some()).await;
        damage(&world);
        world.write("go", "");
    };
    let ((state, _), ()) = tokio::join!(world.finish(id, world.worker()), meanwhile);
    assert_eq!(state, TaskState::Escalated);
    assert_eq!(world.text("tries").as_deref(), Some("x\n"));
    assert_eq!(world.text("src/a").as_deref(), Some("after\n"));
    let told = told(&world, id).await;
    assert!(told.contains("could not be put back"), "{told}");
}

async fn too_much(kind: Kind) {
    let world = World::new(kind).await;
    world.write("src/a", "more than four bytes\n");
    let plan = r#"
[[subtasks]]
snapshot = { roots = ["src"], max_size = 4 }
command = "echo after > src/a"
"#;
    let (id, state, _) = world.done(plan).await;
    assert_eq!(state, TaskState::Succeeded);
    assert_eq!(world.text("src/a").as_deref(), Some("after\n"));
    let events = world.events(id).await;
    let missing: Vec<_> = events.iter().filter(|event| event.event_type == "snapshot_missing").collect();
    assert_eq!(missing.len(), 1, "{events:#?}");
    assert!(missing[0].data["why"].as_str().is_some_and(|why| !why.is_empty()), "{missing:#?}");
    assert_eq!(missing[0].job, Some(world.job(id, 0).await));
}

async fn rolled_back(kind: Kind) {
    let world = World::new(kind).await;
    world.write("src/a", "before\n");
    world.write("other/x", "before\n");
    let before = (tree(&world.base().join("src")), tree(&world.base().join("other")));
    let plan = r#"
[recovery]
on_escalate = "rollback"
strategy = "ESCALATE"
[[subtasks]]
id = "one"
snapshot = "src"
command = "echo one > src/a; mkdir src/d; echo one > src/d/e"
[[subtasks]]
id = "two"
depends_on = "one"
snapshot = ["src", "other"]
command = "rm other/x; echo two >> src/a"
[[subtasks]]
id = "three"
depends_on = "two"
overrides = { max_retries = 0 }
snapshot = ["other"]
command = "echo three > other/y; exit 77"
"#;
    let id = world.start(plan).await;
    let registered = worker(&world.engine).register().await.unwrap();
    let mut driver = world.engine.task_driver(id, registered.id().0, Some(registered.id()));
    let shutdown = redrive::engine::Shutdown::new();
    let driving = async {
        let ended = drive(&mut driver, &Notify::new()).await;
        shutdown.signal();
        ended
    };
    let (worked, (state, _)) = tokio::join!(registered.run(&shutdown), driving);
    worked.unwrap();
    assert_eq!(state, TaskState::Escalated);
    assert_eq!((tree(&world.base().join("src")), tree(&world.base().join("other"))), before);
    world.is_sound().await;
}
