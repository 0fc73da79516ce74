//! What `config show` tells of the larger parts of a file: the server and its limits, what is protected, who is told, who is called, what
//! comes back by itself, and how output is reviewed. Of addresses the host alone: the rest is often a secret.

use redrive::engine::PushEndpoint;
use redrive::shown_webhook;
use redrive_policy::{AlertBy, AlertReceiver, AlertSettings, Allowed, Config, human_duration};
use redrive_server::ServerSettings;
use serde_json::{Value, json};

use super::health::DEFAULT_LISTEN;
use super::serve::{DEFAULT_CONCURRENCY, DEFAULT_DRAIN};

/// A setting by its name, and whether the file says it.
pub(super) struct Part {
    pub(super) name: String,
    pub(super) value: Value,
    pub(super) is_said: bool,
}

/// Everything of the kind, in the order of the documentation.
pub(super) fn parts(config: &Config) -> Vec<Part> {
    let mut parts = server(config);
    let said = |name: String, value: Value| Part { name, value, is_said: true };
    let protection = |protection| serde_json::to_value(protection).unwrap_or_default();
    let usual = Config::default();
    let (targets, as_ever) = (&config.targets, &usual.targets);
    for (name, one, ever) in [
        ("host", &targets.default_host, &as_ever.default_host),
        ("queue", &targets.default_queue, &as_ever.default_queue),
        ("key", &targets.default_key, &as_ever.default_key),
    ] {
        if one != ever {
            parts.push(said(format!("targets.default_{name}"), protection(one)));
        }
    }
    parts.extend(targets.named.iter().map(|(name, one)| said(format!("targets.{name}"), protection(one))));
    parts.extend(alerts(&config.alerts, &usual.alerts).into_iter().map(|(name, value)| said(name, value)));
    for service in &config.push {
        let to = shown_webhook(&service.url);
        let usual = PushEndpoint::new(&service.name, &service.queue, &service.url).ok();
        let mut value = format!("{} -> {to}", service.queue);
        if let Some(usual) = usual {
            let concurrency = service.concurrency.unwrap_or(usual.concurrency);
            let timeout = human_duration(service.timeout.unwrap_or(usual.timeout));
            value = format!("{value}, concurrency {concurrency}, timeout {timeout}");
        }
        parts.push(said(format!("push.{}", service.name), value.into()));
    }
    for rule in &config.auto_redrive {
        let value = format!("{} every {}", rule.filter, human_duration(rule.every));
        parts.push(said(format!("auto_redrive.{}", rule.name), value.into()));
    }
    let review = serde_json::to_value(&config.review).unwrap_or_default();
    let review = review.as_object().into_iter().flatten();
    parts.extend(review.map(|(name, value)| said(format!("review.{name}"), value.clone())));
    parts
}

fn server(config: &Config) -> Vec<Part> {
    let server = &config.server;
    let held = ServerSettings::of(server);
    let listen = if server.listen.is_empty() { DEFAULT_LISTEN.to_owned() } else { server.listen.join(", ") };
    let concurrency =
        server.concurrency.map_or(DEFAULT_CONCURRENCY, |n| usize::try_from(n).unwrap_or(usize::MAX));
    let drain_for = human_duration(server.drain_for.unwrap_or(DEFAULT_DRAIN));
    let always = [
        ("listen", json!(listen), !server.listen.is_empty()),
        ("concurrency", json!(concurrency), server.concurrency.is_some()),
        ("drain_for", json!(drain_for), server.drain_for.is_some()),
        ("max_body", json!(held.max_body), server.max_body.is_some()),
        ("max_connections", json!(held.max_connections), server.max_connections.is_some()),
        (
            "max_connections_per_address",
            json!(held.max_connections_per_address),
            server.max_connections_per_address.is_some(),
        ),
    ];
    let allowed = |allowed: &Allowed| match allowed {
        Allowed::Net { address, prefix } => format!("{address}/{prefix}"),
        Allowed::Host(host) => host.clone(),
        Allowed::HostPort(host, port) => format!("{host}:{port}"),
    };
    let ports = server.ports.iter().map(ToString::to_string).collect::<Vec<_>>();
    let tls = server.tls.as_ref().map(|tls| vec![tls.cert.clone(), tls.key.clone()]);
    let lists = [
        ("hosts", server.hosts.clone()),
        ("origins", server.origins.clone()),
        ("allow", server.allow.iter().map(allowed).collect()),
        ("ports", ports),
        ("commands", server.commands.clone()),
        ("tls", tls.unwrap_or_default()),
        ("insecure_http", server.insecure_http.then(|| "true".to_owned()).into_iter().collect()),
    ];
    let lists = lists.into_iter().filter(|(_, names)| !names.is_empty());
    let lists = lists.map(|(name, names)| (name, json!(names.join(", ")), true));
    let part =
        |(name, value, is_said): (&str, Value, bool)| Part { name: format!("server.{name}"), value, is_said };
    always.into_iter().chain(lists).map(part).collect()
}

/// What is told otherwise than usual, and who is told.
fn alerts(alerts: &AlertSettings, usual: &AlertSettings) -> Vec<(String, Value)> {
    let length =
        |length: Option<std::time::Duration>| length.map(human_duration).map_or(json!(false), Value::from);
    let number = |number: Option<u64>| number.map_or(json!(false), Value::from);
    let share = |share: Option<f64>| share.map_or(json!(false), Value::from);
    let all = |alerts: &AlertSettings| {
        [
            ("dead_letters", number(alerts.dead_letters)),
            ("oldest_letter", length(alerts.oldest_letter)),
            ("recovery_success", share(alerts.recovery_success)),
            ("recovery_duration", length(alerts.recovery_duration)),
            ("letters_per_hour", number(alerts.letters_per_hour)),
            ("retry_failure", share(alerts.retry_failure)),
            ("duplicates", share(alerts.duplicates)),
            ("processing_delay", length(alerts.processing_delay)),
            ("min_samples", json!(alerts.min_samples)),
            ("repeat_every", length(alerts.repeat_every)),
            ("summary_after", length(Some(alerts.summary_after))),
        ]
    };
    let changed = all(alerts).into_iter().zip(all(usual)).filter(|(one, ever)| one != ever);
    let mut told: Vec<(String, Value)> =
        changed.map(|((name, value), _)| (format!("alerts.{name}"), value)).collect();
    told.extend(alerts.policy.iter().map(|policy| ("alerts.policy".to_owned(), json!(policy))));
    let by = |receiver: &AlertReceiver| match &receiver.by {
        AlertBy::Webhook { url, slack: true, .. } => format!("slack {}", shown_webhook(url)),
        AlertBy::Webhook { url, .. } => format!("webhook {}", shown_webhook(url)),
        AlertBy::Command(argv) => format!("command {}", argv.first().map(String::as_str).unwrap_or_default()),
    };
    told.extend(
        alerts.receivers.iter().map(|one| (format!("alerts.receivers.{}", one.name), by(one).into())),
    );
    told
}
