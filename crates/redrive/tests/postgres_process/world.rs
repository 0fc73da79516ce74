//! One database, one folder of journals, and the processes that work on them. Everything ends with the test, whatever happens.

use std::future::Future;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use redrive_store::Store;

use crate::child::{JOURNAL, LEASE_MS, SCHEMA, TASK, URL};
use crate::history::{History, Told};

/// The longest that anything is waited for.
pub(crate) const MOST: Duration = Duration::from_mins(1);
/// Short, so that what a dead worker had is taken over soon; long enough for a busy machine to renew in time.
pub(crate) const LEASE: Duration = Duration::from_millis(1_500);

pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.0.id().to_string()]).stderr(Stdio::null()).status();
        assert!(sent.is_ok(), "kill could not be run");
    }

    pub(crate) fn end(&mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            assert!(began.elapsed() < MOST, "a child hangs");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    pub(crate) fn kill(mut self) {
        self.signal("-KILL");
        self.end();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            self.signal("-KILL");
            let _status = self.0.wait();
        }
    }
}

pub(crate) struct World {
    pub(crate) url: String,
    pub(crate) schema: String,
    folder: tempfile::TempDir,
    started: std::cell::Cell<u32>,
}

impl World {
    pub(crate) fn new(url: &str, schema: &str) -> World {
        let folder = tempfile::tempdir().unwrap();
        World { url: url.to_owned(), schema: schema.to_owned(), folder, started: 0.into() }
    }

    pub(crate) async fn open(&self) -> Arc<dyn Store> {
        crate::child::open(&self.url, &self.schema).await
    }

    /// A child with a task, and a journal of its own.
    pub(crate) fn command(&self, task: &str) -> Command {
        let number = self.started.replace(self.started.get() + 1);
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "child::does_what_it_is_told", "--nocapture", "--test-threads=1", "--quiet"])
            .env(TASK, task)
            .env(URL, &self.url)
            .env(SCHEMA, &self.schema)
            .env(JOURNAL, self.folder.path().join(format!("journal-{number:04}")))
            .env(LEASE_MS, LEASE.as_millis().to_string())
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        command
    }

    pub(crate) fn start(&self, task: &str) -> Process {
        Process(self.command(task).spawn().unwrap())
    }

    pub(crate) fn spawn(command: &mut Command) -> Process {
        Process(command.spawn().unwrap())
    }

    fn journals(&self) -> Vec<String> {
        let files = std::fs::read_dir(self.folder.path()).unwrap();
        files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect()
    }

    /// How often a line that begins so was noted, by everybody.
    pub(crate) fn noted(&self, start: &str) -> usize {
        self.journals()
            .iter()
            .flat_map(|journal| journal.lines())
            .filter(|line| line.starts_with(start))
            .count()
    }

    pub(crate) fn told(&self) -> Told {
        Told::read(self.journals())
    }

    /// Waits until nothing is left to do, and everybody is gone whom one asks to go.
    pub(crate) async fn finish(&self, store: &dyn Store, workers: &mut [Process]) -> History {
        until("everything is done", async || {
            let broke = self.told().broke;
            assert!(broke.is_empty(), "workers ended: {broke:?}");
            matches!(store.unfinished(Vec::new(), Vec::new()).await, Ok(false))
        })
        .await;
        leave(workers);
        let report = store.check().await.unwrap();
        assert!(report.is_clean(), "{:#?}", report.violations);
        let history = History::read(store).await;
        history.must_be_sound();
        history
    }
}

/// Everybody leaves in good order.
pub(crate) fn leave(processes: &mut [Process]) {
    for process in &*processes {
        process.signal("-TERM");
    }
    for process in processes {
        let status = process.end();
        assert!(status.success(), "{status:?}");
    }
}

pub(crate) fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(MOST * 3, test).await }).expect("the test hangs")
}

pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !holds().await {
        assert!(began.elapsed() < MOST, "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
