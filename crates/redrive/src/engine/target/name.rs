//! The names of targets, and which of them a job goes to.

use std::borrow::Cow;

use redrive_store::Job;
use serde::Deserialize;

use super::Rules;
use crate::secrets::redact;

/// Who makes a call, as far as its targets are concerned.
#[derive(Debug, Clone, Copy)]
pub(in crate::engine) enum MadeBy<'a> {
    /// A process of ours; all of its calls go to this target, too.
    Us(Option<&'a str>),
    /// A worker elsewhere, of whom we have nothing but its word. It is believed about its queue and about the key of its job; a host is
    /// everybody's, and is judged by what our own processes saw (ADR 0051).
    Elsewhere,
}

/// The part of a call that names its host.
#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow)]
    url: Cow<'a, str>,
}

/// The target that a call to this address goes to.
///
/// ```
/// use redrive::engine::host_target;
/// assert_eq!(host_target("https://user@API.example.com/orders?x=1").as_deref(), Some("host:api.example.com"));
/// assert_eq!(host_target("http://[::1]:8080/").as_deref(), Some("host:[::1]:8080"));
/// assert_eq!(host_target("mailto:ada@example.com"), None);
/// assert_eq!(host_target("http://ada:pass/word@example.com/"), None, "no host, and a part of a password");
/// ```
pub fn host_target(url: &str) -> Option<String> {
    let (scheme, rest) = url.trim().split_once("://")?;
    let usual = match scheme.to_ascii_lowercase().as_str() {
        "http" => ":80",
        "https" => ":443",
        _ => return None,
    };
    let authority = rest.split(['/', '?', '#', '\\']).next()?;
    let host = authority.rsplit('@').next()?.to_ascii_lowercase();
    let host = host.strip_suffix(usual).unwrap_or(&host).trim_end_matches([':', '.']);
    let port = host.rsplit(']').next().and_then(|rest| rest.split_once(':')).map_or("0", |(_, port)| port);
    let sound = !host.is_empty()
        && host.len() <= 240
        && port.bytes().all(|byte| byte.is_ascii_digit())
        && !host.chars().any(|c| c.is_control() || c == ' ');
    sound.then(|| format!("host:{host}"))
}

/// Whom a job of this kind calls: the method and the host, and nothing else of the address, which may hold a secret; what looks like one in
/// a host is blanked. Nothing for what is no HTTP call.
///
/// ```
/// use redrive::engine::called_by;
/// let payload = br#"{"method":"POST","url":"https://user:pw@api.example.com/orders?key=1"}"#;
/// assert_eq!(called_by("http", payload).as_deref(), Some("POST api.example.com"));
/// assert_eq!(called_by("exec", payload), None);
/// ```
pub fn called_by(kind: &str, payload: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Call<'a> {
        #[serde(borrow)]
        method: std::borrow::Cow<'a, str>,
        #[serde(borrow)]
        url: std::borrow::Cow<'a, str>,
    }
    let call: Call<'_> = (kind == "http").then(|| serde_json::from_slice(payload).ok()).flatten()?;
    let host = host_target(&call.url)?;
    let is_method = (1..=32).contains(&call.method.len())
        && call.method.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    is_method.then(|| redact(&format!("{} {}", call.method, host.trim_start_matches("host:"))))
}

impl Rules {
    /// Whether nothing protects a job, by what can be told at a glance: most work is asked nothing else.
    pub(super) fn is_free(&self, job: &Job, by: MadeBy<'_>) -> bool {
        let calls = match by {
            MadeBy::Us(also) => also.is_some() || job.kind == "http",
            MadeBy::Elsewhere => false,
        };
        job.inline || (self.is_free_elsewhere(&job.queue, job.target.as_deref()) && !calls)
    }

    /// The same for a job of this queue and key that a worker elsewhere has.
    pub(super) fn is_free_elsewhere(&self, queue: &str, key: Option<&str>) -> bool {
        key.is_none() && !self.every_queue && (self.queues.is_empty() || !self.queues.contains(queue))
    }

    /// The protected targets of a job; most have none.
    pub(super) fn targets_of(&self, job: &Job, by: MadeBy<'_>) -> Vec<String> {
        if job.inline {
            return Vec::new();
        }
        let mut names = self.targets_elsewhere(&job.queue, job.target.as_deref());
        if let MadeBy::Us(also) = by {
            names.extend(also.map(str::to_owned));
            if job.kind == "http" {
                let call = serde_json::from_slice::<Call<'_>>(&job.payload).ok();
                names.extend(call.and_then(|call| host_target(&call.url)));
            }
            names.retain(|name| !self.of(name).is_nothing());
            names.dedup();
        }
        names
    }

    /// The protected targets of a job of this queue and key about which a worker elsewhere is believed.
    pub(super) fn targets_elsewhere(&self, queue: &str, key: Option<&str>) -> Vec<String> {
        let mut names = Vec::new();
        if self.every_queue || (!self.queues.is_empty() && self.queues.contains(queue)) {
            names.push(format!("queue:{queue}"));
        }
        names.extend(key.map(|key| format!("key:{key}")));
        names.retain(|name| !self.of(name).is_nothing());
        names
    }
}
