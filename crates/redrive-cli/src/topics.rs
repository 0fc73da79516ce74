//! Help about a subject rather than a command: Markdown files that are part of the program.

use redrive_policy::Lang;
use serde::Serialize;

use crate::view::{Block, Page, Reader};

/// One subject and its text in both languages.
struct Topic {
    name: &'static str,
    en: &'static str,
    ja: &'static str,
}

macro_rules! topics {
    ($($name:literal),+) => {
        const TOPICS: &[Topic] = &[$(Topic {
            name: $name,
            en: include_str!(concat!("../help/en/", $name, ".md")),
            ja: include_str!(concat!("../help/ja/", $name, ".md")),
        }),+];
    };
}

topics!("runbook", "redrive", "canary", "groups", "filter", "policies", "store", "output", "exit-codes");

/// The text of a topic.
pub(crate) fn find(name: &str, lang: Lang) -> Option<TopicView> {
    let topic = TOPICS.iter().find(|topic| topic.name == name)?;
    Some(TopicView { schema: "redrive/help.v1", topic: topic.name, markdown: in_lang(topic, lang) })
}

/// Every topic with its title.
pub(crate) fn all(lang: Lang) -> impl Iterator<Item = (&'static str, &'static str)> {
    TOPICS.iter().map(move |topic| (topic.name, title(in_lang(topic, lang))))
}

const fn in_lang(topic: &Topic, lang: Lang) -> &'static str {
    match lang {
        Lang::En => topic.en,
        Lang::Ja => topic.ja,
    }
}

fn title(markdown: &'static str) -> &'static str {
    markdown.lines().next().unwrap_or_default().trim_start_matches("# ")
}

/// A topic. JSON: `redrive/help.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct TopicView {
    schema: &'static str,
    topic: &'static str,
    markdown: &'static str,
}

impl Page for TopicView {
    fn blocks(&self, _: Reader) -> Vec<Block> {
        vec![Block::Markdown(self.markdown.to_owned())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-C2: both languages tell the same: as many headings, tables, list items and the same commands.
    #[test]
    fn both_languages_tell_the_same() {
        for topic in TOPICS {
            let shape = |text: &str| {
                let count = |mark: &str| text.lines().filter(|line| line.starts_with(mark)).count();
                (count("# "), count("## "), count("| "), count("- "), count("```"))
            };
            assert_eq!(shape(topic.en), shape(topic.ja), "{}", topic.name);
            let commands = |text: &str| {
                let lines = text
                    .lines()
                    .filter(|line| line.starts_with("redrive "))
                    .map(|line| line.split(['#', '\'']).next().unwrap_or_default().trim().to_owned());
                lines.collect::<Vec<_>>()
            };
            assert_eq!(commands(topic.en), commands(topic.ja), "{}", topic.name);
            assert!(!title(topic.ja).is_ascii() && title(topic.en).is_ascii());
        }
    }
}
