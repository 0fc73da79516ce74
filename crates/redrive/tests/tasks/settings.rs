//! The `recovery` section of 002 §7.1, key by key (R-P7).

use std::fs;
use std::time::Duration;

use redrive::snapshot::Snapshots;
use redrive_policy::{Config, Format};
use redrive_store::{SubtaskState, TaskState};

use crate::support::{Kind, World, on_both};

on_both! {
    /// R-P7, 002 §7.1: with `enable_snapshots = false` none is taken, and the work is done all the same.
    no_snapshots = none_is_taken;
    /// R-P7, 002 §7.1: `snapshot_retention_hours` says how long a snapshot is kept.
    snapshots_last_as_long_as_it_says = kept_for_hours;
    /// R-P7, 002 §7.1: `partial_commit_enabled` says whether a part of the results may be kept.
    parts_are_kept_or_not = a_part;
}

const FAILS_ONCE: &str = r#"
[[subtasks]]
snapshot = "src"
command = "echo x >> src/file; [ $REDRIVE_ATTEMPT = 2 ] || exit 75"
"#;

const HALF: &str = r#"
parallel = 1
[[subtasks]]
id = "good"
command = "true"
[[subtasks]]
id = "bad"
depends_on = "good"
command = "exit 77"
overrides = { max_retries = 0 }
[[subtasks]]
id = "after"
depends_on = "bad"
command = "true"
"#;

async fn configured(kind: Kind, config: &str) -> World {
    let config = Config::parse(config, Format::Toml, "redrive.toml").unwrap();
    let world = World::with(kind, |builder| builder.config(&config)).await;
    world.write("src/file", "");
    world
}

async fn none_is_taken(kind: Kind) {
    for (enabled, lines) in [(true, "x\n"), (false, "x\nx\n")] {
        let world = configured(kind, &format!("[recovery]\nenable_snapshots = {enabled}\n")).await;
        let (id, state, _) = world.done(FAILS_ONCE).await;
        assert_eq!(state, TaskState::Succeeded, "{:#?}", world.task(id).await);
        assert_eq!(world.text("src/file").as_deref(), Some(lines));
        assert_eq!(world.folder.path().join("snapshots").exists(), enabled);
        let missing = world.events(id).await.iter().any(|event| event.event_type == "snapshot_missing");
        assert!(!missing, "what was turned off is not missing");
    }
}

async fn kept_for_hours(kind: Kind) {
    for hours in [1_u64, 72] {
        let world = configured(kind, &format!("[recovery]\nsnapshot_retention_hours = {hours}\n")).await;
        let (id, state, _) = world.done(FAILS_ONCE).await;
        assert_eq!(state, TaskState::Succeeded);
        let snapshots = Snapshots::open(world.folder.path().join("snapshots")).unwrap();
        let listed = snapshots.list().unwrap().snapshots;
        assert_eq!(listed.len(), 1);
        let snapshot = &listed[0];
        assert_eq!(snapshot.task_id.as_deref(), Some(&*id.to_string()));
        let kept = u64::try_from(snapshot.expires_at_ms - snapshot.created_at_ms).unwrap();
        assert_eq!(Duration::from_millis(kept), Duration::from_hours(hours));
    }
}

async fn a_part(kind: Kind) {
    use SubtaskState::{Failed, Skipped, Succeeded};
    for (enabled, ends) in [(true, TaskState::Partial), (false, TaskState::Escalated)] {
        let world = configured(kind, &format!("[recovery]\npartial_commit_enabled = {enabled}\n")).await;
        let (id, state, _) = world.done(HALF).await;
        assert_eq!(state, ends);
        assert_eq!(world.states(id).await, [Succeeded, Failed, Skipped]);
        let task = world.task(id).await;
        assert_eq!(task.report.unwrap()["subtask_id"], "bad");
        fs::remove_dir_all(world.base()).unwrap();
        world.is_sound().await;
    }
}
