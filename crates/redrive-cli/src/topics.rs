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

topics!(
    "runbook",
    "redrive",
    "canary",
    "groups",
    "tasks",
    "snapshots",
    "idempotency",
    "server",
    "filter",
    "policies",
    "store",
    "output",
    "exit-codes"
);

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

    /// R-C1: the guide names the topics that there are.
    #[test]
    fn the_guide_names_every_topic() {
        let guide = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
        let guide = std::fs::read_to_string(guide).unwrap();
        let row = guide.lines().find(|line| line.starts_with("| `help [COMMAND]`, `help TOPIC`")).unwrap();
        let named = row
            .split('`')
            .skip(1)
            .step_by(2)
            .filter(|name| !name.contains([' ', '-', '[']) || *name == "exit-codes");
        let (mut named, mut there): (Vec<&str>, Vec<&str>) =
            (named.collect(), TOPICS.iter().map(|topic| topic.name).collect());
        named.sort_unstable();
        there.sort_unstable();
        assert_eq!(named, there);
    }

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

    /// The commands of a line as words; what stands behind `#` is for people, and `|`, `<` and `>` are the shell's.
    fn commands(line: &str) -> Vec<Vec<String>> {
        let (mut commands, mut words, mut word, mut quote) = (Vec::new(), Vec::new(), None::<String>, None);
        for c in line.chars() {
            match (quote, c) {
                (Some(open), c) if c == open => quote = None,
                (None, '"' | '\'') => {
                    quote = Some(c);
                    word.get_or_insert_default();
                }
                (None, '#') if word.is_none() => break,
                (None, '|' | '<' | '>') if word.is_none() => commands.push(std::mem::take(&mut words)),
                (None, ' ') => words.extend(word.take()),
                (_, c) => word.get_or_insert_default().push(c),
            }
        }
        words.extend(word);
        commands.push(words);
        commands.retain(|words| words.first().is_some_and(|first| first == "redrive"));
        commands
    }

    /// What stands for something is replaced by such a thing.
    fn filled(word: String) -> String {
        match word.as_str() {
            "ID" | "…" | "{job}" => "job_17".to_owned(),
            "NAME" => "mail".to_owned(),
            "FINGERPRINT" => "9012f945".to_owned(),
            _ => word,
        }
    }

    /// Lines and quoted pieces of Markdown that are command lines.
    fn typed(markdown: &str) -> Vec<String> {
        let quoted = markdown.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
        let lines =
            markdown.lines().map(str::trim).filter(|line| !line.starts_with('|') && !line.contains('`'));
        let begins = |text: &&str| text.starts_with("redrive ") || text.contains("| redrive ");
        quoted.chain(lines).filter(begins).map(ToOwned::to_owned).collect()
    }

    /// R-C2: whatever a topic or an example tells people to type is understood.
    #[test]
    fn what_is_to_be_typed_can_be_typed() {
        let mut seen = 0;
        let messages = [include_str!("../messages/en.toml"), include_str!("../messages/ja.toml")];
        let examples = messages.iter().flat_map(|text| text.lines().filter(|line| line.starts_with("  ")));
        let examples: Vec<String> = examples.flat_map(typed).collect();
        let topics = TOPICS.iter().flat_map(|topic| [topic.en, topic.ja]).flat_map(typed);
        for line in topics.chain(examples) {
            for words in commands(line.trim_end_matches("\"\"\"")) {
                let words: Vec<_> = words.into_iter().map(filled).map(std::ffi::OsString::from).collect();
                seen += 1;
                if let Err(error) = crate::args::parse(&words, Lang::En) {
                    let shows_help = !error.use_stderr();
                    assert!(shows_help, "{line}\n{words:?}\n{error}");
                }
            }
        }
        assert!(seen > 150, "{seen}");
    }

    /// R-C2: a flag that a topic names is a flag of some command.
    #[test]
    fn every_flag_in_a_topic_exists() {
        fn flags(command: &clap::Command, known: &mut std::collections::BTreeSet<String>) {
            known.extend(command.get_arguments().filter_map(|arg| Some(format!("--{}", arg.get_long()?))));
            command.get_subcommands().for_each(|sub| flags(sub, known));
        }
        let mut known = std::collections::BTreeSet::new();
        flags(&crate::args::tree(Lang::En), &mut known);
        for markdown in TOPICS.iter().flat_map(|topic| [topic.en, topic.ja]) {
            let words = markdown.split(|c: char| !(c.is_ascii_alphanumeric() || "-_".contains(c)));
            for flag in
                words.filter(|word| word.starts_with("--") && word.len() > 2 && !word.starts_with("---"))
            {
                assert!(known.contains(flag), "{flag}");
            }
        }
    }
}
