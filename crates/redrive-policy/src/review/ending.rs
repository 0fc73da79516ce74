//! Q4 and R-T5: does it end before its end, and is it a whole file?

use std::sync::LazyLock;

use regex::Regex;

use super::document::{Block, Line, Place, Reader, numbered, read_file};
use super::language::{Language, UNKNOWN};
use super::lexer::{Kind, Mismatch};
use super::patterns::regex;

/// What no sentence and no statement ends with.
static DANGLING_PROSE: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?:[,、（「『\[{]|[^:;=]\(|(?:\S+\s+){2,}\S*[^\s:]:|[^\s：]{3,}：|\S+(?:\s+\S+){3,}\s+(?:the|a|an|and|or|of|which|whose|because|therefore|thus|although|whereas|including|such as))\s*$",
    )
});
/// A word and a particle that leads on to the next. Words in hiragana end with the same letters and are not judged.
static DANGLING_JAPANESE: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"(?:[\p{Han}\p{Katakana}ーA-Za-z0-9０-９）)」』`]|こと|もの|これ|それ|ここ|そこ)[はがにでと]$|を$")
});
/// Ways to close, and adverbs.
static CLOSES_JAPANESE: LazyLock<Regex> =
    LazyLock::new(|| regex(r"(?:一緒|特|気軽|大事|大切|元気|幸せ|自由|楽し?み|以上|次第|共|更)[にでと]$"));
static DANGLING_CODE: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"(?:[,(\[{=|]|[^+]\+|&&|->|=>|\b(?:function|const|let|import|class|def|fn|func|and|or|not))\s*$")
});
/// A patch, or words about where to put what is shown.
static FRAGMENT: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?ix)^@@\ -\d+(?:,\d+)?\ \+\d+(?:,\d+)?\ @@
        |\b(?:add|insert|paste|place|put|append|include)\s+(?:this|these|the\ following|the\ code|it)\b[^.]{0,60}\b(?:after|before|below|above|at\ the\ (?:end|top|bottom|beginning)|inside|into|to\ (?:the|your)|in\ (?:the|your)|under)\b
        |\b(?:replace|change|update|modify)\s+(?:lines?\s+\d|(?:the|your)\s+(?:existing|current|following)\b[^.]{0,60}\b(?:with|to)\b)
        |\b(?:after|before|at|around|on)\ line\s+\d+\b
        |\bonly\ (?:the\ )?(?:changed|modified|relevant)\ (?:parts?|sections?|lines|functions?|code)
        |\bhere(?:'s|\ is|\ are)\ (?:just\ |only\ )?the\ (?:relevant|changed|modified|updated)\ (?:parts?|sections?|lines|snippet|portion|bits)
        |\d+\s*行目(?:の(?:後|前|次|あと)|あたり|付近|以降|から)[^。]{0,20}(?:追加|挿入|変更|置き換え|修正)
        |(?:以下|次|この)(?:の(?:コード|行|内容|処理))?を[^。]{0,24}(?:に|へ)?(?:追加|挿入|追記|貼り付け|コピー)して
        |(?:変更|修正|該当|関連)(?:箇所|部分|点|した部分)のみ(?:を)?(?:示|記載|抜粋|掲載|表示|出力)
        |(?:該当|変更)(?:箇所|部分)を(?:以下|次)[^。]{0,12}(?:置き換え|差し替え|変更)",
    )
});
/// What begins in the middle of something.
static HEADLESS: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"^\s*(?:[}\])]|(?:else|elif|catch|finally|except|ensure|rescue)\b|\.\w+\(|&&|\|\||\+ |and |or )")
});

/// Where prose ends midway: its last line, when it cannot be a last line.
pub(super) fn prose(text: &str) -> Option<(u32, usize, usize)> {
    let mut last: Option<(u32, &str)> = None;
    let mut before: [&str; 2] = ["", ""];
    for (number, line) in numbered(text).filter(|(_, line)| !line.trim().is_empty()) {
        if let Some((_, line)) = last {
            before = [before[1], line];
        }
        last = Some((number, line));
    }
    let (number, line) = last?;
    let trimmed = line.trim_end();
    let trimmed = trimmed.trim_end_matches(['*', '_']);
    if line.len() > 100_000 {
        return None;
    }
    if breaks_off_in_japanese(trimmed, before[1]) {
        let from = trimmed.char_indices().next_back().map_or(0, |(at, _)| at);
        return Some((number, from, trimmed.len()));
    }
    if !DANGLING_PROSE.is_match(trimmed) {
        return None;
    }
    // A table of values, some of them empty.
    let commas = |line: &str| line.matches(',').count();
    let is_table = commas(line) > 1 && before.iter().all(|other| commas(other) == commas(line));
    // A prompt, a key of a file, a heading with nothing below it.
    let is_short = trimmed.ends_with([':', '：'])
        && (line.starts_with([' ', '\t', '#', '|', '>'])
            || line.contains('=')
            || before == ["", ""] && trimmed.len() < 20);
    (!is_table && !is_short).then(|| {
        let from = trimmed.char_indices().next_back().map_or(0, |(at, _)| at);
        (number, from, trimmed.len())
    })
}

/// Whether a last line stops behind a particle. Titles, items of lists, verses and slogans do that as well, so only where
/// sentences are written with their full stops.
fn breaks_off_in_japanese(line: &str, before: &str) -> bool {
    let is_text = line.starts_with(|c: char| c.is_alphabetic() || "「『（".contains(c));
    let in_sentences = line.contains('。') || (before.trim_end().ends_with('。') && line.contains('、'));
    is_text && in_sentences && DANGLING_JAPANESE.is_match(line) && !CLOSES_JAPANESE.is_match(line)
}

/// Where a file of code ends midway by its last line.
pub(super) fn code(text: &str, language: &'static Language) -> Option<(u32, usize, usize)> {
    let mut last = LastCode::default();
    if language.brackets == super::language::Brackets::Ignored {
        return None;
    }
    read_file(text, language, &mut last);
    let (number, line, is_code) = last.line?;
    let trimmed = line.trim_end();
    (is_code && DANGLING_CODE.is_match(trimmed)).then(|| (number, trimmed.len() - 1, trimmed.len()))
}

/// The last line of code and whether it ends as code.
#[derive(Default)]
struct LastCode {
    line: Option<(u32, String, bool)>,
}

impl Reader for LastCode {
    fn line(&mut self, line: &Line<'_>) {
        let Some(last) = line.pieces.iter().rfind(|piece| !line.text[piece.from..piece.to].trim().is_empty())
        else {
            return;
        };
        let end = line.text.ceil_char_boundary(line.text.len().saturating_sub(200));
        self.line = Some((line.number, line.text[end..].to_owned(), last.kind == Kind::Code));
    }

    fn block(&mut self, _: Block) {}
}

/// Where output without fences that is code, or JSON, has a bracket that nothing closes.
pub(super) fn bare_code(text: &str) -> Option<u32> {
    let start = text.trim_start();
    let is_json = start.starts_with('{') && start[1..].trim_start().starts_with(['"', '}']);
    let (mut code, mut lines) = (0_usize, 0_usize);
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        lines += 1;
        code += usize::from(
            line.ends_with([';', '{', '}', ',']) || line.starts_with("//") || line.ends_with("):"),
        );
    }
    if !is_json && (lines < 3 || code * 2 < lines) {
        return None;
    }
    let mut end = End(None);
    read_file(text, if is_json { Language::of_tag("json") } else { &UNKNOWN }, &mut end);
    match end.0?.ended.mismatch {
        Some(Mismatch::Unclosed(bracket)) => Some(bracket.line),
        _ => None,
    }
}

struct End(Option<Block>);

impl Reader for End {
    fn line(&mut self, _: &Line<'_>) {}

    fn block(&mut self, block: Block) {
        self.0 = Some(block);
    }
}

/// Whether a line shows that only a part of a file is there.
pub(super) fn fragment(line: &Line<'_>, is_first_of_code: bool) -> Option<(usize, usize)> {
    if let Place::Code(language, _) = line.place
        && language.name != "diff"
    {
        let found = HEADLESS.find(line.text).filter(|_| is_first_of_code)?;
        return Some((found.start(), found.end()));
    }
    FRAGMENT.find(line.text).map(|found| (found.start(), found.end()))
}
