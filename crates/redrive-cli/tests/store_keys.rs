//! Keys on the command line (R-D7): making one, encrypting a store, rotating, and every way in which a key can be missing
//! or wrong, in both languages.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use support::{Line, Ran, line};

/// A folder with a store and files of keys.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Home {
        Home(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn line(&self, words: &str) -> Line {
        line(words).in_directory(self.0.path()).env("REDRIVE_STORE", "sqlite:store.db")
    }

    fn run(&self, words: &str) -> Ran {
        self.line(words).run()
    }

    fn write(&self, name: &str, text: &str, mode: u32) {
        std::fs::write(self.path(name), text).unwrap();
        std::fs::set_permissions(self.path(name), std::fs::Permissions::from_mode(mode)).unwrap();
    }

    /// A fresh key as a line.
    fn key(&self, id: &str) -> String {
        let ran = self.run(&format!("store keygen --id {id}"));
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran}");
        ran.stdout
    }

    fn enqueue(&self, keys: &str) -> Ran {
        self.run(&format!("enqueue --kind mail --payload {{\"to\":\"canary\"}} --key-file {keys}"))
    }
}

fn holds(path: &Path, word: &str) -> bool {
    std::fs::read(path).unwrap().windows(word.len()).any(|part| part == word.as_bytes())
}

/// R-D7: a key is made for its owner alone, never twice the same, and nothing is overwritten.
#[test]
fn a_key_is_made_for_its_owner_alone() {
    let home = Home::new();
    let printed = home.run("store keygen");
    assert_eq!(printed.code, 0, "{printed}");
    // Named after the day, which is that of the clock that tests are given.
    assert!(printed.stdout.starts_with("2015-10-21 ") && printed.stdout.lines().count() == 1, "{printed}");
    assert_ne!(home.key("k"), home.key("k"));
    let ran = home.run("store keygen --id prod --out keys");
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{ran}");
    assert!(ran.stderr.contains("key `prod` is in keys"), "{ran}");
    let mode = home.path("keys").metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    assert_eq!(home.enqueue("keys").code, 0);
    let again = home.run("store keygen --out keys");
    assert_eq!(again.code, 1, "{again}");
    assert!(
        again.stderr.starts_with("error: keys exists already") || again.stderr.contains("keys"),
        "{again}"
    );
    let bad = home.run("store keygen --id a:b");
    assert_eq!(bad.code, 1, "{bad}");
    assert!(bad.stderr.contains("1 to 64 letters"), "{bad}");
}

/// R-D7: a store without its key, or with another, is refused with a word that helps, in both languages; nothing of a key
/// is ever shown.
#[test]
fn what_is_wrong_with_a_key_is_said_with_what_to_do() {
    let home = Home::new();
    let (one, other) = (home.key("prod"), home.key("prod"));
    let secret = |line: &str| line.split_whitespace().nth(1).unwrap().to_owned();
    home.write("right", &one, 0o600);
    home.write("wrong", &other, 0o600);
    home.write("another", &home.key("test"), 0o600);
    home.write("readable", &one, 0o644);
    home.write("empty", "# nothing yet\n", 0o600);
    home.write("half", &format!("prod {}", &secret(&one)[..20]), 0o600);
    home.write("twice", &format!("{one}{one}"), 0o600);
    home.write("lonely", "prod\n", 0o600);
    home.write("garbled", &format!("prod {}!\n", secret(&one)), 0o600);
    assert_eq!(home.enqueue("right").code, 0);
    for (flags, error, hint) in [
        ("", "the store is encrypted with key `prod`, and no key was given", "REDRIVE_KEY_FILE=FILE"),
        (
            "--key-file another",
            "the store is encrypted with key `prod`, which is not among those given: test",
            "rotate-key",
        ),
        (
            "--key-file wrong",
            "the key given as `prod` is not the one that the store",
            "backup of the key file",
        ),
        ("--key-file readable", "readable can be read by others (mode 644)", "chmod 600 "),
        ("--key-file empty", "empty holds no key", "keygen"),
        ("--key-file half", "half, line 1: key `prod` has 15 bytes; a key has 32", "keygen"),
        ("--key-file twice", "twice, line 2: there is a key `prod` already", "keygen"),
        ("--key-file lonely", "lonely, line 1: a line is `<key-id> <base64 of 32 bytes>`", "keygen"),
        ("--key-file garbled", "garbled, line 1: what follows the id of key `prod` is not base64", "keygen"),
        ("--key-file none", "none cannot be read: No such file", "keygen"),
    ] {
        for command in ["status", "events", "dlq", "enqueue --exec true", "work --until-empty", "store check"]
        {
            let command = if command.starts_with("enqueue") {
                format!("{flags} {command}")
            } else {
                format!("{command} {flags}")
            };
            let ran = home.run(&command);
            assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{command}: {ran}");
            let (said, told) = ran.stderr.split_once("\nhint: ").expect("a hint");
            assert!(said.starts_with("error: ") && said.contains(error), "{command}: {ran}");
            assert!(told.contains(hint), "{command}: {ran}");
            let japanese = home.line(&command).env("REDRIVE_LANG", "ja").run();
            assert_eq!(japanese.code, 1, "{command}");
            assert_ne!(japanese.stderr, ran.stderr, "{command}");
            for ran in [&ran, &japanese] {
                let leaked = [&one, &other].iter().any(|line| ran.stderr.contains(&secret(line)[..12]));
                assert!(!leaked, "{command}: {ran}");
            }
        }
    }
    let plain = Home::new();
    plain.run("enqueue --kind mail --payload {}");
    let ran = plain.run("store rotate-key");
    assert_eq!(ran.code, 1, "{ran}");
    assert!(ran.stderr.contains("there is no key to encrypt the store with"), "{ran}");
}

/// R-D7: a key alone does not encrypt a store that others use without one; only the command that says so does.
#[test]
fn looking_with_a_key_encrypts_nothing() {
    let home = Home::new();
    home.run("enqueue --kind mail --payload {}");
    home.write("keys", &home.key("prod"), 0o600);
    for command in ["status", "enqueue --kind mail --payload {}"] {
        let ran = home.run(&format!("{command} --key-file keys"));
        assert_eq!(ran.code, 1, "{command}: {ran}");
        assert!(
            ran.stderr.contains("is not encrypted") && ran.stderr.contains("rotate-key"),
            "{command}: {ran}"
        );
    }
    assert_eq!(home.run("status").code, 0);
    assert_eq!(home.run("store rotate-key --key-file keys").code, 0);
    assert_eq!((home.run("status").code, home.run("status --key-file keys").code), (1, 0));
}

/// R-D7: a key comes from the flag, the environment or the configuration, and is shown nowhere.
#[test]
fn a_key_comes_from_the_environment_or_the_configuration() {
    let home = Home::new();
    let key = home.key("prod");
    home.write("keys", &key, 0o600);
    assert_eq!(home.enqueue("keys").code, 0);
    let secret = key.split_whitespace().nth(1).unwrap();
    for line in [
        home.line("status").env("REDRIVE_KEY_FILE", "keys"),
        home.line("status").env("REDRIVE_KEY", &key),
        home.line("status").env("REDRIVE_KEY", &format!("new {secret};{}", key.trim())),
    ] {
        let ran = line.run();
        assert_eq!(ran.code, 0, "{ran}");
    }
    home.write("redrive.toml", "key_file = \"keys\"\n", 0o644);
    assert_eq!(home.run("status").code, 0);
    let shown = home.run("config show --origin");
    assert!(shown.stdout.contains("key_file") && shown.stdout.contains("keys"), "{shown}");
    let shown = home.line("config show --origin").env("REDRIVE_KEY", &key).run();
    assert!(!shown.stdout.contains(&secret[..12]) && shown.stdout.contains("[redacted]"), "{shown}");
    let bad = home.line("status").env("REDRIVE_KEY", "prod").run();
    assert!(bad.stderr.contains("REDRIVE_KEY, line 1: a line is"), "{bad}");
}

/// R-D7: a plain store is encrypted and then rotated; afterwards the old key may go, and nothing is readable in the file.
#[test]
fn a_store_is_encrypted_and_rotated() {
    let home = Home::new();
    home.write("plain.jsonl", "{broken canary\n", 0o600);
    for _ in 0..30 {
        home.run("enqueue --kind mail --payload {\"to\":\"canary\"}");
    }
    home.run("import plain.jsonl");
    assert!(holds(&home.path("store.db"), "canary"));
    let (old, new) = (home.key("old"), home.key("new"));
    home.write("keys", &old, 0o600);
    let ran = home.run("store rotate-key --key-file keys");
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran}");
    assert!(ran.stdout.contains("every value is encrypted with key `old` (32 of them now)."), "{ran}");
    assert!(!holds(&home.path("store.db"), "canary"));
    home.write("keys", &format!("{new}{old}"), 0o600);
    let ran = home.line("store rotate-key --key-file keys --json").on_a_terminal().run();
    assert_eq!(ran.code, 0, "{ran}");
    let view: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(view["schema"], "redrive/rotated.v1");
    assert_eq!((&view["key"], &view["resealed"]), (&"new".into(), &32.into()), "{view}");
    assert_eq!(view["retired"], serde_json::json!(["old"]));
    // Once more is nothing to do.
    let ran = home.line("store rotate-key --key-file keys").env("REDRIVE_LANG", "ja").run();
    assert!(ran.stdout.contains("鍵 `new`") && ran.stdout.contains("0 件"), "{ran}");
    home.write("keys", &new, 0o600);
    let ran = home.run("store check --key-file keys");
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stdout.contains("every encrypted value can be decrypted"), "{ran}");
    // A backup is encrypted as the store is.
    assert_eq!(home.run("store backup copy.db --key-file keys").code, 0);
    assert!(!holds(&home.path("copy.db"), "canary"));
    let copy = |flags: &str| home.run(&format!("status --store sqlite:copy.db {flags}")).code;
    assert_eq!((copy("--key-file keys"), copy("")), (0, 1));
}
