//! A process that fires is killed again and again, at any moment.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use redrive::engine::{Engine, Missed, NewSchedule};
use redrive_store::Timestamp;

use crate::world::{report, run, ticks};

const FOLDER: &str = "REDRIVE_TEST_SCHEDULES";
const KILLS: u64 = 25;

/// Not a test of its own: what a child does.
#[test]
fn child() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let engine = Engine::open(std::path::Path::new(&folder).join("redrive.db")).unwrap();
        let lasts = Duration::from_mins(5);
        let worker = engine.store().register(engine.now(), "child".to_owned(), lasts).await.unwrap();
        for _ in 0..10_000 {
            engine.maintain(worker).await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}

struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // SIGKILL, also when the test fails.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(folder: &std::path::Path) -> Process {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "killed::child", "--test-threads=1", "--quiet"])
        .env(FOLDER, folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    Process(command.spawn().unwrap())
}

/// Schedules: whoever fires is killed in the middle, and no tick is lost or doubled.
#[test]
fn a_killed_process_loses_and_doubles_no_tick() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let engine = Engine::open(folder.path().join("redrive.db")).unwrap();
        engine.add_schedule(NewSchedule { missed: Missed::All, ..report("* * * * * *") }).await.unwrap();
        for round in 0..KILLS {
            let child = start(folder.path());
            tokio::time::sleep(Duration::from_millis(150 + round * 37 % 400)).await;
            drop(child);
        }
        let lasts = Duration::from_mins(5);
        let worker = engine.store().register(engine.now(), "parent".to_owned(), lasts).await.unwrap();
        engine.maintain(worker).await.unwrap();
        let schedule = engine.schedule("report").await.unwrap().unwrap();
        let fired = ticks(&engine).await;
        assert!(fired.values().all(|jobs| *jobs == 1), "{fired:?}");
        assert_eq!(fired.len() as u64, schedule.fired);
        let seconds: Vec<i64> = fired
            .keys()
            .map(|id| id.trim_start_matches("report@").parse::<Timestamp>().unwrap().millis() / 1_000)
            .collect();
        assert!(seconds.len() >= 5, "{seconds:?}");
        assert!(seconds.windows(2).all(|pair| pair[1] == pair[0] + 1), "{seconds:?}");
        assert!(engine.store().check().await.unwrap().is_clean());
    });
}
