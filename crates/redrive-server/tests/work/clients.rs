//! The clients in Python and TypeScript, against a real server.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::site::{Kind, Site};

fn clients() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients")
}

/// Where a program is missing, that is told loudly; in CI it is a failure.
pub(crate) fn is_there(program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !there {
        assert!(std::env::var_os("CI").is_none(), "{program} is missing");
        eprintln!("SKIPPED: {program} is missing; nothing about it was proved on this machine");
    }
    there
}

fn passed(what: &str, output: &Output) {
    let told =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{what}:\n{told}");
}

async fn run(mut command: Command) -> Output {
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

/// R-P15: the Python client does what it promises, on both stores.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_python_client_passes_its_tests() {
    if !is_there("python3") {
        return;
    }
    for kind in Kind::all() {
        let site = Site::new(kind).await;
        site.attend().await;
        let mut python = Command::new("python3");
        python
            .args(["-B", "-m", "unittest", "test_redrive"])
            .current_dir(clients().join("python"))
            .env("REDRIVE_URL", site.url(""));
        passed(&format!("python on {kind:?}"), &run(python).await);
    }
}

/// R-P15: the TypeScript client has no error of types in the strictest mode, and does what it promises.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_typescript_client_passes_its_tests() {
    if !is_there("node") || !is_there("npm") {
        return;
    }
    let Some(tools) = compiler() else { return };
    let built = tempfile::tempdir_in(&tools).unwrap();
    for name in ["redrive.ts", "redrive.test.ts"] {
        std::fs::copy(clients().join("typescript").join(name), built.path().join(name)).unwrap();
    }
    // The example of the guide has no error of types, either.
    let [example]: [String; 1] = crate::guide::blocks("ts").try_into().unwrap();
    std::fs::write(built.path().join("example.ts"), example).unwrap();
    std::fs::write(built.path().join("package.json"), r#"{"private":true,"type":"module"}"#).unwrap();
    let mut tsc = Command::new("node");
    tsc.arg(tools.join("node_modules/typescript/bin/tsc"))
        .args([
            "--strict",
            "--noUncheckedIndexedAccess",
            "--exactOptionalPropertyTypes",
            "--noImplicitOverride",
        ])
        .args(["--noUnusedLocals", "--noUnusedParameters", "--target", "es2022", "--lib", "es2022,dom"])
        .args(["--module", "nodenext", "--moduleResolution", "nodenext", "--types", "node"])
        .args(["redrive.ts", "redrive.test.ts", "example.ts"])
        .current_dir(built.path());
    passed("tsc", &run(tsc).await);
    as_the_guide_compiles_it(&tools, built.path()).await;
    let site = Site::new(Kind::Sqlite).await;
    site.attend().await;
    let mut node = Command::new("node");
    node.args(["--test", "redrive.test.js"]).current_dir(built.path()).env("REDRIVE_URL", site.url(""));
    passed("node", &run(node).await);
}

/// The line of the guide works as it stands, which is less strict.
async fn as_the_guide_compiles_it(tools: &Path, built: &Path) {
    let guide = std::fs::read_to_string(clients().join("../docs/workers.md")).unwrap();
    let line = guide.lines().find_map(|line| line.strip_prefix("npx tsc ")).unwrap();
    let words = line.split_once(" && node worker.js").unwrap().0;
    std::fs::copy(built.join("example.ts"), built.join("worker.ts")).unwrap();
    let mut tsc = Command::new("node");
    tsc.arg(tools.join("node_modules/typescript/bin/tsc")).args(words.split(' ')).current_dir(built);
    passed(words, &run(tsc).await);
    assert!(built.join("worker.js").is_file());
}

/// The compiler, installed once into the target folder.
fn compiler() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("typescript-5.9");
    if folder.join("node_modules/typescript/bin/tsc").exists()
        && folder.join("node_modules/@types/node").exists()
    {
        return Some(folder);
    }
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("package.json"), r#"{"private":true}"#).unwrap();
    let installed = Command::new("npm")
        .args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "typescript@5.9", "@types/node@20"])
        .current_dir(&folder)
        .output()
        .unwrap();
    if !installed.status.success() {
        let told = String::from_utf8_lossy(&installed.stderr);
        assert!(std::env::var_os("CI").is_none(), "npm install failed: {told}");
        eprintln!("SKIPPED: TypeScript cannot be installed here; nothing about it was proved: {told}");
        return None;
    }
    Some(folder)
}
