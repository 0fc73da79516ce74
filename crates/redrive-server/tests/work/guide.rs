//! The examples of docs/workers.md, typed against a real server.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::json;

use crate::clients::is_there;
use crate::site::{Kind, Site, until};

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The blocks of a language on the page.
pub(crate) fn blocks(language: &str) -> Vec<String> {
    let page = std::fs::read_to_string(root().join("docs/workers.md")).unwrap();
    let begins = format!("```{language}\n");
    page.split(&begins).skip(1).map(|block| block.split("```").next().unwrap().to_owned()).collect()
}

fn python(site: &Site, code: &str) -> Command {
    let code = code.replace("http://127.0.0.1:7411", &site.url(""));
    let mut command = Command::new("python3");
    command.args(["-B", "-c", &code]).env("PYTHONPATH", root().join("clients/python"));
    command
}

/// R-P15: what the page says about Python is so: work is added, done, tried again and set aside; the worker leaves on SIGTERM.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_python_of_the_page_runs() {
    if !is_there("python3") {
        return;
    }
    let site = Site::new(Kind::Sqlite).await;
    let [add, work, hook]: [String; 3] = blocks("python").try_into().unwrap();
    let mut add = python(&site, &add);
    let added = tokio::task::spawn_blocking(move || add.output().unwrap()).await.unwrap();
    let ada = String::from_utf8(added.stdout).unwrap().trim().to_owned();
    let mut ids = vec![ada];
    for name in ["Bob", ""] {
        let job = site.engine.job("greet", &json!({ "name": name })).queue("mail");
        ids.push(job.enqueue().await.unwrap().id.to_string());
    }
    let mut worker = python(&site, &work).stdout(Stdio::piped()).spawn().unwrap();
    until("all three are over", || async {
        let mut over = 0;
        for id in &ids {
            over += usize::from(matches!(site.stands(id).await.1.as_str(), "Ended" | "Dead"));
        }
        over == ids.len()
    })
    .await;
    assert_eq!(site.stands(&ids[2]).await.1, "Dead");
    assert!(Command::new("kill").arg(worker.id().to_string()).status().unwrap().success());
    tokio::time::sleep(Duration::from_millis(100)).await;
    let said = tokio::task::spawn_blocking(move || {
        let code = worker.wait().unwrap();
        (code, std::io::read_to_string(worker.stdout.take().unwrap()).unwrap())
    });
    let (code, said) = said.await.unwrap();
    assert!(code.success(), "{code}");
    assert_eq!(said, "hello Ada\nhello Bob\n");
    let check = format!(
        "{hook}\ntry:\n    hook({{}}, b'', 'whsec_AAAA')\nexcept redrive.BadSignature:\n    print('refused')\n"
    );
    let mut check = python(&site, &check);
    let said = tokio::task::spawn_blocking(move || check.output().unwrap()).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&said.stdout), "refused\n");
}

/// R-P15: what the page says about curl is so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_curl_of_the_page_runs() {
    if !is_there("curl") {
        return;
    }
    let site = Site::new(Kind::Sqlite).await;
    let job = site.engine.job("greet", &json!({ "name": "Ada" })).queue("mail").enqueue().await.unwrap();
    let [_, lease, end]: [String; 3] = blocks("sh").try_into().unwrap();
    let sh = async |code: String, lease: String| {
        let code = code.replace("http://127.0.0.1:7411", &site.url(""));
        let mut sh = Command::new("sh");
        sh.args(["-c", &code]).env("LEASE", lease);
        let output = tokio::task::spawn_blocking(move || sh.output().unwrap()).await.unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        serde_json::Deserializer::from_str(&said)
            .into_iter()
            .collect::<Result<Vec<serde_json::Value>, _>>()
            .unwrap()
    };
    let leased = sh(lease, String::new()).await;
    let item = &leased[0]["items"][0];
    assert_eq!(item["id"], json!(job.id.to_string()));
    let told = sh(end, item["lease"].as_str().unwrap().to_owned()).await;
    assert_eq!(told[0]["items"][0]["status"], json!("extended"));
    assert_eq!(told[1]["items"][0]["decision"]["decision"], json!("retry"), "{told:?}");
}
