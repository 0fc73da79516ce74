//! Nothing outlives its test. A keeper is a shell that holds one end of a pipe; when the other end closes, because its owner
//! dropped it or because the whole process was killed, it ends what it keeps and deletes the folder.

use std::path::Path;
use std::process::{Child, Stdio};

use std::os::unix::process::CommandExt;

use crate::ordinary_user::OrdinaryUser;

/// `$1` is the folder. Whoever has written its id into a `*.pid` there is ended, if it still works in that folder: the id of somebody
/// long gone may belong to a stranger by now.
const SCRIPT: &str = r#"
trap '' INT TERM HUP
cat >/dev/null
for file in "$1"/*/postmaster.pid "$1"/*.pid; do
    [ -f "$file" ] || continue
    read -r pid <"$file"
    case "$(readlink "/proc/$pid/cwd")" in "$1"*) ;; *) continue ;; esac
    kill -QUIT "$pid" 2>/dev/null
    tries=0
    while kill -0 "$pid" 2>/dev/null; do
        tries=$((tries + 1))
        [ "$tries" -eq 100 ] && kill -KILL "$pid" 2>/dev/null
        [ "$tries" -gt 150 ] && break
        sleep 0.05
    done
done
rm -rf "$1"
"#;

/// Keeps one folder and the processes that work in it.
#[derive(Debug)]
pub(crate) struct Keeper(Child);

impl Keeper {
    pub(crate) fn of(folder: &Path, user: OrdinaryUser) -> Keeper {
        let mut command = user.command(Path::new("/bin/sh"));
        command.args(["-c", SCRIPT, "keeper"]).arg(folder).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Keeper(command.spawn().expect("a keeper could not be started"))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // It ends by itself within seconds; there is nothing to do about one that does not.
        let _status = self.0.wait();
    }
}
