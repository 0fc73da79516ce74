//! Policies: all of them in a list, or one with what it does about every cause.

use redrive_policy::{Cause, CauseSet, Class, Entry, Failure, Lang, Policy, PolicySpec, human_duration};
use redrive_server::shape::policy::{PolicyLine, PolicyWhole};
use serde::Serialize;

use super::backoff::in_words;
use super::{Align, Block, Page, Reader, Span, Table, Tone};
use crate::escape::width;
use crate::text::{say, text};

/// Every policy that can be named.
#[derive(Debug, Serialize)]
pub(crate) struct PoliciesView {
    schema: &'static str,
    items: Vec<PolicyItem>,
}

#[derive(Debug, Serialize)]
struct PolicyItem {
    #[serde(flatten)]
    line: PolicyLine,
    #[serde(skip)]
    policy: Policy,
}

impl PoliciesView {
    /// The view of these policies; `own` are those of the configuration file.
    pub(crate) fn new(policies: Vec<Policy>, own: impl Fn(&str) -> bool, default: &str) -> PoliciesView {
        let items = policies.into_iter().map(|policy| PolicyItem {
            line: PolicyLine::new(&policy, own(&policy.name), policy.name == default),
            policy,
        });
        PoliciesView { schema: "redrive/policies.v1", items: items.collect() }
    }
}

impl Page for PoliciesView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        let rows = self.items.iter().map(|item| {
            let name = if item.line.is_default {
                Span::new(format!("{} *", item.line.name), Tone::Good)
            } else {
                Span::new(item.line.name.clone(), Tone::Strong)
            };
            vec![
                name,
                Span::plain(retries_in_words(&item.policy)),
                Span::plain(in_words(&item.policy.backoff, lang)),
                Span::plain(causes_in_words(item.policy.retry_on, lang)),
                Span::new(say(lang, &format!("policy.origin.{}", item.line.origin)), Tone::Dim),
            ]
        });
        let columns = [
            ("name", Align::Left),
            ("retries", Align::Right),
            ("delays", Align::Left),
            ("retried", Align::Left),
            ("from", Align::Left),
        ];
        let table = Table {
            columns: columns.map(|(key, align)| (say(lang, &format!("policy.{key}")), align)).to_vec(),
            rows: rows.collect(),
        };
        vec![Block::Table(table), Block::Text(vec![Span::new(say(lang, "policy.list-note"), Tone::Dim)])]
    }
}

/// How many retries the causes get that are retried: `3`, or `2–5` when they differ. Crashes have a budget of
/// their own.
fn retries_in_words(policy: &PolicySpec) -> String {
    match retries(policy) {
        (least, most) if least != most => format!("{least}–{most}"),
        (least, _) => least.to_string(),
    }
}

/// The least and the most retries that a cause gets which is retried; crashes apart.
pub(crate) fn retries(policy: &PolicySpec) -> (u32, u32) {
    let causes = policy.retry_on.minus(CauseSet::of(&[Cause::Crashed]));
    let retries = || causes.iter().map(|cause| policy.max_retries_for(&Failure::of(cause)));
    (retries().min().unwrap_or(0), retries().max().unwrap_or(0))
}

/// A set of causes in a few words: by class where it is one, else by name.
fn causes_in_words(causes: CauseSet, lang: Lang) -> String {
    let transient = CauseSet::of_class(Class::Transient);
    if causes == CauseSet::ALL {
        return say(lang, "policy.all-causes");
    }
    let names = |set: CauseSet| set.iter().map(Cause::name).collect::<Vec<_>>().join(", ");
    if !transient.minus(causes).is_empty() {
        return names(causes);
    }
    let others = causes.minus(transient);
    if others.is_empty() {
        say(lang, "policy.transient")
    } else {
        text(lang, "policy.transient-and", &[("names", &names(others))])
    }
}

/// One policy in full.
#[derive(Debug, Serialize)]
pub(crate) struct PolicyView {
    schema: &'static str,
    #[serde(flatten)]
    whole: PolicyWhole,
    #[serde(skip)]
    policy: Policy,
}

impl PolicyView {
    pub(crate) fn new(policy: Policy, own: bool) -> PolicyView {
        PolicyView { schema: "redrive/policy.v1", whole: PolicyWhole::new(&policy, own), policy }
    }
}

impl Page for PolicyView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        let policy = &self.policy;
        let limit = text(
            lang,
            &format!("policy.retry-after.{}", policy.on_long_retry_after),
            &[("limit", &human_duration(policy.max_retry_after))],
        );
        let fields = vec![
            (say(lang, "policy.name"), Span::new(self.whole.name.clone(), Tone::Strong)),
            (
                say(lang, "policy.from"),
                Span::plain(say(lang, &format!("policy.origin.{}", self.whole.origin))),
            ),
            (say(lang, "policy.retries"), Span::plain(retries_in_words(policy))),
            (say(lang, "policy.delays"), Span::plain(in_words(&policy.backoff, lang))),
            (say(lang, "policy.crash-budget"), Span::plain(policy.crash_budget.to_string())),
            ("Retry-After".to_owned(), Span::plain(limit)),
        ];
        let mut blocks = vec![Block::Fields(fields), Block::Gap, Block::Table(self.causes_table(lang))];
        for (number, entry) in (1..).zip(by_code(policy)) {
            blocks.push(Block::Text(vec![Span::plain(text(lang, "policy.with-codes", &[("n", &number)]))]));
            blocks.extend(lines_of(&entry.codes).map(|line| Block::Text(vec![Span::new(line, Tone::Dim)])));
        }
        blocks
    }
}

/// The entries that are narrowed to some codes, in the order of their footnotes.
fn by_code(policy: &PolicySpec) -> impl Iterator<Item = &Entry> {
    policy.entries.iter().filter(|entry| !entry.codes.is_empty())
}

/// Names in indented lines of a width that can be read; a name is never broken.
fn lines_of(names: &[String]) -> impl Iterator<Item = String> {
    const WIDTH: usize = 76;
    let mut lines: Vec<String> = Vec::new();
    for (i, name) in names.iter().enumerate() {
        let name = if i + 1 < names.len() { format!("{name},") } else { name.clone() };
        match lines.last_mut() {
            Some(line) if width(line) + 1 + width(&name) <= WIDTH => {
                line.push(' ');
                line.push_str(&name);
            }
            _ => lines.push(format!("    {name}")),
        }
    }
    lines.into_iter()
}

impl PolicyView {
    fn causes_table(&self, lang: Lang) -> Table {
        let mut rows = Vec::new();
        for view in &self.whole.causes {
            let failure = Failure::of(view.cause);
            let retried = if view.retried {
                Span::new(say(lang, "yes"), Tone::Good)
            } else {
                Span::new(say(lang, "no"), Tone::Bad)
            };
            let delays =
                if view.retried { in_words(self.policy.backoff_for(&failure), lang) } else { "-".to_owned() };
            rows.push(vec![
                Span::plain(view.cause.name()),
                retried,
                Span::plain(view.max_retries.to_string()),
                Span::plain(delays),
            ]);
            // Entries narrowed by code differ from what the cause alone gets; their codes stand below.
            for (number, entry) in (1..).zip(by_code(&self.policy)) {
                if entry.causes.contains(view.cause) {
                    let max = entry.max_retries.unwrap_or(self.whole.max_retries);
                    let backoff = entry.backoff.as_ref().unwrap_or(&self.policy.backoff);
                    rows.push(vec![
                        Span::plain(format!("{} [{number}]", view.cause.name())),
                        Span::new(say(lang, "yes"), Tone::Good),
                        Span::plain(max.to_string()),
                        Span::plain(in_words(backoff, lang)),
                    ]);
                }
            }
        }
        let columns = [
            ("policy.cause", Align::Left),
            ("policy.is-retried", Align::Left),
            ("policy.retries", Align::Right),
            ("policy.delays", Align::Left),
        ];
        Table { columns: columns.map(|(key, align)| (say(lang, key), align)).to_vec(), rows }
    }
}
