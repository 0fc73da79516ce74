//! Q2: words that mark what is left to be done.
//!
//! In capitals such a word is a mark wherever it stands, unless it is only mentioned (quoted, said to be gone, the name of
//! something). In small letters it is an ordinary word of many programs and counts where a mark would stand: at the
//! beginning of a comment, or before a colon.

use std::sync::LazyLock;

use regex::Regex;

use super::document::{Line, Place, within};
use super::lexer::{Kind, Piece};
use super::patterns::regex;

static MARK: LazyLock<Regex> = LazyLock::new(|| regex(r"(?i)(?-u:\b)(?:todo|fixme|tbd|hack|xxx)(?-u:\b)"));

/// What is said to be gone, looked for or refused is not left to be done.
static NONE_BEFORE: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?ix)
        \b(?:no|zero|0|without|free\ (?:of|from)|never|neither|nor|not|any|none\ of\ the|don't|doesn't|avoid\w*|
           search\w*|grep\w*|scan\w*|look\w*|check\w*|reject\w*|detect\w*|flag\w*|forbid\w*|find\w*|warn\w*|ignor\w*)
           \b[^.:;。]{0,60}$",
    )
});
static GONE_BEFORE: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?ix)
        \b(?:all|every|each|remaining|old|last|existing|resolv\w+|remov\w+|clear\w+|clean\w+|eliminat\w+|address\w+|replac\w+|
           delet\w+|complet\w+|fixed|implemented|finish\w+|got\ rid\ of|dropp?\w+)
           \b[^.,:;。、]{0,40}$",
    )
});
static GONE_AFTER: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?ix)^
        (?:[^.:;。]{0,40}\b(?:removed|resolved|gone|addressed|eliminated|cleared|cleaned\ up|completed|done|implemented|
             not\ (?:allowed|present|found|left|used)|no\ longer|found:\ 0|are\ (?:rejected|forbidden))\b
        |s?\s*[:=：]\s*(?:none|0|nothing|n/?a|なし|無し|ゼロ|ありません)\b
        |[^。:：]{0,20}(?:ありません|なし|無し|ませんでした|残っていません|残していません|残さず|残さない|含みません|含まれていません|
             含まれません|含まない|存在しません|見つかりません|見当たりません|ゼロ|0\s*件|削除|解消|除去|取り除|対応済|消しました|
             完了|使わない|使いません|使用しません|使用しない|禁止|検出))",
    )
});
/// Still there, whatever else the sentence says.
static STILL: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)\b(?:still|remains?|left to|need to|needs to|must be)\b|残って(?:い|お)(?:ます|る|り)|未対応|未実装",
    )
});
/// The name of something: an app, a list, the marks themselves.
static NAMED: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?ix)^[\ -]?(?:(?:lists?|apps?|applications?|items?|pages?|entry|entries|boards?|components?|models?|trees?|mvc|api|
            comments?|markers?|marks?|tags?|keywords?|words?|tasks?|highlight\w*|tracker|management)(?-u:\b)|
            アプリ|リスト|管理|一覧|項目|機能|コメント|マーカー|タスク|画面|という|と書|といった)",
    )
});
static CALLED_A_HACK: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"(?i)\b(?:a|ugly|dirty|quick|nasty|gross|temporary|horrible|bad|terrible|awful)\s+$")
});

/// The first mark of a line, as its place in bytes.
pub(super) fn find(line: &Line<'_>, quoted: &[(usize, usize)]) -> Option<(usize, usize)> {
    if let Place::Code(language, _) = line.place
        && language.name == "diff"
        && line.text.starts_with('-')
    {
        // What a patch takes away.
        return None;
    }
    MARK.find_iter(line.text)
        .find(|found| {
            let piece =
                line.pieces.iter().find(|piece| piece.from <= found.start() && found.start() < piece.to);
            piece.is_some_and(|piece| {
                is_mark(line, *piece, found.start(), found.as_str(), within(quoted, found.start()))
            })
        })
        .map(|found| (found.start(), found.end()))
}

fn is_mark(line: &Line<'_>, piece: Piece, at: usize, word: &str, is_quoted: bool) -> bool {
    let before = &line.text[..at];
    let after = &line.text[at + word.len()..];
    let lower = word.to_ascii_lowercase();
    let is_upper = word.bytes().all(|byte| byte.is_ascii_uppercase());
    if lower == "xxx" && !is_upper {
        return false;
    }
    let leads_comment = piece.kind == Kind::Comment && is_leader(&line.text[piece.from..at]);
    let leads_line = is_bullet(before);
    if !leads_comment && is_part_of_a_name(before, after) {
        return false;
    }
    let is_tagged = is_tagged(after);
    match piece.kind {
        Kind::Code => match lower.as_str() {
            "todo" if word == "todo" => {
                after.starts_with("!(") || after.starts_with("![") || after.starts_with("!{")
            }
            _ if !is_upper => false,
            _ => !is_identifier(before, after) && (leads_line || is_tagged),
        },
        Kind::Text => is_upper && is_tagged && !is_gone(before, after),
        Kind::Comment => {
            if is_quoted || is_gone(before, after) {
                return false;
            }
            let is_named = NAMED.is_match(after) && !STILL.is_match(line.text) && !is_tagged;
            match lower.as_str() {
                "fixme" | "tbd" => true,
                _ if is_named => false,
                _ if is_upper || leads_comment || (leads_line && is_tagged) => true,
                "hack" => is_tagged || CALLED_A_HACK.is_match(before),
                _ => is_tagged,
            }
        }
        Kind::Prose => {
            let is_inline_code = before.ends_with('`') || (is_quoted && !before.ends_with(['"', '“', '「']));
            if is_inline_code || is_gone(before, after) || (is_quoted && !(is_upper && is_tagged)) {
                return false;
            }
            let is_named = NAMED.is_match(after) && !STILL.is_match(line.text) && !is_tagged;
            match lower.as_str() {
                "fixme" | "tbd" => true,
                _ if is_named => false,
                _ if is_upper => true,
                _ => leads_line && (is_tagged || after.trim_matches(['*', '_', '#', ' ']).is_empty()),
            }
        }
    }
}

fn is_gone(before: &str, after: &str) -> bool {
    let near = &before[before.ceil_char_boundary(before.len().saturating_sub(120))..];
    let far = &after[..after.floor_char_boundary(200)];
    NONE_BEFORE.is_match(near)
        || ((GONE_BEFORE.is_match(near) || GONE_AFTER.is_match(far)) && !STILL.is_match(far))
}

/// `TODO:`, `TODO(ada)`, `todo!`, `TODO - …`: somebody left it for later.
fn is_tagged(after: &str) -> bool {
    let spaced = after.trim_start();
    (spaced.starts_with([':', '：']) && !spaced.starts_with("::"))
        || after.starts_with('(')
        || after.starts_with("!(")
        || [" - ", " – ", " — ", "] "].iter().any(|dash| after.starts_with(dash))
}

/// `TODO-123`, `XXX-XXXX`, `src/todo.rs`, `Status.TODO`, `--todo`: a part of something longer.
fn is_part_of_a_name(before: &str, after: &str) -> bool {
    let last = before.chars().next_back();
    let mut ahead = after.chars();
    let (next, then) = (ahead.next(), ahead.next());
    let joins = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    matches!(last, Some('.' | '/' | '\\' | '@' | '$' | '&' | '?' | '-' | '%'))
        || (matches!(next, Some('-' | '.' | '/' | '\\' | '=' | '@')) && joins(then))
        || (last == Some(':') && before.ends_with("::"))
        || after.starts_with("::")
}

/// `case TODO:`, `TODO = 1`, `[TODO, DONE]`: a name that code gives.
fn is_identifier(before: &str, after: &str) -> bool {
    let before = before.trim_end();
    let last_word = before.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    if after.starts_with('(') {
        // Kotlin's `TODO("…")` is a call that fails; where it is declared it is a name.
        return matches!(last_word, "fn" | "fun" | "func" | "def" | "function" | "class" | "define");
    }
    let after = after.trim_start();
    before.ends_with(['(', ',', '[', '=', '<', '>', '|', '&', '!', '{', '+'])
        || after.starts_with(['=', ',', ')', ';', ']', '}', '.', '<', '>', '|', '&', '?', '{'])
        || matches!(
            last_word,
            "case"
                | "enum"
                | "const"
                | "class"
                | "fn"
                | "fun"
                | "func"
                | "def"
                | "function"
                | "static"
                | "let"
                | "var"
                | "is"
        )
}

/// Nothing but what begins a comment.
fn is_leader(text: &str) -> bool {
    text.chars().all(|c| c.is_whitespace() || "/*#-;%<!>@[({'\"".contains(c))
}

/// Nothing but what begins a line: bullets, boxes, numbers, headings, the plus of a patch.
fn is_bullet(text: &str) -> bool {
    text.chars().all(|c| c.is_whitespace() || c.is_ascii_digit() || "-*+•・#>[].)_|☐□".contains(c))
}
