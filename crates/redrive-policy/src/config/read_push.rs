//! Services that are called for jobs, as a file writes them. Their secrets stand in the environment, never in the file.

use std::collections::HashSet;
use std::time::Duration;

use super::Notes;
use super::node::{Node, Value};
use super::path::Path;
use super::problem::{Expected, ProblemKind};
use super::read_backoff::duration;
use super::read_policy::texts;
use super::words::short;

/// A service that is called for jobs. What is not said is the server's to choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushConfig {
    /// Its name.
    pub name: String,
    /// The queue whose jobs it gets.
    pub queue: String,
    /// Where it is called.
    pub url: String,
    /// The environment variables that hold its secrets.
    pub secret_env: Vec<String>,
    /// Only these kinds; none: all of the queue.
    pub kinds: Vec<String>,
    /// How many calls are under way at a time.
    pub concurrency: Option<usize>,
    /// How many jobs go into one call.
    pub batch: Option<usize>,
    /// How long a call may take.
    pub timeout: Option<Duration>,
}

/// The services of a file, in its order.
pub(super) fn read(file: &Node, notes: &mut Notes) -> Vec<PushConfig> {
    let Some(Value::List(items)) = file.get("push").map(|services| &services.value) else {
        return Vec::new();
    };
    let mut names = HashSet::new();
    let mut services = Vec::new();
    for (i, item) in items.iter().enumerate() {
        if let Some(name) = item.get("name").and_then(Node::text)
            && !names.insert(name)
        {
            let at = item.get("name").map_or(item.at, |node| node.at);
            let kind = ProblemKind::GivenTwice { name: short(name) };
            notes.wrong.add(at, &Path::Top.field("push").item(i).field("name"), kind, Expected::Once);
        }
        services.extend(read_one(item));
    }
    services
}

/// `None` for one that cannot be read; the shape has said why.
fn read_one(node: &Node) -> Option<PushConfig> {
    let text = |field: &str| node.get(field).and_then(Node::text).map(str::to_owned);
    let whole = |field: &str| node.get(field).and_then(Node::whole).and_then(|n| usize::try_from(n).ok());
    let list = |field: &str| node.get(field).map(texts).unwrap_or_default();
    Some(PushConfig {
        name: text("name")?,
        queue: text("queue")?,
        url: text("url")?,
        secret_env: list("secret_env"),
        kinds: list("kinds"),
        concurrency: whole("concurrency"),
        batch: whole("batch"),
        timeout: duration(node, "timeout", "timeout"),
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Config, Format};
    use super::*;

    fn parse(text: &str) -> Result<Vec<PushConfig>, String> {
        let config = Config::parse(text, Format::Toml, "redrive.toml");
        config.map(|config| config.push).map_err(|error| error.to_string())
    }

    const CRM: &str = "[[push]]\nname = \"crm\"\nqueue = \"orders\"\nurl = \"http://localhost:9000/hook\"\nsecret_env = [\"CRM\"]\n";

    /// R-P15: a service is read with what it says and nothing else; two of one name are refused.
    #[test]
    fn services_are_read() {
        let read = parse(&format!("{CRM}kinds = [\"paid\"]\nbatch = 10\ntimeout = \"20s\"\n")).unwrap();
        let expected = PushConfig {
            name: "crm".to_owned(),
            queue: "orders".to_owned(),
            url: "http://localhost:9000/hook".to_owned(),
            secret_env: vec!["CRM".to_owned()],
            kinds: vec!["paid".to_owned()],
            concurrency: None,
            batch: Some(10),
            timeout: Some(Duration::from_secs(20)),
        };
        assert_eq!(read, [expected]);
        let twice = parse(&format!("{CRM}{CRM}")).unwrap_err();
        assert!(twice.contains("push[1].name"), "{twice}");
        assert!(parse(&CRM.replace("http://", "ftp://")).is_err());
    }
}
