//! PostgreSQL refuses to run as root, so its programs run as somebody else when the tests are root's.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Whom the programs run as: `None` is whoever runs the tests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OrdinaryUser(Option<(u32, u32)>);

impl OrdinaryUser {
    /// `postgres` where its package is installed, else `nobody`.
    pub(crate) fn find() -> OrdinaryUser {
        if !rustix::process::geteuid().is_root() {
            return OrdinaryUser(None);
        }
        let users = std::fs::read_to_string("/etc/passwd").expect("/etc/passwd cannot be read");
        let ids = |name: &str| {
            let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
            let mut fields = line.split(':').skip(2);
            Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
        };
        let found = ids("postgres").or_else(|| ids("nobody"));
        OrdinaryUser(Some(found.expect("neither postgres nor nobody is a user here")))
    }

    pub(crate) fn command(self, program: &Path) -> Command {
        let mut command = Command::new(program);
        if let Some((user, group)) = self.0 {
            command.uid(user).gid(group);
        }
        // Where it was started may be closed to that user, and messages are read by tests.
        command.current_dir("/").env("LC_ALL", "C.UTF-8");
        for variable in ["PGHOST", "PGPORT", "PGUSER", "PGDATABASE", "PGPASSWORD", "PGDATA", "PGOPTIONS"] {
            command.env_remove(variable);
        }
        command
    }

    /// Gives a folder or a file to that user.
    pub(crate) fn owns(self, path: &Path) {
        if let Some((user, group)) = self.0 {
            std::os::unix::fs::chown(path, Some(user), Some(group)).unwrap();
        }
    }
}
