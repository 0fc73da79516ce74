//! The API as its own description says, asked by schemathesis (PyPI): no status of 500 or more, no answer that its schema does not
//! describe, whatever is sent; and without a token nothing but health, once tokens exist (issue 8, must show; reliability 67; R-D3: the consumer's verbs over HTTP).
//!
//! schemathesis is installed once, into a folder of its own below the target folder. Where that cannot be done the test says so and
//! is skipped; with `CI=true` it fails instead.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use redrive::engine::{Engine, NewToken, RedriveRequest, Scope, TaskRequest, Which};
use redrive::{Cause, Override, fail};
use redrive_policy::Format;
use redrive_policy::plan::Plan;
use redrive_server::{Server, ServerSettings};
use redrive_store::{Origin, Sqlite, SqliteOptions};
use serde_json::{Value, json};
use tokio::process::Command;

/// The one that the answers were looked at with.
const VERSION: &str = "4.32.5";
/// How many examples of each operation, and how long all of them may take.
const EXAMPLES: &str = "12";
const MAX_TIME: &str = "80";

/// How JSON Lines are sent.
const HOOKS: &str = r#"
import schemathesis

@schemathesis.serializer("application/x-ndjson")
def json_lines(ctx, value):
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")
"#;
/// Every check but these. What a text has to be like, a filter for one, no schema says: it may be refused, and the answer is looked at
/// all the same. Whoever shows bad tokens again and again is told to wait; that they are refused is looked at below. An item of a batch
/// that is not what it must be is refused by itself, and its neighbours are done: the answer as a whole is 200. So are lines of an import, which
/// are kept aside.
const SETTINGS: &str = r#"
[checks]
positive_data_acceptance.enabled = false
ignored_auth.enabled = false

[[operations]]
include-path = "/v1/dead-letters/import"
checks.negative_data_rejection.enabled = false

[[operations]]
include-path = "/v1/leases/settle"
checks.negative_data_rejection.enabled = false

[[operations]]
include-path = "/v1/leases/extend"
checks.negative_data_rejection.enabled = false
"#;

/// A server with something of everything in its store, and a token that may do everything.
struct Site {
    server: Server,
    address: std::net::SocketAddr,
    token: String,
    _folder: tempfile::TempDir,
}

impl Site {
    async fn new() -> Site {
        let folder = tempfile::tempdir().unwrap();
        let store = Sqlite::open(&folder.path().join("r.db"), SqliteOptions::default()).unwrap();
        let engine = Engine::builder(Arc::new(store)).build().unwrap();
        seed(&engine).await;
        let new = NewToken {
            name: "schemathesis".to_owned(),
            scopes: Scope::ALL.to_vec(),
            queues: Vec::new(),
            expires_at: None,
        };
        let (_, text) = engine.create_token(new, "cli:test", None).await.unwrap();
        // Nobody waits for work that never comes.
        let mut settings = ServerSettings::default();
        settings.max_wait = Duration::from_millis(50);
        let server = Server::new(&engine, settings);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = server.clone();
        tokio::spawn(async move { serving.serve(listener).await });
        Site { server, address, token: text.reveal().to_owned(), _folder: folder }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.server.shutdown().signal();
    }
}

/// Jobs that wait, succeeded and died, groups, a redrive, a task.
async fn seed(engine: &Engine) {
    let once = Override { max_retries: Some(0), ..Override::default() };
    let job = |n: u32| engine.job("call", &json!({ "n": n })).queue("mail").overrides(&once).build().unwrap();
    engine.enqueue_many((0..20).map(job).collect()).await.unwrap();
    let worker = engine.worker().queues(["mail"]).handle("call", |payload: Value, _| async move {
        match payload["n"].as_u64() {
            Some(n) if n % 4 == 0 => Ok(()),
            Some(n) if n % 4 == 1 => Err(fail(Cause::Network, "connection refused")),
            _ => Err(fail(Cause::ValidationError, "no such column")),
        }
    });
    worker.run_until_empty().await.unwrap();
    engine.enqueue_many((20..30).map(job).collect()).await.unwrap();
    let slowly =
        RedriveRequest { rate: Some(0.01), ..RedriveRequest::new(Which::Where("queue=mail".into())) };
    engine.start_redrive(slowly).await.unwrap();
    let plan = json!({ "name": "greet", "subtasks": [{ "id": "one", "handler": "call", "payload": 1 }] });
    let (plan, _) = Plan::parse(&plan.to_string(), Format::Json, "plan").unwrap();
    let request = TaskRequest { plan, place: None, base: "/".into(), umask: None, origin: Origin::Api };
    engine.start_task(request).await.unwrap();
}

/// The program, installed when it is missing and it may; nothing where it cannot be had.
async fn program() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("schemathesis-{VERSION}"));
    let program = folder.join("bin/st");
    let done = folder.join("installed");
    if done.exists() {
        return Some(program);
    }
    let run = async |command: &mut Command| {
        let ran = command.stdin(Stdio::null()).stdout(Stdio::null()).status().await;
        ran.is_ok_and(|status| status.success())
    };
    let installed = run(Command::new("python3").args(["-m", "venv"]).arg(&folder)).await
        && run(Command::new(folder.join("bin/pip"))
            .args(["install", "--quiet", "--disable-pip-version-check"])
            .arg(format!("schemathesis=={VERSION}")))
        .await;
    if installed {
        std::fs::write(done, "").unwrap();
        return Some(program);
    }
    assert!(std::env::var("CI").as_deref() != Ok("true"), "schemathesis {VERSION} cannot be installed");
    eprintln!("SKIPPED: schemathesis {VERSION} cannot be installed here (python3, venv, pip, PyPI)");
    None
}

/// Issue 8, must show: with a token, no status of 500 or more and no answer that is not described, whatever is sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_sent_the_answer_is_one_that_is_described() {
    let Some(program) = program().await else { return };
    let site = Site::new().await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("hooks.py"), HOOKS).unwrap();
    std::fs::write(folder.path().join("schemathesis.toml"), SETTINGS).unwrap();
    let ran = Command::new(program)
        .current_dir(folder.path())
        .env("SCHEMATHESIS_HOOKS", "hooks")
        .env("PYTHONPATH", folder.path())
        .args(["run", &site.url("/openapi.json"), "--header"])
        .arg(format!("Authorization: Bearer {}", site.token))
        .args(["--phases", "examples,coverage,fuzzing"])
        .args(["--max-examples", EXAMPLES, "--max-time", MAX_TIME, "--request-timeout", "10"])
        .args(["--seed", "8", "--workers", "1", "--no-color", "--continue-on-failure"])
        .args(["--suppress-health-check", "all", "--warnings", "off"])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let told = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{told}\n{}", String::from_utf8_lossy(&ran.stderr));
}

/// Issue 8, must show: once tokens exist, nothing but health answers without one.
#[tokio::test]
async fn without_a_token_nothing_but_health_answers() {
    let site = Site::new().await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let document = Server::openapi();
    let mut asked = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let method: reqwest::Method = method.to_ascii_uppercase().parse().unwrap();
            let path = path.replace("{id}", "job_1").replace(['{', '}'], "");
            let answer = client.request(method.clone(), site.url(&path)).send().await.unwrap();
            let status = answer.status().as_u16();
            if operation["security"] == json!([]) {
                assert_ne!(status, 401, "{method} {path} is open");
                assert!(["/livez", "/readyz"].contains(&path.as_str()), "{method} {path} is open");
            } else {
                assert_eq!(status, 401, "{method} {path}");
                let problem: Value = answer.json().await.unwrap();
                assert_eq!(problem["code"], "unauthorized");
            }
            asked += 1;
        }
    }
    assert!(asked > 40, "{asked}");
}
