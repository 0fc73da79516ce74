//! What a person sees who types `redrive` for the first time: three lines, and nothing is made.

use serde::Serialize;

use super::{Block, Page, Reader, Span, Tone};
use crate::text::say;

/// Where to begin.
#[derive(Debug, Serialize)]
pub(crate) struct WelcomeView {}

impl Page for WelcomeView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let line = |key: &str, tone: Tone| Block::Text(vec![Span::new(say(reader.lang, key), tone)]);
        vec![
            line("welcome.what", Tone::Heading),
            line("welcome.begin", Tone::Plain),
            line("welcome.more", Tone::Dim),
        ]
    }
}
