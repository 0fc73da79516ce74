//! A pgbouncer in transaction mode in front of a server: what is said in one transaction reaches one session, and the next transaction
//! may meet another.

use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use std::os::unix::process::CommandExt;

use crate::cluster::free_port;
use crate::keeper::Keeper;
use crate::ordinary_user::OrdinaryUser;
use crate::{APP, programs};

/// A pooler that is gone when this is dropped or the process ends.
#[derive(Debug)]
pub struct Pgbouncer {
    url: String,
    home: PathBuf,
    child: Child,
    _keeper: Keeper,
}

impl Pgbouncer {
    /// Whether pgbouncer is installed. Where it is not, that is told loudly; in CI it is a failure.
    pub fn is_possible() -> bool {
        let possible = programs::find("pgbouncer").is_some();
        if !possible {
            assert!(std::env::var("CI").is_err(), "pgbouncer is missing: install the package pgbouncer");
            println!("SKIPPED: pgbouncer is missing; nothing about it was proved on this machine");
        }
        possible
    }

    /// In front of the database at `url` (as [`Cluster::url`](crate::Cluster::url) gives it), with so many sessions for everybody.
    pub fn start(url: &str, sessions: u32) -> Pgbouncer {
        let program =
            programs::find("pgbouncer").expect("pgbouncer is missing: install the package pgbouncer");
        let user = OrdinaryUser::find();
        let home = tempfile::Builder::new().prefix("redrive-pool-").tempdir().unwrap().keep();
        user.owns(&home);
        let keeper = Keeper::of(&home, user);
        let rest = url.strip_prefix(&format!("postgres://{APP}:")).expect("an address of a cluster");
        let (password, place) = rest.split_once('@').expect("a password");
        let (address, database) = place.split_once('/').expect("a database");
        let (host, server_port) = address.split_once(':').expect("a port");
        let port = free_port();
        let users = home.join("users");
        let file = format!(
            "[databases]\n{database} = host={host} port={server_port} dbname={database}\n[pgbouncer]\n\
             listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = scram-sha-256\nauth_file = {}\n\
             pool_mode = transaction\ndefault_pool_size = {sessions}\nmax_client_conn = 500\nlogfile = {}\npidfile = {}\n",
            users.display(),
            home.join("log").display(),
            home.join("pgbouncer.pid").display(),
        );
        let settings = home.join("pgbouncer.ini");
        std::fs::write(&users, format!("\"{APP}\" \"{password}\"\n")).unwrap();
        std::fs::write(&settings, file).unwrap();
        for path in [&users, &settings] {
            user.owns(path);
        }
        let mut command = user.command(&program);
        // The keeper knows its own by where they work.
        command.current_dir(&home).arg("--quiet").arg(&settings).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        let url = format!("postgres://{APP}:{password}@127.0.0.1:{port}/{database}");
        let mut pooler = Pgbouncer { url, home, child, _keeper: keeper };
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = pooler.child.try_wait().unwrap();
            let waits = ended.is_none() && began.elapsed() < Duration::from_secs(30);
            assert!(waits, "pgbouncer does not start ({ended:?}):\n{}", pooler.told());
            std::thread::sleep(Duration::from_millis(5));
        }
        pooler
    }

    /// The same database, by way of the pooler.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What it has written to its log.
    pub fn told(&self) -> String {
        std::fs::read_to_string(self.home.join("log")).unwrap_or_default()
    }
}

impl Drop for Pgbouncer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _gone = self.child.kill();
        let _status = self.child.wait();
    }
}
