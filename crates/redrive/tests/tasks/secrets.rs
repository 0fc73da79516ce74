//! What nobody may read who may not: nothing of an encrypted store, and no secret in what is told (R-D7, I8).

use std::fs;
use std::sync::Arc;

use redrive_store::{KeyRing, LetterFilter, Sqlite, SqliteOptions, TaskState};

use crate::support::{Kind, World, on_both, run};

const SECRET: &str = "hunter2canary";

on_both! {
    /// R-D7, I8: a secret that a command prints stands in nothing that is told of its rejection.
    a_rejected_output_tells_no_secret = rejected;
    /// R-D7, I8: a secret in what a step dies of is not passed on to what it blames.
    a_blaming_step_tells_no_secret = blaming;
}

/// All that there is to read about a task, payloads apart.
async fn told(world: &World, id: redrive_store::TaskId) -> String {
    let task = world.task(id).await;
    let letters = world.store.letters(LetterFilter::default(), 100).await.unwrap();
    let letters = letters.iter().map(|letter| serde_json::to_string(letter).unwrap()).collect::<String>();
    let events = serde_json::to_string(&world.events(id).await).unwrap();
    format!("{:?} {:?} {} {letters} {events}", task.why, task.report, task.progress)
}

async fn rejected(kind: Kind) {
    let world = World::new(kind).await;
    // The argument keeps the secret out of the payload's sight: the command finds it in a file.
    world.write("secret", SECRET);
    let plan = r#"
[[subtasks]]
id = "write"
review = true
overrides = { max_retries = 1 }
command = "printf '%s' \"$REDRIVE_HINT\" >> hints; echo \"password=$(cat secret)\"; echo \"// TODO: password=$(cat secret) here\"; echo '// ... rest of the code'"
"#;
    let (id, state, _) = world.done(plan).await;
    assert_eq!(state, TaskState::Escalated);
    let hints = world.text("hints").unwrap();
    assert!(hints.contains("TODO") || hints.contains("rest of the code"), "{hints}");
    let told = told(&world, id).await;
    assert!(told.contains("TODO") || told.contains("rest of the code"), "{told}");
    assert!(!told.contains(SECRET), "{told}");
    assert!(!hints.contains(SECRET), "{hints}");
}

async fn blaming(kind: Kind) {
    let world = World::new(kind).await;
    world.write("secret", SECRET);
    let plan = r#"
[[subtasks]]
id = "write"
command = "printf '%s' \"$REDRIVE_HINT\" > hint"
[[subtasks]]
id = "test"
depends_on = "write"
blames = "write"
overrides = { max_retries = 0 }
command = "echo \"login failed: password=$(cat secret)\" >&2; exit 1"
"#;
    let (id, state, _) = world.done(plan).await;
    assert_eq!(state, TaskState::Escalated);
    let hint = world.text("hint").unwrap();
    assert!(hint.contains("login failed"), "{hint}");
    assert!(!hint.contains(SECRET), "{hint}");
    let told = told(&world, id).await;
    assert!(told.contains("login failed") && !told.contains(SECRET), "{told}");
}

/// R-D7: with a key, nothing of a plan can be read in the store's files: not its commands, not their input, not what they
/// are told.
#[test]
fn an_encrypted_store_keeps_a_plan_to_itself() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("redrive.db");
        let keys = KeyRing::parse("a test", &KeyRing::generate("k1").unwrap()).unwrap();
        let options = SqliteOptions { keys: Some(keys), ..SqliteOptions::default() };
        let store = Arc::new(Sqlite::open(&path, options).unwrap());
        let world = World::of(store, folder, |builder| builder);
        let plan = format!(
            r#"
name = "an open name"
[[subtasks]]
id = "write"
command = ["sh", "-c", "cat > got; echo {SECRET} > arg; [ $REDRIVE_ATTEMPT = 2 ] || exit 75"]
stdin = "in {SECRET}"
env = {{ TOLD = "env-{SECRET}" }}
[[subtasks]]
depends_on = "write"
overrides = {{ max_retries = 0 }}
command = "echo {SECRET} fell over >&2; exit 1"
"#
        );
        let (_, state, _) = world.done(&plan).await;
        assert_eq!(state, TaskState::Partial);
        assert_eq!(world.text("got"), Some(format!("in {SECRET}")));
        let mut read = 0;
        for entry in fs::read_dir(world.folder.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                let bytes = fs::read(&path).unwrap();
                read += bytes.len();
                let found = bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes());
                assert!(!found, "{}", path.display());
            }
        }
        assert!(read > 10_000, "nothing was looked at");
    });
}
