//! One PostgreSQL server of its own: made, stopped, killed, started again, copied to a standby, promoted.
//!
//! It listens on a free port of 127.0.0.1 for [`APP`](crate::APP) with a password, and on a socket in its own folder for its superuser.

use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::keeper::Keeper;
use crate::ordinary_user::OrdinaryUser;
use crate::{APP, programs};

/// The longest that starting and stopping may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// What differs from cluster to cluster.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Whether commits reach the disk. Ordinary tests do not cut the power, and are quicker without.
    pub fsync: bool,
    /// Settings of `postgresql.conf`, by name.
    pub options: Vec<(&'static str, String)>,
}

/// A server that is gone, with its folder, when this is dropped or the process ends.
#[derive(Debug)]
pub struct Cluster {
    home: PathBuf,
    programs: PathBuf,
    user: OrdinaryUser,
    settings: Settings,
    port: u16,
    password: String,
    server: Mutex<Option<Child>>,
    databases: AtomicU32,
    _keeper: Keeper,
}

impl Cluster {
    /// Whether PostgreSQL is installed. Where it is not, that is told loudly; in CI it is a failure.
    pub fn is_possible() -> bool {
        let possible = programs::folder().is_some();
        if !possible {
            assert!(std::env::var("CI").is_err(), "PostgreSQL is missing: install the package postgresql");
            println!("SKIPPED: PostgreSQL is missing; nothing about it was proved on this machine");
        }
        possible
    }

    /// A new cluster for ordinary tests: commits are not synced, and many may connect.
    pub fn start() -> Cluster {
        let options = vec![("max_connections", "300".to_owned())];
        Cluster::start_with(Settings { fsync: false, options })
    }

    /// A new cluster with its own settings, and one database, which [`APP`] owns.
    pub fn start_with(settings: Settings) -> Cluster {
        let cluster = Cluster::prepare(settings, None);
        cluster.run("initdb", |command| {
            command.args(["--no-sync", "--username=postgres", "--encoding=UTF8", "--locale=C.UTF-8"]);
            command.args(["--auth-local=trust", "--auth-host=scram-sha-256"]);
            command.arg("-D").arg(cluster.data());
        });
        let doors = format!(
            "local all postgres trust\nlocal replication postgres trust\nhost all {APP} 127.0.0.1/32 scram-sha-256\n"
        );
        std::fs::write(cluster.data().join("pg_hba.conf"), doors).unwrap();
        cluster.start_again();
        cluster.psql("postgres", &format!("CREATE ROLE {APP} LOGIN PASSWORD '{}'", cluster.password));
        cluster.psql("postgres", &format!("CREATE DATABASE redrive OWNER {APP}"));
        cluster
    }

    /// A standby that follows this cluster by streaming, on a port of its own. Its name for `synchronous_standby_names` is `standby`.
    pub fn standby(&self, settings: Settings) -> Cluster {
        let standby = Cluster::prepare(settings, Some(&self.password));
        self.run("pg_basebackup", |command| {
            let source = format!(
                "host={} port={} user=postgres application_name=standby",
                self.home.display(),
                self.port
            );
            command.args(["--no-sync", "--checkpoint=fast", "--wal-method=stream", "--write-recovery-conf"]);
            command.arg("-d").arg(source).arg("-D").arg(standby.data());
        });
        standby.start_again();
        standby
    }

    fn prepare(settings: Settings, password: Option<&str>) -> Cluster {
        let programs = programs::folder().expect("PostgreSQL is missing: install the package postgresql");
        let user = OrdinaryUser::find();
        let home = tempfile::Builder::new().prefix("redrive-pg-").tempdir().unwrap().keep();
        user.owns(&home);
        let random = || home.file_name().unwrap().to_str().unwrap().replace('-', "_");
        Cluster {
            _keeper: Keeper::of(&home, user),
            programs,
            user,
            settings,
            port: free_port(),
            password: password.map_or_else(random, str::to_owned),
            server: Mutex::new(None),
            databases: AtomicU32::new(0),
            home,
        }
    }

    fn data(&self) -> PathBuf {
        self.home.join("data")
    }

    /// Runs one of PostgreSQL's programs to its end, which must be a good one.
    fn run(&self, program: &str, arrange: impl FnOnce(&mut std::process::Command)) -> String {
        let mut command = self.user.command(&self.programs.join(program));
        arrange(&mut command);
        let output = command.stdin(Stdio::null()).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program}: {}\n{told}", output.status);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs SQL as the superuser, and answers its rows, `|` between columns.
    pub fn psql(&self, database: &str, sql: &str) -> String {
        let answer = self.run("psql", |command| {
            command.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "-v", "ON_ERROR_STOP=1"]);
            command.arg("-h").arg(&self.home).args(["-p", &self.port.to_string(), "-U", "postgres"]);
            command.args(["-d", database, "-c", sql]);
        });
        answer.trim_end().to_owned()
    }

    /// Starts the server, and waits until it answers; a standby answers when it can be read.
    pub fn start_again(&self) {
        let mut server = self.server.lock().unwrap();
        assert!(server.is_none(), "it runs already");
        let log = std::fs::File::options().append(true).create(true).open(self.log()).unwrap();
        let mut command = self.user.command(&self.programs.join("postgres"));
        command.arg("-D").arg(self.data()).arg("-k").arg(&self.home);
        command.args(["-h", "127.0.0.1", "-p", &self.port.to_string()]);
        let on = |on: bool| if on { "on" } else { "off" };
        for (name, value) in [("fsync", on(self.settings.fsync)), ("max_wal_senders", "4")] {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        for (name, value) in &self.settings.options {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        command.process_group(0).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let mut child = command.spawn().unwrap();
        let began = Instant::now();
        while !self.is_ready(child.id()) {
            let ended = child.try_wait().unwrap();
            assert!(ended.is_none(), "the server ended with {}:\n{}", ended.unwrap(), self.told());
            assert!(began.elapsed() < PATIENCE, "the server does not start:\n{}", self.told());
            std::thread::sleep(Duration::from_millis(5));
        }
        *server = Some(child);
    }

    /// The eighth line of the file with its id says how far this server has come.
    fn is_ready(&self, id: u32) -> bool {
        let text = std::fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
        let mut lines = text.lines();
        let same = lines.next() == Some(id.to_string().as_str());
        same && lines.nth(6).is_some_and(|state| matches!(state.trim(), "ready" | "standby"))
    }

    fn log(&self) -> PathBuf {
        self.home.join("log")
    }

    /// What the server has written to its log.
    pub fn told(&self) -> String {
        std::fs::read_to_string(self.log()).unwrap_or_default()
    }

    /// Stops as an administrator would: sessions are ended, everything is written.
    pub fn stop(&self) {
        self.end(Signal::INT);
    }

    /// Stops at once, as after a fault: sessions are dropped where they are, and recovery comes with the next start.
    pub fn stop_immediately(&self) {
        self.end(Signal::QUIT);
    }

    /// Kills the server and all that belongs to it with SIGKILL, as if its machine had died.
    pub fn kill(&self) {
        self.end(Signal::KILL);
    }

    /// Nothing is sent to standbys any more, although the server goes on: what it commits from here on is lost with it.
    pub fn hold_replication(&self) {
        let senders = self.psql("postgres", "SELECT pid FROM pg_stat_replication");
        assert!(!senders.is_empty(), "nobody follows it");
        for sender in senders.lines() {
            kill_process(Pid::from_raw(sender.parse().unwrap()).unwrap(), Signal::STOP).unwrap();
        }
    }

    fn end(&self, signal: Signal) {
        let mut server = self.server.lock().unwrap();
        let mut child = server.take().expect("it does not run");
        kill_process(Pid::from_child(&child), signal).unwrap();
        let began = Instant::now();
        while child.try_wait().unwrap().is_none() {
            assert!(began.elapsed() < PATIENCE, "the server does not stop:\n{}", self.told());
            std::thread::sleep(Duration::from_millis(2));
        }
        // Its sessions notice that they are orphans; until then the folder is in use.
        loop {
            let left = self.sessions();
            if left.is_empty() {
                break;
            }
            assert!(began.elapsed() < PATIENCE, "sessions outlive their server:\n{}", self.told());
            if signal == Signal::KILL {
                for session in left {
                    // It may be gone by itself.
                    let _gone = kill_process(session, Signal::KILL);
                }
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The processes that work in this cluster's folder.
    fn sessions(&self) -> Vec<Pid> {
        let works_here = |entry: std::io::Result<std::fs::DirEntry>| {
            let path = entry.ok()?.path();
            let place = std::fs::read_link(path.join("cwd")).ok()?;
            let id = path.file_name()?.to_str()?.parse().ok()?;
            Pid::from_raw(id).filter(|_| place == self.data())
        };
        std::fs::read_dir("/proc").unwrap().filter_map(works_here).collect()
    }

    /// Makes a standby the primary, and waits until it takes writes.
    pub fn promote(&self) {
        assert_eq!(self.psql("postgres", "SELECT pg_promote(true, 60)"), "t", "{}", self.told());
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The password of [`APP`].
    pub fn password(&self) -> &str {
        &self.password
    }

    /// The folder of its socket.
    pub fn socket_folder(&self) -> &Path {
        &self.home
    }

    /// The database that every cluster has.
    pub fn url(&self) -> String {
        self.url_of("redrive")
    }

    /// The address of a database for [`APP`].
    pub fn url_of(&self, database: &str) -> String {
        format!("postgres://{APP}:{}@127.0.0.1:{}/{database}", self.password, self.port)
    }

    /// A new, empty database that [`APP`] owns; its name.
    pub fn database(&self) -> String {
        let name = format!("db_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.psql("postgres", &format!("CREATE DATABASE {name} OWNER {APP}"));
        name
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // The keeper ends the server; only its parent can take note of its end.
        let server = self.server.get_mut().map(Option::take);
        if let Ok(Some(mut child)) = server {
            let _gone = kill_process(Pid::from_child(&child), Signal::QUIT);
            let _status = child.wait();
        }
    }
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
