//! A curve of delays: numbers for machines, a drawing for people.

use std::time::Duration;

use redrive_policy::{Backoff, human_duration, round_to_millis};
use serde::{Serialize, Serializer};

use super::backoff::in_words;
use super::{Bar, Bars, Block, Page, Reader, Span, Tone};
use crate::text::{say, text};

/// The delays before each retry. JSON: `{"delays_ms":[1000,1000,2000]}`.
#[derive(Debug)]
pub(crate) struct DelaysView {
    pub(crate) bars: Vec<Bar>,
    pub(crate) backoff: Backoff,
    /// The policy they belong to and the number of retries it makes, unless the curve stands alone.
    pub(crate) policy: Option<(String, Retries)>,
}

/// How many retries a policy makes of what is looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Retries {
    UpTo(u32),
    /// The cause is not retried at all; the curve is what it would get.
    Never,
}

impl Serialize for DelaysView {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Contract {
            delays_ms: Vec<u64>,
        }
        Contract { delays_ms: self.bars.iter().map(|bar| round_to_millis(bar.delay)).collect() }
            .serialize(serializer)
    }
}

impl Page for DelaysView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        let title = match &self.policy {
            Some((name, _)) => format!("{name}: {}", in_words(&self.backoff, lang)),
            None => in_words(&self.backoff, lang),
        };
        let bars = Bars {
            labels: [say(lang, "delays.retry"), say(lang, "delays.wait"), say(lang, "delays.total")],
            rows: self.bars.clone(),
            cap: self.backoff.cap,
            last: self.policy.as_ref().map(|(_, retries)| match retries {
                Retries::UpTo(max) => *max,
                Retries::Never => 0,
            }),
        };
        let mut blocks = vec![Block::Heading(title), Block::Bars(bars), Block::Gap];
        let cap = human_duration(self.backoff.cap);
        let capped = self.bars.iter().find(|bar| bar.delay >= self.backoff.cap);
        let about_cap = match capped {
            Some(bar) => text(lang, "delays.capped", &[("cap", &cap), ("number", &bar.number)]),
            None => text(lang, "delays.not-capped", &[("cap", &cap)]),
        };
        blocks.push(Block::Text(vec![Span::new(about_cap, Tone::Dim)]));
        if self.bars.iter().any(|bar| bar.low < bar.high) {
            blocks.push(Block::Text(vec![Span::new(say(lang, "delays.legend"), Tone::Dim)]));
        }
        let shown = u32::try_from(self.bars.len()).unwrap_or(u32::MAX);
        match &self.policy {
            Some((name, Retries::UpTo(max))) if *max < shown => {
                let gives_up = text(lang, "delays.gives-up", &[("policy", name), ("max", max)]);
                blocks.push(Block::Text(vec![Span::new(gives_up, Tone::Warn)]));
            }
            // A note has said so already.
            Some((_, Retries::Never | Retries::UpTo(_))) | None => {}
        }
        blocks
    }
}

/// The sum so far; what no longer fits stays at the end of time.
pub(crate) fn add(total: Duration, delay: Duration) -> Duration {
    total.saturating_add(delay)
}
