//! Q4 in words: somebody says that the output was cut.
//!
//! "truncated" and "cut off" count as a remark about the output: in brackets, alone, after an ellipsis, or with the output as
//! what was cut. They do not as a word of a program (`TRUNCATE TABLE`, `truncated_normal`), of what a program does to
//! strings, or of something that does not happen.

use std::sync::LazyLock;

use regex::Regex;

use super::document::{Line, Place, within};
use super::lexer::Kind;
use super::omission::said_by_comment;
use super::patterns::regex;

static REMARK: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?ix)
         [\[<【]\s*(?:[^\[\]<>]{0,40}\s)?(?:truncated|cut\ off|cut\ short)\b[^\[\]<>]{0,40}[\]>】]
        |[(（]\s*(?:\W{0,4}|(?:the\ |my\ |this\ )?(?:output|response|message|reply|answer|listing|transcript|code|content|text|log|file)\ (?:was\ |is\ |got\ )?|\d+\ \w+\ )(?:truncated|cut\ off|cut\ short)\W{0,4}\s*[)）]
        |(?:\.{3}|…)\s*[\[(<]?\s*(?:(?:output|content|response|text|lines?|rest)\s+)?(?:truncated|cut\ off)\b
        |\b(?:truncated|cut\ off)\s*(?:\.{3}|…)
        |\b(?:output|response|message|reply|answer|listing|transcript|completion|generation|code|results?)\s+(?:(?:was|were|is|are|has\ been|have\ been|had\ been|got|gets|seems?(?:\ to\ be)?|appears?(?:\ to\ be)?)\s+)?(?:\w+ly\s+)?(?:truncated|cut\ off|cut\ short)\b
        |\b(?:i|it|that|this)\s+(?:was|got|is)\s+(?:\w+ly\s+)?cut\ (?:off|short)\b
        |\b(?:truncated|cut\ off|cut\ short)\ (?:here|due\ to|because\ of|at\ (?:the\ )?(?:token|length|max\w*|output|character)|by\ the\ (?:token|length|output|context))
        |(?:出力|回答|応答|返答|コード|文章|メッセージ|内容|結果|ログ|ここ|以降)[がはで、][^。]{0,12}(?:途切れ|切れ|打ち切|切り詰め|切り捨て)(?:て(?:い|お|しま)|ました|られ(?:ました|て))
        |途中で(?:途切れ|切れ|終わっ|止まっ)て(?:い|お|しま)
        |(?:文字数|トークン|出力)(?:数)?(?:の)?(?:制限|上限)(?:に達し|のため|により|で)[^。]{0,24}(?:ここまで|途中|切り|打ち切|終了|中断)",
    )
});
static ALONE: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)^(?:(?:output|content|response|text|code|file|rest|remainder) )?(?:was |is )?(?:truncated|cut off|cut short)(?: here)?$|^(?:出力)?(?:途中で)?(?:途切れ|切れ)ています$",
    )
});
/// It does not happen, or it is spoken of what a program does.
static NOT_HERE: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?ix)\b(?:not|never|no\ longer|isn't|wasn't|aren't|weren't|without|avoid\w*|prevent\w*|fix(?:es|ed)?|bug|if|when(?:ever)?|unless|would|could|can|may|might|should|must|will|so\ that|instead\ of|which\ (?:is|was)|previously|before,|users?|tests?\ that|ensures?|handles?|handling|detects?|checks?|reports?|because\ the\ (?:column|field))\b
        |\b(?:truncated|cut\ off|cut\ short)\ (?:to|after|when|if|with|in\ the\ (?:ui|table|column|list|preview)|by\ css|at\ \d)
        |(?:ない|ません|なく|場合|とき|時に|ように|修正|不具合|バグ|防)",
    )
});

/// Where a line says that the output was cut.
pub(super) fn find(line: &Line<'_>, quoted: &[(usize, usize)]) -> Option<(usize, usize)> {
    match line.place {
        Place::Opening(_) | Place::Closing => return None,
        Place::Code(language, _) if language.is_prose() || language.name == "diff" => return None,
        Place::Code(..) | Place::Prose => {}
    }
    for piece in line.pieces.iter().filter(|piece| matches!(piece.kind, Kind::Comment | Kind::Prose)) {
        let part = &line.text[piece.from..piece.to];
        let says = said_by_comment(part);
        if ALONE.is_match(says) && !within(quoted, piece.from + part.find(says).unwrap_or_default()) {
            let from = piece.from + part.find(says).unwrap_or_default();
            return Some((from, from + says.len()));
        }
        let found = REMARK.find_iter(part).find(|found| !within(quoted, piece.from + found.start()));
        if let Some(found) = found {
            let sentence = sentence_around(part, found.start(), found.end());
            let is_bracketed = found.as_str().starts_with(['[', '<', '(', '（', '【', '.', '…']);
            if is_bracketed || !NOT_HERE.is_match(sentence) {
                return Some((piece.from + found.start(), piece.from + found.end()));
            }
        }
    }
    None
}

/// The sentence in which something stands.
pub(super) fn sentence_around(text: &str, from: usize, to: usize) -> &str {
    let ends = |c: char| matches!(c, '。' | '!' | '?' | '！' | '？');
    let begin = text[..from].rfind(|c: char| ends(c)).into_iter().chain(text[..from].rfind(". ")).max();
    let begin = begin.map_or(0, |at| text.ceil_char_boundary(at + 1));
    let end =
        text[to..].find(ends).into_iter().chain(text[to..].find(". ")).min().map_or(text.len(), |at| to + at);
    &text[begin..end]
}
