//! One pass over a text: every line is shown to the criteria that are asked, every block to those that judge its end.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use super::claims::Claims;
use super::document::{Block, Line, Place, Reader, quoted};
use super::done::Shown;
use super::finding::{Finding, What};
use super::lexer::Mismatch;
use super::patterns::words;
use super::{Criterion, Reviewer, claims, ending, marks, omission, remark, stub};

/// How many findings of one criterion are kept; the rest is counted.
const KEPT: usize = 40;

/// A line without any of these has nothing for the criteria that read words.
static WORTH_A_LOOK: LazyLock<AhoCorasick> = LazyLock::new(|| {
    words(&[
        "todo",
        "fixme",
        "tbd",
        "hack",
        "xxx",
        "...",
        "…",
        "‥",
        "⋯",
        "⋮",
        "etc",
        "omit",
        "elid",
        "snip",
        "truncated",
        "cut off",
        "cut short",
        "unchanged",
        "same as",
        "same for",
        "same with",
        "rest ",
        "rest of",
        "remainder",
        "remaining",
        "existing",
        "previous",
        "original",
        "prior",
        "here",
        "below",
        "similar",
        "likewise",
        "repeat",
        "do the same",
        "and so",
        "continue",
        "brevity",
        "skipped",
        "shown",
        "left out",
        "no change",
        "needed",
        "abbreviated",
        "follow",
        "as before",
        "implement",
        "stub for",
        "placeholder",
        "プレースホルダ",
        "仮の",
        "simplified",
        "in later",
        "due to",
        "because of",
        "go on",
        "going",
        "略",
        "続",
        "つづく",
        "同",
        "そのまま",
        "変更なし",
        "変わらず",
        "既存",
        "切れ",
        "切ら",
        "打ち切",
        "切り",
        "文字数",
        "トークン",
        "ここ",
        "途中",
        "残り",
        "元の",
        "変更あり",
        "以前",
        "従来",
        "実装",
        "要対応",
        "未対応",
        "後で",
        "後から",
        "あとで",
        "あとから",
        "後日",
        "別途",
        "長さ",
    ])
});
/// A line without any of these claims no file.
static MAY_CLAIM: LazyLock<AhoCorasick> = LazyLock::new(|| {
    words(&[
        "creat",
        "wrote",
        "written",
        "modif",
        "updat",
        "edit",
        "generat",
        "saved",
        "chang",
        "rewr",
        "add",
        "refactor",
        "implement",
        "export",
        "extend",
        "new",
        "files",
        "作成",
        "生成",
        "新規",
        "更新",
        "修正",
        "変更",
        "追加",
        "保存",
        "編集",
        "書き",
        "出力",
        "実装",
        "追記",
        "改修",
    ])
});

/// What a scan is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    /// What a command or a model said.
    Output,
    /// A file that it made.
    File,
}

/// Reads one text for a reviewer.
// What was asked and what was seen so far, each on its own.
#[allow(clippy::struct_excessive_bools)]
pub(super) struct Scan<'a> {
    reviewer: &'a Reviewer,
    of: Of,
    file: Option<&'a str>,
    /// Whether fragments are looked for.
    whole_file: bool,
    /// Whether the end is the end, and not where we stopped keeping it.
    end_is_there: bool,
    pub(super) findings: Vec<Finding>,
    counts: BTreeMap<Criterion, usize>,
    pub(super) claims: Claims,
    pub(super) shown: Shown,
    is_first_of_code: bool,
    /// The last line of the output was one of prose.
    pub(super) ends_in_prose: bool,
    pub(super) has_fences: bool,
    fragment_found: bool,
    /// Where it says which part of how many this is, and both numbers: the furthest one.
    part: Option<(u32, u32, u32)>,
}

impl<'a> Scan<'a> {
    pub(super) fn new(
        reviewer: &'a Reviewer,
        of: Of,
        file: Option<&'a str>,
        whole_file: bool,
        end_is_there: bool,
    ) -> Scan<'a> {
        Scan {
            reviewer,
            of,
            file,
            whole_file,
            end_is_there,
            findings: Vec::new(),
            counts: BTreeMap::new(),
            claims: Claims::default(),
            shown: Shown::default(),
            is_first_of_code: of == Of::File,
            ends_in_prose: false,
            has_fences: false,
            fragment_found: false,
            part: None,
        }
    }

    /// How many findings were not kept.
    pub(super) fn more(&self) -> usize {
        self.counts.values().map(|count| count.saturating_sub(KEPT)).sum()
    }

    pub(super) fn add(
        &mut self,
        criterion: Criterion,
        what: What,
        number: u32,
        line: &str,
        place: (usize, usize),
    ) {
        let count = self.counts.entry(criterion).or_default();
        *count += 1;
        if *count <= KEPT {
            let mut finding = Finding::new(criterion, what).at(number, line, place.0, place.1);
            finding.file = self.file.map(str::to_owned);
            self.findings.push(finding);
        }
    }

    /// Adds a finding whose line is shown later: only its number is known here.
    pub(super) fn add_at(
        &mut self,
        criterion: Criterion,
        what: What,
        number: u32,
        place: Option<(usize, usize)>,
    ) {
        let before = self.findings.len();
        self.add(criterion, what, number, "", (0, 0));
        if let Some(finding) = self.findings.get_mut(before) {
            finding.mark = place;
        }
    }

    pub(super) fn has_no(&self, what: What) -> bool {
        self.findings.iter().all(|finding| finding.what != what)
    }

    /// "Part 1 of 3", and no third part: the rest is missing.
    pub(super) fn end_parts(&mut self) {
        if let Some((number, part, of)) = self.part
            && part < of
            && self.asks(Criterion::Q3)
        {
            self.add_at(Criterion::Q3, What::Omission, number, None);
        }
    }

    fn asks(&self, criterion: Criterion) -> bool {
        self.reviewer.asks(criterion)
    }

    fn read_words(&mut self, line: &Line<'_>) {
        let reviewer = self.reviewer;
        let own_mark = reviewer.words.as_ref().and_then(|words| words.find(line.text));
        let own_omission = reviewer.omission.iter().find_map(|pattern| pattern.find(line.text));
        let worth_a_look = WORTH_A_LOOK.is_match(line.text);
        if (own_mark.is_none() && own_omission.is_none() && !worth_a_look) || reviewer.allows(line.text) {
            return;
        }
        let quoted = quoted(line.text);
        let is_edge = matches!(line.place, Place::Opening(_) | Place::Closing);
        if self.asks(Criterion::Q2) && !is_edge {
            let own = own_mark
                .map(|found| (found.start(), found.end()))
                .filter(|(from, _)| !super::document::within(&quoted, *from));
            if let Some(place) = own.or_else(|| marks::find(line, &quoted)).or_else(|| stub::find(line)) {
                self.add(Criterion::Q2, What::TodoLeft, line.number, line.text, place);
            }
        }
        if self.asks(Criterion::Q3) {
            let own = own_omission.map(|found| (found.start(), found.end()));
            if let Some(place) = own.or_else(|| omission::find(line, &quoted)) {
                self.add(Criterion::Q3, What::Omission, line.number, line.text, place);
            }
        }
        if self.asks(Criterion::Q4)
            && self.of == Of::Output
            && let Some(place) = remark::find(line, &quoted)
        {
            self.add(Criterion::Q4, What::SaysCut, line.number, line.text, place);
        }
    }
}

impl Reader for Scan<'_> {
    fn line(&mut self, line: &Line<'_>) {
        self.read_words(line);
        let is_blank = line.text.trim().is_empty();
        if self.whole_file && self.asks(Criterion::Q3) && !self.fragment_found && !is_blank {
            let is_first = self.is_first_of_code && matches!(line.place, Place::Code(..));
            if !self.reviewer.allows(line.text)
                && let Some(place) = ending::fragment(line, is_first)
            {
                self.fragment_found = true;
                self.add(Criterion::Q3, What::Fragment, line.number, line.text, place);
            }
        }
        match line.place {
            Place::Opening(_) => {
                self.is_first_of_code = true;
                self.has_fences = true;
                self.ends_in_prose = false;
            }
            Place::Code(..) if !is_blank => self.is_first_of_code = false,
            Place::Closing => self.ends_in_prose = false,
            Place::Prose if !is_blank => self.ends_in_prose = true,
            Place::Code(..) | Place::Prose => {}
        }
        if self.of == Of::Output
            && matches!(line.place, Place::Prose)
            && let Some((part, of)) = omission::part(line.text)
            && self.part.is_none_or(|(_, furthest, _)| furthest < part)
        {
            self.part = Some((line.number, part, of));
        }
        if self.of == Of::Output {
            let may_claim = || claims::may_name_a_file(line.text) && MAY_CLAIM.is_match(line.text);
            if self.claims.is_listing() || matches!(line.place, Place::Opening(_)) || may_claim() {
                self.claims.line(line);
            }
            let reviewer = self.reviewer;
            self.shown.line(line, &|| quoted(line.text), &reviewer.done, &|text| reviewer.allows(text));
        }
    }

    fn block(&mut self, block: Block) {
        if !self.asks(Criterion::Q4) || !block.has_content {
            return;
        }
        if block.unclosed {
            if !self.end_is_there {
                return;
            }
            if self.of == Of::Output && self.has_fences {
                return self.add_at(Criterion::Q4, What::OpenFence, block.first_line, None);
            }
        }
        let open = block.ended.open_comment.or(block.ended.open_text);
        if let Some(line) = open {
            return self.add_at(Criterion::Q4, What::OpenAtEnd, line, None);
        }
        match block.ended.mismatch {
            None => {}
            // A file that stops before its last bracket is not all there; a block that was closed is wrong.
            Some(Mismatch::Unclosed(bracket)) if block.unclosed => {
                self.add_at(Criterion::Q4, What::OpenAtEnd, bracket.line, Some((bracket.at, bracket.at + 1)));
            }
            Some(
                Mismatch::Unclosed(bracket)
                | Mismatch::Unopened(bracket)
                | Mismatch::Crossed { close: bracket, .. },
            ) => {
                self.add_at(
                    Criterion::Q4,
                    What::Unbalanced,
                    bracket.line,
                    Some((bracket.at, bracket.at + 1)),
                );
            }
        }
    }
}
