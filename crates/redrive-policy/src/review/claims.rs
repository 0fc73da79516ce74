//! Q1: which files does the output say it has made or changed?
//!
//! Precision before recall: a claim that nobody made rejects good work. So a claim is a verb of the past at the head of its
//! sentence with a path right behind it, a path of which that is said, a list under a heading that says it, or the title of
//! a fenced block. What should be done, what somebody else did, and what an error message names is none.

use std::sync::LazyLock;

use regex::Regex;

use super::document::{Line, Place};
use super::patterns::regex;

/// A file that the output claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The path as it was written.
    pub path: String,
    /// Where it was claimed, counted from 1.
    pub line: u32,
    /// It was made, rather than changed; what it holds is then all the work of this output.
    pub created: bool,
}

/// More claims than this are not looked up.
pub const MAX_CLAIMS: usize = 200;

const EXTENSIONS: &str = "rs|tsx?|jsx?|mjs|cjs|mts|cts|py|pyi|go|java|kts?|c|h|cc|cpp|cxx|hpp|cs|rb|php|swift|scala|sql|sh|bash|zsh|fish|ps1|bat|html?|css|scss|less|json5?|jsonl|ya?ml|toml|mdx?|txt|xml|csv|tsv|lock|cfg|conf|ini|env|proto|graphql|vue|svelte|astro|dart|lua|r|jl|exs?|erl|hs|mli?|cljs?|tf|hcl|gradle|properties|ipynb|pdf|png|jpe?g|svg|gif|ico|webp|docx|xlsx|pptx|rst|tex|log|diff|patch|snap|sum|mod|prisma|zig|nix|vim|el|sol|wasm|zip|tar|gz|db|sqlite|parquet|example|template|tmpl|plist|service|dockerfile|gitignore|dockerignore|editorconfig|npmrc";
const NAMES: &str = "Makefile|Dockerfile|Containerfile|Justfile|Procfile|Gemfile|Rakefile|Jenkinsfile|Vagrantfile|LICENSE|CHANGELOG|CODEOWNERS|README|\\.gitignore|\\.dockerignore|\\.editorconfig|\\.env";

fn path_pattern() -> String {
    let segment = r"[\w@+.\-\[\]$～]";
    format!(r"(?:~/|\.{{1,2}}/|/)?(?:{segment}+/)*(?:{segment}*\.(?:{EXTENSIONS})|{NAMES})(?-u:\b|\z)")
}

/// A path, maybe in backticks, quotes, brackets of Markdown or emphasis.
fn dressed() -> String {
    format!(
        r#"(?:\*\*|__)?[`"'“「『\[]?(?P<path>{})[`"'”」』\]]?(?:\([^)\s]{{1,200}}\))?(?:\*\*|__)?"#,
        path_pattern()
    )
}

const FILLER: &str = r"(?:\s+(?:a|an|the|new|file|files|module|component|test|tests|script|configuration|config|document|documentation|report|output|outputs|to|in|into|at|as|named|called|following|my|our|all|it|them|this|results?|changes|successfully|also|existing|unit|integration|source|content|contents|code|summary|data|class|page|template|schema|migration|stylesheet|header|entry|implementation))*";
const VERBS: &str = "created|wrote|written|modified|updated|edited|generated|saved|changed|rewrote|rewritten|added|refactored|implemented|exported|extended";

static ACTIVE: LazyLock<Regex> = LazyLock::new(|| {
    regex(&format!(
        r"(?i)(?:^|[.!。]\s+|,?\s+(?:and|then)\s+|;\s+)(?:[\W\d]{{0,8}}(?:step \d+:\s*)?)(?:(?:i|we|i've|i’ve|we've|have|has|had|successfully|also|then|now|just|file|files)\s+){{0,5}}(?P<verb>{VERBS}){FILLER}(?:\s+\d+\s+(?:lines|bytes|files|tests|chars|characters|rows|records)\s+(?:to|in|into))?\s*(?:successfully)?(?:\s+(?:at|to|in|as))?\s*[:：]?\s+{}",
        dressed()
    ))
});
static PASSIVE: LazyLock<Regex> = LazyLock::new(|| {
    regex(&format!(
        r"(?i){}\s*(?:(?:has|have)\s+(?:now\s+|also\s+)?been\s+|was\s+|were\s+|is\s+now\s+)(?:successfully\s+|newly\s+|also\s+)?(?P<verb>created|written|updated|modified|generated|saved|added|rewritten|edited)\b",
        dressed()
    ))
});
static LABELLED: LazyLock<Regex> = LazyLock::new(|| {
    regex(&format!(
        r"(?i)^\W*{}\s*[-–—:(\[]+\s*(?P<verb>created|written|updated|modified|new file|new|changed|作成|新規|更新|新規作成|変更|修正|追加)(?:済み|しました)?\s*[)\]]?\W*$",
        dressed()
    ))
});
static JAPANESE_AFTER: LazyLock<Regex> = LazyLock::new(|| {
    regex(&format!(
        r"{}\s*(?:ファイル)?\s*(?:を|に|へ|として|の)\s*(?:[^。、\s]{{0,24}}を)?\s*(?:新規に?|新たに)?\s*(?P<verb>作成|生成|新規作成|更新|修正|変更|追加|保存|編集|書き込み|書き込|書き出し|出力|実装|追記|改修)(?:しました|いたしました|みました|済みです|済み|を行いました|完了しました)",
        dressed()
    ))
});
static JAPANESE_BEFORE: LazyLock<Regex> = LazyLock::new(|| {
    regex(&format!(
        r"(?:ファイル(?:を|の|に)?)?\s*(?P<verb>作成|生成|新規作成|更新|修正|変更|追加|保存|編集|出力)(?:しました|いたしました|した|済み|完了)(?:ファイル)?\s*[:：]\s*{}",
        dressed()
    ))
});
static AND_MORE: LazyLock<Regex> = LazyLock::new(|| {
    regex(&format!(r"^\s*(?:,\s*(?:and\s+)?|、|\s+and\s+|\s*&\s*|と|および|及び)\s*{}", dressed()))
});
static HEADING: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?ix)^[\#*_\s\W]*(?:
          (?:(?:new|all)\s+)?files?\s+(?:i\s+(?:have\s+)?|that\s+were\s+)?(?P<v1>created|modified|changed|updated|added|written|generated|edited)(?:\s*(?:/|and|or|,)\s*(?:created|modified|changed|updated|added|edited))*
         |(?P<v2>created|modified|changed|updated|added|new|generated|edited)(?:\s*(?:/|and|,)\s*(?:created|modified|changed|updated|added|edited))*\s+(?:the\s+following\s+)?files?
         |(?:i(?:'ve|\s+have)?\s+)?(?P<v3>created|modified|changed|updated|added|generated)(?:\s+the\s+following(?:\s+files?)?)?
         |(?P<v4>作成|変更|更新|修正|追加|新規作成|生成|編集)(?:した|された|済み)?(?:・(?:変更|更新|修正|作成))?(?:した)?(?:ファイル|のファイル)(?:一覧|は以下の通りです|は次の通りです)?
         |(?:以下|次)のファイルを(?P<v5>作成|変更|更新|修正|追加|生成)(?:しました|いたしました)
         )[\s*_]*(?:\(\d+\))?\s*[:：。]?[\s*_]*$",
    )
});
static BULLET: LazyLock<Regex> = LazyLock::new(|| {
    regex(&format!(r"^\s*(?:[-*+•・]|\d+[.)])\s+(?:[✓✔✅☑]\s*)?{}(?P<rest>.*)$", dressed()))
});
static TITLE: LazyLock<Regex> = LazyLock::new(|| {
    regex(&format!(
        r#"^(?:[\w+#-]*[\s:]+)?(?:\{{?\s*(?:title|file|filename|path|name)\s*=\s*)?["']?(?P<path>{})["']?\}}?\s*$"#,
        path_pattern()
    ))
});
/// Not done, not yet, not here, not by this output, or not well.
static NOT_DONE: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?ix)\b(?:if|once|when|whenever|unless|until|should|would|could|can|may|might|must|will|'ll|going\ to|need(?:s|ed)?\ to|to\ be|please|let\ me|let's|you|your|they|users?|someone|previously|example|e\.g\.|not|n't|never|error|errors|warning|fatal|failed|failure|exception|cannot|unable|no\ such|denied|missing|traceback|panicked|instead\ of|by\ default|automatically|deleted|removed)\b|n't\b
        |ください|場合|たら|ませんでした|していません|されません|すれば|エラー|失敗|できません|予定|例えば|例：|もし",
    )
});
/// Names of programs that look like files.
static A_PROGRAM: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)^(?:node|vue|next|nuxt|react|express|three|d3|chart|moment|socket|angular|ember|backbone|nest|electron|alpine|p5|discord|day|handlebars|underscore|solid|ext|knockout|require|plotly|tensorflow|ml5|mocha|matter|babylon|pixi|full\w*|deck|polymer|bun|paper|popper|highlight|prism|hls|fuse|lit|hono)\.(?:js|ts|py)$|^[A-Z]\.[a-z]$|^(?:e\.g|i\.e)\b",
    )
});

/// Collects what is claimed, line by line.
#[derive(Default)]
pub(super) struct Claims {
    pub(super) found: Vec<Claim>,
    /// Under a heading that says so; whether what it lists was made.
    listing: Option<bool>,
}

impl Claims {
    /// Whether a list of files goes on.
    pub(super) fn is_listing(&self) -> bool {
        self.listing.is_some()
    }

    pub(super) fn line(&mut self, line: &Line<'_>) {
        match line.place {
            Place::Opening(info) => {
                if let Some(path) = TITLE.captures(info).and_then(|found| found.name("path"))
                    && (path.as_str().contains('/') || path.start() > 0)
                {
                    self.add(path.as_str(), line.number, true);
                }
            }
            Place::Prose => self.prose(line.text, line.number),
            Place::Closing | Place::Code(..) => {}
        }
    }

    fn prose(&mut self, text: &str, number: u32) {
        if text.trim().is_empty() || text.len() > MAX_LINE {
            return;
        }
        if let Some(heading) = HEADING.captures(text) {
            let verb = (1..heading.len()).find_map(|group| heading.get(group));
            self.listing = Some(verb.is_some_and(|verb| is_created(verb.as_str())));
            return;
        }
        if let Some(created) = self.listing {
            if let Some(bullet) = BULLET.captures(text) {
                let rest = bullet.name("rest").map_or("", |rest| rest.as_str());
                if let Some(path) = bullet.name("path")
                    && !NOT_DONE.is_match(rest)
                {
                    self.add(path.as_str(), number, created);
                }
                return;
            }
            let is_part_of_item = text.starts_with([' ', '\t']);
            if !is_part_of_item {
                self.listing = None;
            }
        }
        for pattern in [&*ACTIVE, &*PASSIVE, &*LABELLED, &*JAPANESE_AFTER, &*JAPANESE_BEFORE] {
            for found in pattern.captures_iter(text).take(MAX_CLAIMS) {
                let (Some(whole), Some(path), Some(verb)) =
                    (found.get(0), found.name("path"), found.name("verb"))
                else {
                    continue;
                };
                let sentence = sentence(text, whole.start(), whole.end());
                if NOT_DONE.is_match(sentence) || is_in_address(text, path.start()) {
                    continue;
                }
                let created = is_created(verb.as_str());
                self.add(path.as_str(), number, created);
                let mut at = whole.end();
                while let Some(next) = AND_MORE.captures(&text[at..]) {
                    let (Some(whole), Some(path)) = (next.get(0), next.name("path")) else { break };
                    self.add(path.as_str(), number, created);
                    at += whole.end();
                }
            }
        }
    }

    fn add(&mut self, path: &str, line: u32, created: bool) {
        let path = path.trim_end_matches('.');
        if A_PROGRAM.is_match(path) || self.found.len() >= MAX_CLAIMS {
            return;
        }
        if let Some(known) = self.found.iter_mut().find(|claim| claim.path == path) {
            known.created |= created;
            return;
        }
        self.found.push(Claim { path: path.to_owned(), line, created });
    }
}

/// Whether a line can name a file, or be the heading over a list of them: a glance, before it is read.
pub(super) fn may_name_a_file(text: &str) -> bool {
    const HEADING_CHARS: usize = 120;
    let has_extension = |pair: &[u8]| pair[0] == b'.' && pair[1].is_ascii_alphanumeric();
    text.len() <= HEADING_CHARS
        || text.as_bytes().windows(2).any(has_extension)
        || ["file", "README", "LICENSE", "CHANGELOG", "CODEOWNERS"].iter().any(|name| text.contains(name))
}

/// Longer lines are data.
const MAX_LINE: usize = 4_096;

fn is_created(verb: &str) -> bool {
    let verb = verb.to_lowercase();
    ["created", "wrote", "written", "generated", "new", "作成", "生成", "新規"]
        .iter()
        .any(|made| verb.starts_with(made))
}

/// The sentence around a claim; a dot within a path ends none.
fn sentence(text: &str, from: usize, to: usize) -> &str {
    let begin = [". ", "。", "! ", "; "]
        .iter()
        .filter_map(|end| text[..from].rfind(end).map(|at| at + end.len()))
        .max();
    let end = [". ", "。", "! ", "; "].iter().filter_map(|end| text[to..].find(end)).min();
    &text[begin.unwrap_or(0)..end.map_or(text.len(), |at| to + at)]
}

fn is_in_address(text: &str, at: usize) -> bool {
    let word = text[..at].rsplit(char::is_whitespace).next().unwrap_or_default();
    word.contains("://") || word.ends_with("//") || word.ends_with("www.")
}
