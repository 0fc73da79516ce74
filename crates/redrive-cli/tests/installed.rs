//! What the guide says about installing works: the documented lines are run into a folder, and the server runs as an ordinary user with
//! exactly the modes that come of it (issue 8, operations; R-C1: a command that is shown runs). Only root can install for another user:
//! without it nothing of this is proved, and said so.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod repository;
mod serve_home;

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use repository::{read, root};
use serve_home::Serving;

/// A user and a group that nobody on this machine has: numbers need no name.
const USER: u32 = 64_331;
/// The user that the container file names.
const IN_CONTAINER: u32 = 65_532;

/// A folder in the place of `/`.
struct Machine(tempfile::TempDir);

impl Machine {
    /// Nothing where the tests do not run as root.
    fn new() -> Option<Machine> {
        let folder = tempfile::tempdir().unwrap();
        if folder.path().metadata().unwrap().uid() != 0 {
            println!("SKIPPED: only root can install for another user");
            return None;
        }
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let machine = Machine(folder);
        for made in ["usr/local/bin", "etc", "var/lib", "source/target/release"] {
            std::fs::create_dir_all(machine.0.path().join(made)).unwrap();
        }
        let built = machine.0.path().join("source/target/release/redrive");
        std::fs::copy(env!("CARGO_BIN_EXE_redrive"), built).unwrap();
        Some(machine)
    }

    fn path(&self, absolute: &str) -> PathBuf {
        self.0.path().join(absolute.trim_start_matches('/'))
    }

    /// What is meant for `/` is here.
    fn placed(&self, text: &str) -> String {
        let here = self.0.path().display();
        ["/etc/", "/var/lib", "/usr/local/"]
            .iter()
            .fold(text.to_owned(), |text, place| text.replace(place, &format!("{here}{place}")))
    }

    /// A line of the guide, as root: `install` as it stands, with a number for the group and the user that are not on this machine.
    fn install(&self, line: &str) {
        let line = line.strip_prefix("$ sudo ").unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut words: Vec<String> = words
            .iter()
            .map(|word| if *word == "redrive" { USER.to_string() } else { self.placed(word) })
            .collect();
        // What lies in the repository, or what somebody has written beside it.
        for word in &mut words {
            let mine = self.0.path().join("source").join(&*word);
            if mine.is_file() {
                *word = mine.display().to_string();
            }
        }
        let done = Command::new(&words[0]).args(&words[1..]).current_dir(root()).output().unwrap();
        assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
        // Paths inside of what was installed mean this folder, too.
        let target = words.last().unwrap();
        if target.ends_with("redrive.toml") {
            let text = std::fs::read_to_string(target).unwrap();
            std::fs::write(target, self.placed(&text)).unwrap();
        }
    }

    /// What somebody has, to be installed.
    fn bring(&self, name: &str, text: &str) {
        std::fs::write(self.0.path().join("source").join(name), text).unwrap();
    }

    /// Its folder, as systemd or a volume makes it.
    fn state_of(&self, user: u32) -> PathBuf {
        let state = self.path("/var/lib/redrive");
        std::fs::create_dir_all(&state).unwrap();
        std::fs::set_permissions(&state, PermissionsExt::from_mode(0o700)).unwrap();
        chown(&state, Some(user), Some(user)).unwrap();
        state
    }

    fn runs(&self, user: u32, words: &[String], env: &[(String, String)]) -> Command {
        let mut command = Command::new(self.path("/usr/local/bin/redrive"));
        command
            .args(words)
            .args(["--listen", "127.0.0.1:0"])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .envs(env.iter().map(|(name, value)| (name, value)))
            .current_dir(self.path("/var/lib/redrive"))
            .uid(user)
            .gid(user)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    }

    /// What the unit starts, with what it gives.
    fn unit(&self) -> Command {
        let unit = self.placed(&read("deploy/systemd/redrive.service"));
        let value = |key: &str| unit.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        let words: Vec<String> = value("ExecStart").unwrap().split(' ').skip(1).map(str::to_owned).collect();
        assert_eq!(value("WorkingDirectory"), Some(self.state_of(USER).to_str().unwrap()));
        let env = unit.lines().filter_map(|line| line.strip_prefix("Environment=")?.split_once('='));
        let env: Vec<(String, String)> =
            env.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        assert!(!env.is_empty());
        self.runs(USER, &words, &env)
    }
}

/// The lines of the guide that install.
fn installing() -> Vec<String> {
    let guide = read("docs/server.md");
    let lines = guide.lines().filter(|line| line.starts_with("$ sudo install "));
    lines.map(|line| line.split(" #").next().unwrap().to_owned()).collect()
}

fn mode(path: &Path) -> (u32, u32, u32) {
    let found = path.metadata().unwrap();
    (found.uid(), found.gid(), found.mode() & 0o7777)
}

/// Issue 8, operations: whoever installs as the guide says has a service that reads its configuration, and keeps its work where that says.
#[test]
fn the_service_runs_as_it_was_installed() {
    let Some(machine) = Machine::new() else { return };
    let lines = installing();
    let (secrets, plain): (Vec<&String>, Vec<&String>) = lines
        .iter()
        .partition(|line| ["key.pem", "keys ", "redrive.env"].iter().any(|name| line.contains(name)));
    assert_eq!((plain.len(), secrets.len()), (4, 3), "{lines:?}");
    for line in plain {
        machine.install(line);
    }
    let config = machine.path("/etc/redrive/redrive.toml");
    assert_eq!(mode(&config), (0, USER, 0o640), "root's, and readable by the service alone");
    assert!(machine.path("/etc/sysusers.d/redrive.conf").is_file());
    let store = format!("from sqlite:{}/redrive.db;", machine.path("/var/lib/redrive").display());
    let serving = Serving::started(machine.unit());
    serving.says(&store);
    drop(serving);

    // A store of its own, a certificate, and the keys of an encrypted store.
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"])
        .args(["-keyout", "key.pem", "-out", "cert.pem"])
        .current_dir(machine.0.path().join("source"))
        .output();
    if !made.is_ok_and(|made| made.status.success()) {
        println!("SKIPPED: openssl is missing; no certificate was installed");
        return;
    }
    let keygen =
        Command::new(env!("CARGO_BIN_EXE_redrive")).args(["store", "keygen", "--id", "one"]).output();
    machine.bring("keys", &String::from_utf8(keygen.unwrap().stdout).unwrap());
    machine.bring("redrive.env", "CRM_SECRET=x\n");
    for line in secrets {
        machine.install(line);
    }
    machine.install("$ sudo install -m 644 cert.pem /etc/redrive/cert.pem");
    assert_eq!(mode(&machine.path("/etc/redrive/redrive.env")), (0, 0, 0o600));
    let written = "store = \"sqlite:/var/lib/redrive/of-the-file.db\"\nkey_file = \"/etc/redrive/keys\"\n\
                   [server.tls]\ncert = \"/etc/redrive/cert.pem\"\nkey = \"/etc/redrive/key.pem\"\n";
    std::fs::write(&config, machine.placed(written)).unwrap();
    let serving = Serving::started(machine.unit());
    serving.says("https://");
    serving.says("of-the-file.db;");
    serving.says("TLS, ");
    assert!(!serving.said().contains("warn"), "{}", serving.said());
}

/// Issue 8, operations: the unit's user is one that systemd can make.
#[test]
fn the_user_of_the_unit_can_be_made() {
    let Some(machine) = Machine::new() else { return };
    let file = root().join("deploy/systemd/redrive.sysusers");
    let made = Command::new("systemd-sysusers").arg("--root").arg(machine.0.path()).arg(&file).output();
    let Ok(made) = made else {
        println!("SKIPPED: systemd-sysusers is missing");
        return;
    };
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let users = std::fs::read_to_string(machine.path("/etc/passwd")).unwrap();
    let line = users.lines().find(|line| line.starts_with("redrive:")).unwrap();
    assert!(line.contains(":/var/lib/redrive:") && line.ends_with("nologin"), "{line}");
    assert!(std::fs::read_to_string(machine.path("/etc/group")).unwrap().contains("redrive:"));
}

/// Issue 8, operations: in the container the store is on the volume, unless the configuration in its folder names another.
#[test]
fn the_container_keeps_its_work_where_the_configuration_says() {
    let Some(machine) = Machine::new() else { return };
    machine.install("$ sudo install -m 755 target/release/redrive /usr/local/bin/");
    let state = machine.state_of(IN_CONTAINER);
    let file = machine.placed(&read("deploy/container/Containerfile"));
    let env = file.lines().find_map(|line| line.strip_prefix("ENV ")).unwrap();
    let env: Vec<(String, String)> = env
        .split(' ')
        .map(|pair| pair.split_once('=').unwrap())
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    assert!(file.contains(&format!("USER {IN_CONTAINER}:{IN_CONTAINER}")));
    let serve = ["serve".to_owned()];
    let serving = Serving::started(machine.runs(IN_CONTAINER, &serve, &env));
    serving.says(&format!("from sqlite:{}/redrive.db;", state.display()));
    drop(serving);
    // Mounted by its owner, and readable for all.
    let named = format!("store = \"sqlite:{}/of-the-file.db\"\n", state.display());
    std::fs::write(state.join("redrive.toml"), named).unwrap();
    let serving = Serving::started(machine.runs(IN_CONTAINER, &serve, &env));
    serving.says("of-the-file.db;");
    drop(serving);
    // Whoever names another one all the same is told.
    let mut command = machine.runs(IN_CONTAINER, &serve, &env);
    command.env("REDRIVE_STORE", format!("sqlite:{}/of-the-variable.db", state.display()));
    let serving = Serving::started(command);
    serving.says("of-the-variable.db;");
    serving.says("REDRIVE_STORE names the store; the one that ");
}
