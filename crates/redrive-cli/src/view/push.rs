//! Push endpoints: who is called for which jobs. Never what the calls are signed with, and of an address the host alone.

use redrive::engine::PushEndpoint;
use redrive::shown_webhook;
use redrive_policy::{PushConfig, human_duration, round_to_millis};
use redrive_store::Origin;
use serde::Serialize;

use super::block::{Column, Listing};
use super::{Block, Page, Reader, Span, Tone};
use crate::text::{own, say, text};

/// Where an endpoint is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Source {
    Store,
    Configuration,
}

/// A service that is called, as it may be shown.
#[derive(Debug, Serialize)]
pub(crate) struct PushItem {
    name: String,
    queue: String,
    kinds: Vec<String>,
    url: String,
    /// How many secrets each call is signed with.
    secrets: usize,
    concurrency: usize,
    batch: usize,
    timeout_ms: u64,
    enabled: bool,
    disabled_why: Option<String>,
    source: Source,
    /// Who gave the address: what came over the API may not lead to a private one.
    origin: Origin,
}

impl PushItem {
    pub(crate) fn stored(endpoint: PushEndpoint, with_url: bool) -> PushItem {
        PushItem {
            url: if with_url { endpoint.url } else { shown_webhook(&endpoint.url) },
            name: endpoint.name,
            queue: endpoint.queue,
            kinds: endpoint.kinds,
            secrets: endpoint.secrets.len(),
            concurrency: endpoint.concurrency,
            batch: endpoint.batch,
            timeout_ms: round_to_millis(endpoint.timeout),
            enabled: endpoint.enabled,
            disabled_why: endpoint.disabled_why,
            source: Source::Store,
            origin: endpoint.origin,
        }
    }

    /// One of the configuration: its secrets are counted by the variables that hold them.
    pub(crate) fn configured(service: &PushConfig, with_url: bool) -> PushItem {
        PushItem {
            name: service.name.clone(),
            queue: service.queue.clone(),
            kinds: service.kinds.clone(),
            url: if with_url { service.url.clone() } else { shown_webhook(&service.url) },
            secrets: service.secret_env.len(),
            concurrency: service.concurrency.unwrap_or(PushEndpoint::CONCURRENCY),
            batch: service.batch.unwrap_or(PushEndpoint::BATCH),
            timeout_ms: round_to_millis(service.timeout.unwrap_or(PushEndpoint::TIMEOUT)),
            enabled: true,
            disabled_why: None,
            source: Source::Configuration,
            origin: Origin::Local,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn queue(&self) -> &str {
        &self.queue
    }

    fn kinds(&self) -> String {
        if self.kinds.is_empty() { "*".to_owned() } else { self.kinds.join(" ") }
    }

    /// How it stands, in a word.
    fn state(&self, reader: Reader) -> Span {
        let (key, tone) = match (self.enabled, &self.disabled_why) {
            (true, _) => ("push.enabled", Tone::Good),
            (false, None) => ("push.disabled", Tone::Warn),
            (false, Some(_)) => ("push.gone", Tone::Bad),
        };
        Span::new(say(reader.lang, key), tone)
    }

    fn source(&self, reader: Reader) -> String {
        let key = match (self.source, self.origin) {
            (Source::Configuration, _) => "push.source.configuration",
            (Source::Store, Origin::Local) => "push.source.local",
            (Source::Store, Origin::Api) => "push.source.api",
        };
        say(reader.lang, key)
    }
}

/// JSON: `redrive/push_endpoints.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct PushesView {
    schema: &'static str,
    items: Vec<PushItem>,
}

impl PushesView {
    pub(crate) fn new(items: Vec<PushItem>) -> PushesView {
        PushesView { schema: "redrive/push_endpoints.v1", items }
    }
}

impl Page for PushesView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        if self.items.is_empty() {
            return vec![Block::Text(vec![Span::plain(say(lang, "push.none"))])];
        }
        let word = |key: &str| say(lang, &format!("push.{key}"));
        let columns = vec![
            Column::left(word("name")),
            Column::left(word("queue")),
            Column::left(word("kinds")).rank(1),
            Column::left(word("url")),
            Column::left(word("state")),
            Column::left(word("from")).rank(2),
        ];
        let row = |item: &PushItem| {
            vec![
                Span::new(item.name.clone(), Tone::Strong),
                Span::plain(item.queue.clone()),
                Span::plain(item.kinds()),
                Span::plain(item.url.clone()),
                item.state(reader),
                Span::plain(item.source(reader)),
            ]
        };
        vec![Block::Listing(Listing { columns, rows: self.items.iter().map(row).collect() })]
    }
}

/// One endpoint, with its secret where that was made just now. JSON: `redrive/push_endpoint.v1`.
#[derive(Serialize)]
pub(crate) struct PushView {
    schema: &'static str,
    #[serde(flatten)]
    item: PushItem,
    #[serde(skip_serializing_if = "Option::is_none")]
    new_secret: Option<String>,
}

impl PushView {
    pub(crate) fn new(item: PushItem, new_secret: Option<String>) -> PushView {
        PushView { schema: "redrive/push_endpoint.v1", item, new_secret }
    }
}

impl Page for PushView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        let item = &self.item;
        let word = |key: &str| say(lang, &format!("push.{key}"));
        let calls: [(&str, &dyn std::fmt::Display); 3] = [
            ("concurrency", &item.concurrency),
            ("batch", &item.batch),
            ("timeout", &human_duration(std::time::Duration::from_millis(item.timeout_ms))),
        ];
        let mut fields = vec![
            (word("name"), Span::new(item.name.clone(), Tone::Strong)),
            (word("state"), item.state(reader)),
            (word("queue"), Span::plain(item.queue.clone())),
            (word("kinds"), Span::plain(item.kinds())),
            (word("url"), Span::plain(item.url.clone())),
            (word("calls"), Span::plain(text(lang, "push.at-once", &calls))),
            (word("secrets"), Span::plain(item.secrets.to_string())),
            (word("from"), Span::plain(item.source(reader))),
        ];
        if let Some(why) = &item.disabled_why {
            fields.insert(2, (word("why"), Span::new(own(lang, why), Tone::Warn)));
        }
        vec![Block::Fields(fields)]
    }
}

/// JSON: `redrive/push_endpoint_removed.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct PushRemovedView {
    schema: &'static str,
    name: String,
}

impl PushRemovedView {
    pub(crate) fn new(name: String) -> PushRemovedView {
        PushRemovedView { schema: "redrive/push_endpoint_removed.v1", name }
    }
}

impl Page for PushRemovedView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let line = text(reader.lang, "push.removed", &[("name", &self.name)]);
        vec![Block::Text(vec![Span::new(line, Tone::Good)])]
    }
}
