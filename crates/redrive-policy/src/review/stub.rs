//! Q2 without a mark: a comment that puts the work off, and a function that does nothing but say so.
//!
//! A method that is there to be overridden is whole, so methods of Python and JavaScript, which write base classes that way,
//! pass; so does whatever carries a message of its own.

use std::sync::LazyLock;

use regex::Regex;

use super::document::{Line, Place};
use super::lexer::Kind;
use super::omission::said_by_comment;
use super::patterns::regex;

/// The whole of a comment that puts it off.
static LATER: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?ix)^(?:
         (?:後|あと)(?:で|から)、?(?:[^。]{1,12}を)?(?:実装|追加|対応|修正|記述|書く|書きます|直す|直します)(?:する|します|予定|すること)?(?:です)?
        |(?:要|未)(?:実装|対応)(?:です)?(?:\s*[:：].{1,60})?
        |(?:この|ここの)?(?:処理|関数|機能|部分|メソッド)は(?:まだ)?未実装(?:です)?
        |(?:今後|別途|後日)、?(?:実装|対応)(?:する|します|予定)(?:です)?|実装予定(?:です)?
        |to\ be\ (?:implemented|written|filled\ in)(?:\ later)?|(?:(?:this\ )?will\ be\ |we(?:'ll|\ will)\ )?(?:implement(?:ed)?|fill(?:ed)?\ in)\ (?:this\ |it\ )?later|(?:this\ is\ )?not\ (?:yet\ implemented|implemented\ yet)|(?:a\ )?stub\ for\ now|implement\ (?:me|this)
        )$",
    )
});
/// In an arm of a match it is a case that cannot be; as a whole body it is a function that is not there.
static UNIMPLEMENTED: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^(?:[^/\x22]*\bfn\s.*\{\s*)?unimplemented!\(\s*\)\s*;?(?P<close>\s*\})?$"));
static RUST_FUNCTION: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^(?:[\w()]+\s+)*fn\s.*\{$|^\)\s*(?:->.*)?\{$"));
static RAISES: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r#"(?i)^raise\s+NotImplementedError\s*(?:\(\s*(?:f?["'](?:[\w.]+ )?(?:is )?not (?:yet )?implemented(?: yet)?[.!]?["'])?\s*\))?$"#,
    )
});
/// A function of Python that is no method.
static PYTHON_FUNCTION: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^(?:async\s+)?def\s+\w+\s*\(\s*(?:(?P<first>\w+)\b.*)?\).*:\s*(?:#.*)?$"));
static THROWS: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r#"(?ix)^(?:throw\s+new\s+(?:Error|UnsupportedOperationException)\(\s*["'`](?:(?:method|function|feature|this)\s+)?(?:is\s+)?not\s+(?:yet\s+)?implemented(?:\s+yet)?[.!]?["'`]\s*\)
        |throw\s+new\s+(?:System\.)?NotImplementedException\(.{0,120}\)
        |panic\(\s*"(?:not\ (?:yet\ )?implemented(?:\ yet)?|unimplemented|implement\ me)"\s*\)
        |fatalError\(\s*"not\ (?:yet\ )?implemented(?:\ yet)?"\s*\))\s*;?$"#,
    )
});
/// What begins a function whose body must be there.
static JAVASCRIPT_FUNCTION: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\bfunction\b.*\{$|^(?:export\s+)?(?:const|let|var)\s+\w+.*=>\s*\{$"));

/// How many lines above are looked at for the head of a function.
const ABOVE: usize = 8;
/// Longer lines are data.
const MAX_LINE: usize = 400;

/// What is put off on this line, as a place in bytes.
pub(super) fn find(line: &Line<'_>) -> Option<(usize, usize)> {
    if line.text.len() > MAX_LINE || matches!(line.place, Place::Opening(_) | Place::Closing) {
        return None;
    }
    let is_prose = matches!(line.place, Place::Prose);
    for piece in line.pieces {
        let part = &line.text[piece.from..piece.to];
        match piece.kind {
            // In prose a line that begins with # is a heading.
            Kind::Comment if !(is_prose && part.trim_start().starts_with('#')) => {
                let says = said_by_comment(part);
                if LATER.is_match(says) {
                    let from = piece.from + part.find(says).unwrap_or_default();
                    return Some((from, from + says.len()));
                }
            }
            Kind::Comment | Kind::Prose | Kind::Text | Kind::Code => {}
        }
    }
    let Place::Code(language, body) = line.place else { return None };
    let statement = line.text.trim();
    let is_stub = match language.name {
        "python" => RAISES.is_match(statement) && is_body_of_a_function(body, line.text),
        "javascript" => {
            THROWS.is_match(statement)
                && stands_alone(body, line.text, |head| JAVASCRIPT_FUNCTION.is_match(head))
        }
        "rust" => UNIMPLEMENTED.captures(statement).is_some_and(|found| {
            let is_one_line = found.name("close").is_some() && statement.contains("fn ");
            is_one_line || stands_alone(body, line.text, |head| RUST_FUNCTION.is_match(head))
        }),
        "go" => THROWS.is_match(statement) && stands_alone(body, line.text, |head| head.starts_with("func ")),
        "java" | "csharp" | "clike" => {
            THROWS.is_match(statement) && stands_alone(body, line.text, |head| head.ends_with(['{', ')']))
        }
        _ => false,
    };
    let from = line.text.len() - line.text.trim_start().len();
    is_stub.then(|| (from, from + statement.len()))
}

fn is_body_of_a_function(body: &str, line: &str) -> bool {
    let Some((above, _)) = around(body, line) else { return false };
    let is_remark = |line: &str| {
        let opens = ["\"\"\"", "'''"].iter().any(|quotes| line.starts_with(quotes) && line.ends_with(quotes));
        line.is_empty() || line.starts_with('#') || (opens && line.len() > 5)
    };
    let mut lines = above.lines().rev().map(str::trim).take(ABOVE).skip_while(|line| is_remark(line));
    let Some(head) = lines.next().and_then(|head| PYTHON_FUNCTION.captures(head)) else { return false };
    let is_method = head.name("first").is_some_and(|name| matches!(name.as_str(), "self" | "cls"));
    // A decorator may give it its meaning: an overload, the default of a dispatch.
    let is_decorated = lines.next().is_some_and(|line| line.starts_with('@'));
    !is_method && !is_decorated
}

/// Whether a statement is all there is between a head and the bracket that closes it.
fn stands_alone(body: &str, line: &str, is_head: impl Fn(&str) -> bool) -> bool {
    let Some((above, below)) = around(body, line) else { return false };
    let is_remark = |line: &&str| line.is_empty() || line.starts_with("//") || *line == "{";
    let head = above.lines().rev().map(str::trim).take(ABOVE).find(|line| !is_remark(line));
    let next = below.lines().map(str::trim).find(|line| !line.is_empty());
    head.is_some_and(is_head) && next.is_some_and(|next| next.starts_with('}'))
}

/// What stands before and behind a line of a block.
pub(super) fn around<'a>(body: &'a str, line: &str) -> Option<(&'a str, &'a str)> {
    let at = (line.as_ptr() as usize).checked_sub(body.as_ptr() as usize)?;
    let (above, below) = (body.get(..at)?, body.get(at + line.len()..)?);
    Some((above, below.strip_prefix('\r').unwrap_or(below)))
}
