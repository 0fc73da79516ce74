//! How targets are protected, as a file says it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::node::{Node, Value};
use super::read_backoff::duration;
use crate::protection::{Protection, Rate, queue_of_key};

/// How targets are protected (R-P15).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetSettings {
    /// By the name of the target: `host:api.example.com`, `queue:mail`, `key:tenant-7`.
    pub named: BTreeMap<String, Protection>,
    /// Hosts that are not named.
    pub default_host: Protection,
    /// Queues that are not named.
    pub default_queue: Protection,
    /// Keys that are not named.
    pub default_key: Protection,
}

impl Default for TargetSettings {
    fn default() -> TargetSettings {
        TargetSettings {
            named: BTreeMap::new(),
            default_host: Protection::of_a_host(),
            default_queue: Protection::default(),
            default_key: Protection::default(),
        }
    }
}

impl TargetSettings {
    /// How the target of this name is protected. A host with a port follows the host without one, a key of a queue the key.
    pub fn of(&self, target: &str) -> Protection {
        if let Some(own) = self.named.get(target) {
            return *own;
        }
        match target.split_once(':') {
            Some(("host", host)) => {
                let bare = host.rsplit_once(':').map(|(name, _)| format!("host:{name}"));
                *bare.and_then(|bare| self.named.get(&bare)).unwrap_or(&self.default_host)
            }
            Some(("queue", _)) => self.default_queue,
            Some(("key", key)) => {
                let bare = queue_of_key(key).map(|(_, key)| format!("key:{key}"));
                *bare.and_then(|bare| self.named.get(&bare)).unwrap_or(&self.default_key)
            }
            _ => Protection::default(),
        }
    }
}

/// The targets of a file.
pub(super) fn read(file: &Node) -> TargetSettings {
    let mut settings = TargetSettings::default();
    let Some(Value::Table(entries)) = file.get("targets").map(|targets| &targets.value) else {
        return settings;
    };
    // The defaults first: what a named target does not say is theirs.
    for (name, node) in entries {
        let place = match name.as_str() {
            "default_host" => &mut settings.default_host,
            "default_queue" => &mut settings.default_queue,
            "default_key" => &mut settings.default_key,
            _ => continue,
        };
        *place = read_one(node, *place);
    }
    for (name, node) in entries.iter().filter(|(name, _)| !name.starts_with("default_")) {
        let base = match name.split_once(':') {
            Some(("host", _)) => settings.default_host,
            Some(("queue", _)) => settings.default_queue,
            _ => settings.default_key,
        };
        settings.named.insert(name.clone(), read_one(node, base));
    }
    settings
}

fn read_one(node: &Node, base: Protection) -> Protection {
    let rate = |field: &str| node.get(field).and_then(Node::text).and_then(|text| text.parse::<Rate>().ok());
    let whole = |field: &str| node.get(field).and_then(Node::whole).and_then(|n| u32::try_from(n).ok());
    let millis = |field: &str| {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        duration(node, field, field).map(millis)
    };
    let says = |fields: &[&str]| fields.iter().any(|field| node.get(field).is_some());
    let mut own = Protection {
        rate: rate("rate").or(base.rate),
        burst: whole("burst").or(base.burst),
        concurrency: whole("concurrency").or(base.concurrency),
        ..base
    };
    let of_breaker =
        ["failures", "of_at_least", "within", "open_for", "open_for_at_most", "probes", "ramp", "pace"];
    // Whoever says how a breaker works wants one.
    let wants = node.get("breaker").and_then(Node::bool);
    if wants.unwrap_or(base.breaker.is_some() || says(&of_breaker)) {
        let mut breaker = base.breaker.unwrap_or_default();
        breaker.failures = whole("failures").unwrap_or(breaker.failures);
        breaker.of_at_least = whole("of_at_least").unwrap_or(breaker.of_at_least);
        breaker.within_ms = millis("within").unwrap_or(breaker.within_ms);
        breaker.open_for_ms = millis("open_for").unwrap_or(breaker.open_for_ms);
        breaker.open_for_at_most_ms = millis("open_for_at_most").unwrap_or(breaker.open_for_at_most_ms);
        breaker.probes = whole("probes").unwrap_or(breaker.probes);
        breaker.ramp_ms = millis("ramp").unwrap_or(breaker.ramp_ms);
        breaker.pace = rate("pace").unwrap_or(breaker.pace);
        own.breaker = Some(breaker);
    } else {
        own.breaker = None;
    }
    let wants = node.get("budget").and_then(Node::bool);
    if wants.unwrap_or(base.budget.is_some() || says(&["budget_percent", "budget_at_least"])) {
        let mut budget = base.budget.unwrap_or_default();
        budget.percent = whole("budget_percent").unwrap_or(budget.percent);
        budget.at_least = rate("budget_at_least").unwrap_or(budget.at_least);
        own.budget = Some(budget);
    } else {
        own.budget = None;
    }
    own
}

#[cfg(test)]
mod tests {
    use super::super::{Config, Format};
    use super::*;

    fn parse(text: &str) -> Result<TargetSettings, String> {
        let config = Config::parse(text, Format::Toml, "redrive.toml");
        config.map(|config| config.targets).map_err(|error| error.to_string())
    }

    /// R-P15: hosts have a breaker and a budget when nobody says otherwise; queues and keys have nothing.
    #[test]
    fn what_is_not_said_is_the_default_of_its_kind() {
        let settings = parse("").unwrap();
        assert_eq!(settings.of("host:api.example.com:443"), Protection::of_a_host());
        assert!(settings.of("queue:mail").is_nothing() && settings.of("key:a").is_nothing());
        let text = "[targets.default_host]\nbreaker = false\n[targets.\"host:api.example.com\"]\nrate = \"10/s\"\n\
                    [targets.\"queue:mail\"]\nconcurrency = 5\nopen_for = \"1s\"\n";
        let settings = parse(text).unwrap();
        let host = settings.of("host:api.example.com:8443");
        assert_eq!((host.rate, host.breaker), (Some(Rate::per_second(10)), None));
        assert!(host.budget.is_some() && settings.of("host:other").breaker.is_none());
        let queue = settings.of("queue:mail");
        assert_eq!(queue.breaker.map(|breaker| (breaker.open_for_ms, breaker.failures)), Some((1_000, 50)));
        assert_eq!((queue.concurrency, queue.budget), (Some(5), None));
    }

    /// R-P7, R-P15: what cannot be obeyed does not load, and the place is named.
    #[test]
    fn a_bad_target_does_not_load() {
        for (text, place) in [
            ("[targets.\"host:a\"]\nrate = \"fast\"\n", "rate"),
            ("[targets.\"host:a\"]\nconcurrency = 0\n", "concurrency"),
            ("[targets.mail]\nconcurrency = 1\n", "targets.mail"),
            ("[targets.\"host:a\"]\nfailures = 101\n", "failures"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(place), "{error}");
        }
    }
}
