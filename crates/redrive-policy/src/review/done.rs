//! Q5 and Q6: is there something to show, and is it called done before there is?
//!
//! What shows is a file that was found, files that changed, or work in the output itself: a fenced block, what a program
//! printed, the result of tests. A text that only says how much was done shows nothing.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use regex::Regex;

use super::document::{Line, Place, within};
use super::patterns::{regex, words};
use super::remark::sentence_around;
use super::talk::Talk;

/// It is done, says the output.
static DONE: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?ix)
         これで[^。]{0,12}(?:完了|完成|終了|終わり)(?:です|しました|となります|になります)
        |(?:実装|作業|作成|修正|対応|タスク|開発|移行|更新|設定|処理|変更|追加|すべて|全て|全部)(?:が|は|も|の|を)?\s*(?:[^。、\s]{0,10}\s*)?(?:すべて|全て|無事(?:に)?|正常に)?\s*(?:完了(?:しました|です|いたしました|致しました|しています)|終了(?:です|しました)|終わりました|完成しました)
        |(?:^|[。！\s])(?:完了しました|完了です|完了いたしました|終わりました|できました|完成しました|作業は終了です|作業終了です)
        |実装完了
        |^\W*(?:all\s+)?done\s*[.!]\W*$|^\W*(?:(?-i:Done|DONE)|all\s+done)\W*$|^\W*(?-i:Done|All\s+done)[.!]\s|^\W*(?:all\s+)?(?:finished|complete|completed)\s*[.!]\W*$
        |(?:^|[.!]\s+|\W{2})this\ (?:completes|concludes|finishes)\b
        |\b(?:the\ |this\ |your\ )?(?:implementation|task|work|feature|refactoring|migration|job|project|request|fix|changes?|everything)\s+(?:is|are|has\ been|have\ been)\s+(?:now\s+|all\s+)?(?:\w+ly\s+)?(?:complete|completed|done|finished|implemented|in\ place)\b
        |\b(?:implementation|task|work|migration|refactoring)\s+(?:complete|completed|finished)\b
        |\bi(?:'ve|’ve|\s+have)?\s+(?:now\s+|successfully\s+|fully\s+)*(?:completed|finished|implemented\ (?:everything|all))\b
        |\b(?:everything|all)\s+(?:is\s+|works\s+|should\s+be\s+)?(?:done|set|ready|finished)\b
        ",
    )
});
/// That was all: the end of something longer, or of nothing.
static CLOSED: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)(?:^|[。！])\s*以上(?:です|となります|になります|で(?:完了|終了|終わり)(?:です)?)?[。！]?\s*$|\bthat(?:'s|’s| is) (?:all|it)\b\s*[.!]?\s*$|(?:^|[.!]\s+)that(?:'s|’s| is) all\b",
    )
});
/// Not done, not yet, or asked.
static NOT_DONE: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?ix)\b(?:not|n't|never|once|when|after|before|if|until|unless|should|would|could|will|to\ be|almost|nearly|partially|half|yet|cannot|without)\b|n't\b|\?\s*$
        |(?:完了|終了|完成|でき)(?:していません|しない|したら|しましたら|しましたか|すれば|すると|する(?:と|まで|前)|した(?:ら|場合|後)|ません|次第)|まだ|未完了|[？?]\s*$",
    )
});
/// A line of a log, or of a terminal: a program's word.
static PROGRAM: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?ix)^\s*(?:\[?\d{4}[-/]\d{2}[-/]\d{2}|\[?\d{1,2}:\d{2}:\d{2}|\[(?:info|warn|warning|error|debug|ok|\d+/\d+)\]|(?:info|debug|warn)\b\s*[:\]]|\$\s|>>>\s|npm\s|yarn\s|>\s\S+@)
        |\b\d+\s+(?:passed|passing|tests?\ passed|succeeded|successful)\b|\b(?:passed|failed|failures|succeeded)\s*[:=]\s*\d+\b
        |(?:成功|失敗|合格|不合格|パス|通過)(?:数|件数)?\s*[:：=]\s*\d+|\d+\s*件\s*(?:が|は|に)?(?:すべて|全て|全部)?\s*(?:成功|合格|失敗|パス(?:し|$)|通過)|\d+\s*件の(?:単体|結合|回帰)?テスト(?:が|は|に)(?:すべて|全て|全部)?(?:成功|合格|通|パス)
        |\btest\ result:|\bTests?:\s+\d|\bBUILD\ SUCCESS|\bexit\ (?:code|status)\s*:?\s*\d|\bin\s+\d+(?:\.\d+)?\s*m?s\b|^\s*ok\s+\S+\s+\d",
    )
});
/// Words around the work, not the work.
static POLITE: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?ix)^(?:ok|okay|sure|yes|certainly|of\ course|absolutely|great|perfect|understood|alright|got\ it|no\ problem|thanks?(?:\ you)?|hello|hi|there\ you\ go|here\ you\ go|success(?:ful(?:ly)?)?|(?:(?:ok|okay|sure|yes)[,\s]+)?(?:all\ )?(?:done|finished|completed?)|
            let\ me\ know\ .{0,80}|feel\ free\ .{0,80}|i\ hope\ .{0,60}|hope\ .{0,40}|happy\ to\ help.{0,30}|is\ there\ anything\ .{0,60}|if\ you\ (?:have|need)\ .{0,80}|
            the\ (?:requested\ )?(?:task|work|changes?|request|feature)\ .{0,30}(?:completed|done|finished|made|implemented).{0,20}|i(?:'ve|’ve|\ have)\ (?:made|completed|finished|done|implemented)\ (?:all\ )?(?:the\ |your\ )?(?:requested\ |necessary\ )?(?:changes?|tasks?|work|request|it|everything|feature)|
            はい|了解(?:です|しました|いたしました)?|承知(?:しました|いたしました)|わかりました|分かりました|かしこまりました|お疲れ様.{0,8}|よろしくお願い.{0,12}|ありがとうございま.{0,4}|問題ありません|他に.{0,30}|何か.{0,40}|ご(?:確認|不明).{0,30}|ok(?:\s*です)?|以上(?:です)?|.{0,12}(?:完了|終了|完成)(?:です|しました|いたしました)|.{0,8}(?:終わりました|できました))$",
    )
});

/// A line without any of these does not say that something is done.
static WORTH_A_LOOK: LazyLock<AhoCorasick> = LazyLock::new(|| {
    words(&[
        "done",
        "complet",
        "finish",
        "conclude",
        "implemented",
        "in place",
        "ready",
        " set",
        "that",
        "完",
        "終",
        "以上",
        "できました",
    ])
});

/// What an output shows for itself.
#[derive(Debug, Default)]
pub(super) struct Shown {
    /// The first place where it says that it is done: line, place in it, and whether it only closes.
    pub(super) done: Option<(u32, usize, usize, bool)>,
    /// A fenced block with something in it, or a line of a program.
    pub(super) work: bool,
    /// Something other than that it is done.
    pub(super) says_more: bool,
    /// What it says in place of a result.
    pub(super) talk: Talk,
    /// How much prose there is besides.
    pub(super) prose_bytes: usize,
    /// The line before was one of prose: what follows may be the rest of its sentence.
    in_paragraph: bool,
    lines: u32,
}

impl Shown {
    /// What is no text is no empty talk either.
    pub(super) fn of_noise() -> Shown {
        Shown { says_more: true, ..Shown::default() }
    }

    pub(super) fn line(
        &mut self,
        line: &Line<'_>,
        quoted: &dyn Fn() -> Vec<(usize, usize)>,
        own: &[Regex],
        is_allowed: &dyn Fn(&str) -> bool,
    ) {
        match line.place {
            Place::Prose => {}
            Place::Code(..) => {
                if !line.text.trim().is_empty() {
                    self.work = true;
                    self.says_more = true;
                }
                return;
            }
            Place::Opening(_) | Place::Closing => return,
        }
        let text = line.text;
        if text.trim().is_empty() {
            self.in_paragraph = false;
            return;
        }
        let goes_on =
            std::mem::replace(&mut self.in_paragraph, true) && text.trim().starts_with(char::is_lowercase);
        let is_worth_a_look = WORTH_A_LOOK.is_match(text) || !own.is_empty();
        self.lines += 1;
        let is_program =
            (is_worth_a_look || (!self.work && self.lines < MAX_LINES)) && PROGRAM.is_match(text);
        self.work |= is_program;
        let found = if self.done.is_some_and(|(.., closes)| !closes)
            || is_program
            || !is_worth_a_look
            || text.len() > MAX_LINE
        {
            None
        } else {
            own.iter().chain([&*DONE]).find_map(|pattern| pattern.find(text)).map(|found| (found, false))
        };
        let found = found.or_else(|| {
            if self.done.is_some() || is_program || text.len() > MAX_LINE {
                return None;
            }
            CLOSED.find(text).map(|found| (found, true))
        });
        if let Some((found, closes)) = found {
            // A full stop that is part of what was found ends its sentence.
            let words = found.as_str().trim_end_matches(|c: char| !c.is_alphanumeric());
            let sentence = sentence_around(text, found.start(), found.start() + words.len());
            let is_asked = text[found.start() + words.len()..].trim_start().starts_with(['?', '？']);
            if !goes_on
                && !is_asked
                && !NOT_DONE.is_match(sentence)
                && !within(&quoted(), found.start())
                && !is_allowed(text)
            {
                self.done = Some((line.number, found.start(), found.end(), closes));
            }
        }
        if self.prose_bytes >= ENOUGH_PROSE {
            return;
        }
        // The plain `OK` of a script is its result; a sentence such as "OK." or "Sure, done." is somebody's word.
        let mut says_more = matches!(text.trim(), "OK" | "Ok" | "ok");
        // What is quoted, listed or shown as a quotation is mentioned, not said.
        let is_said = text.trim_start().starts_with(char::is_alphanumeric);
        let sentences = text.split(['。', '!', '！']).flat_map(|part| part.split(". "));
        for sentence in sentences.take(MAX_SENTENCES) {
            let sentence = sentence.trim_matches(|c: char| !c.is_alphanumeric() && c != '?');
            if sentence.is_empty()
                || POLITE.is_match(sentence)
                || DONE.is_match(sentence)
                || CLOSED.is_match(sentence)
            {
                continue;
            }
            let is_first = !self.says_more && !says_more;
            if is_first && is_said && self.talk.takes(line.number, sentence, self.talk.line.is_none()) {
                continue;
            }
            says_more = true;
            self.prose_bytes += sentence.len();
        }
        self.says_more |= says_more;
    }
}

/// How many lines are read for a program's word, and how much prose is measured; more would change nothing.
const MAX_LINES: u32 = 10_000;
const ENOUGH_PROSE: usize = 4_096;
/// Longer lines are data, and data announces nothing.
const MAX_LINE: usize = 4_096;
const MAX_SENTENCES: usize = 64;
