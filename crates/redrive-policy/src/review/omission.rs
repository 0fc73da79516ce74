//! Q3: marks of something left out (R-T5).
//!
//! An ellipsis that no word follows is a mark in a comment, alone on its line, and where code would stand. It is none as
//! punctuation after a word of prose ("Compiling…"), in quotes, in a string, in `f(...)` of a language that means
//! something by it, and in the notation of usage lines. Phrases count where they stand for what is missing.

use std::sync::LazyLock;

use regex::Regex;

use super::document::{Line, Place, within};
use super::language::Language;
use super::lexer::{Kind, Piece};
use super::patterns::regex;
use super::stub::around;

static ELLIPSIS: LazyLock<Regex> = LazyLock::new(|| regex(r"\.{3,}|[…‥⋯⋮]{1,3}"));

/// What a comment says when it stands for what is missing. It is the whole of the comment, give or take an ellipsis.
static COMMENT: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?ix)^(?:
         (?:and\ so\ (?:on|forth)|etc|et\ cetera|\W*snip(?:ped)?\W*|omitted|elided|truncated|abbreviated|unchanged|no\ changes?(?:\ here)?|
            (?:code|implementation|details?|body|content|contents|imports?|rest)\ (?:is\ |are\ )?(?:omitted|elided|unchanged|skipped|removed|goes\ here|here))
        |(?:the\ )?same\ (?:as|code\ as|logic\ as|implementation\ as)\ (?:before|above|previous(?:ly)?|original|earlier)\b.{0,30}
        |(?:rest|remainder)\ of\ (?:the\ |your\ |this\ )?\w+(?:\ \w+){0,5}
        |(?:the\ )?(?:rest|remainder)(?:\ (?:is|are|remains?|stays?|goes)\b.{0,40}|\ (?:unchanged|omitted|the\ same|as\ before|here))
        |(?:your|previous|prior|original|existing|current|old|other\ existing|rest\ of\ (?:the\ )?existing)\ (?:code|implementation|logic|methods?|functions?|imports?|content|fields|tests|routes|handlers|props|state|styles|config(?:uration)?|cases)
            (?:\ (?:here|unchanged|remains?|stays?|goes\ here|as\ (?:is|before)|continues|omitted|remains?\ (?:the\ same|unchanged|here)))?
        |(?:other|more|additional|further|similar|remaining)\ \w+(?:\ \w+){0,2}\ (?:here|go\ here|goes\ here|follow|below|omitted|unchanged|as\ (?:before|needed|above)|stay\ the\ same|remain\ unchanged|similarly)
        |(?:your|actual|real|the)?\ ?(?:code|logic|implementation|content)\ (?:goes|would\ go|comes|would\ be)?\ ?here
        |(?:add|insert|put|place|write|implement|include)\ (?:your|the|more|other|any|remaining|actual|additional|rest\ of\ the)\ (?:\w+\ ){0,4}(?:here|below|as\ needed)
        |(?:similarly|likewise|same|repeat|do\ the\ same|and\ similar(?:ly)?)\ (?:for|with|goes\ for)\ (?:the\ |all\ |all\ the\ )?(?:others?|rest|remaining|other)\b.{0,40}
        |(?:this\ is\ )?(?:a\ |highly\ |greatly\ )?simplified(?:\ \w+){0,2}\ for\ (?:the\ sake\ of\ )?(?:brevity|now|(?:this|the)\ example|(?:the\ )?demo(?:nstration)?(?:\ purposes)?)
        |(?:this\ is\ )?(?:just\ |only\ )?(?:a\ )?(?:temporary\ |simple\ )?placeholder\ (?:for\ now|(?:implementation|tests?|logic|code|function|method|class|return(?:\ value)?|body)(?:\ for\ now)?)
        |(?:to\ be\ )?continued(?:\ (?:here|below|in\ .{1,30}))?|continues(?:\ .{1,20})?
        )$",
    )
});
/// `// remaining` stands for what is missing, unless it is about a quantity.
static REMAINING: LazyLock<Regex> = LazyLock::new(|| regex(r"(?i)^remaining\b"));
static QUANTITY: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)\b(?:is|are|was|has|have|will|must|should|in|of|to|per|after|before|until|by|from|time|bytes?|budget|seconds?|ms|minutes|days|capacity|quota|balance|retries|attempts|count|amount|number|space|length|size|lives|tokens|credits|stock|width|height|duration|buffer|payload|arguments|args)\b|=",
    )
});
static OMITS: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)\b(?:omitted|similar(?:ly)?|the same|unchanged|as before|go(?:es)? here|here|follow|below|others?|rest|more|etc)\b",
    )
});

static GOES_ON: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)^(?:and (?:then|do|wait|finally|if|when)|or|otherwise|but|then|so that|when|if|which|because|unless|until|where|to|for|with)\b",
    )
});

/// What says so wherever it is said.
static SAID: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?ix)
         \b(?:omitted|removed|shortened|abbreviated|elided|skipped|left\ out|not\ shown|trimmed|condensed)\ (?:here\ )?for\ (?:the\ sake\ of\ )?(?:brevity|clarity|space|simplicity|readability|conciseness)\b
        |\bfor\ (?:the\ sake\ of\ )?brevity\b[^.]{0,60}\b(?:omit\w*|skip\w*|left\ out|leave\ out|not\ (?:shown|included|repeat\w*)|only\ (?:show|includ)\w*)\b
        |\b(?:omit|omitting|skip|skipping|leave\ out|left\ out)\b[^.]{0,60}\bfor\ (?:the\ sake\ of\ )?brevity\b
        |\b(?:rest|remainder)\ of\ (?:the\ |your\ |this\ )?(?:\w+\ ){0,2}(?:code|file|function|class|method|implementation|component|logic|module|script|document|config(?:uration)?|template|page|styles?|tests?|program|query|contents?)(?:'s\ \w+)?
            \ (?:\(?(?:is|are|remains?|stays?|will\ be|would\ be)\ )?(?:\w+ly\ )?(?:unchanged|the\ same|omitted|similar|identical|as\ (?:before|is)|here|goes\ here|continues|follows?\ the\ same)
        |[(\[<]\s*(?:omitted|snip(?:ped)?|(?:the\ )?same\ as\ (?:before|above)|(?:code|output|content|contents|lines|remaining\ \w+|rest|rest\ of\ .{1,30})\ (?:is\ |are\ )?(?:omitted|snipped|elided|unchanged|not\ shown))\s*[)\]>]
        |\b(?:to\ be\ continued|continued?\ (?:this\ )?in\ (?:the\ |my\ |a\ )?(?:next|following|separate|another)\ (?:message|response|part|reply|answer|output|turn|comment))\b
        |\b(?:and|plus)\ (?:\d+|many|several)\ more\ (?:similar\ )?(?:lines|functions|methods|cases|tests|rows|entries|files)\ (?:omitted|like\ this|not\ shown)\b
        |\b(?:due\ to|because\ of|given)\ (?:the\ |my\ )?(?:\w+\ )?(?:length|token|character|output|message|response|context)(?:\ \w+)?\ (?:constraints?|limits?|limitations?|restrictions?)(?:\ of\ (?:this|a\ single)\ \w+)?,?\ i(?:'ll|’ll|'m|’m)?\b[^.]{0,20}\b
            (?:only\ (?:provid|show|giv|includ|output|present|post|list|writ)|(?:provid|show|giv|includ|output|present|post|list|writ)\w*\b[^.]{0,60}\b(?:only|parts?|portion|excerpt|first|most\ important))
        |\b(?:let\ me\ know|tell\ me|just\ say|just\ ask|ask\ me)\b[^.]{0,30}\b(?:me\ to|i\ should)\ (?:continue|go\ on|keep\ going)(?:\ with\ the\ (?:rest|remaining|remainder|next\ part|other\ (?:parts?|functions?|methods?|files?|classes|tests))\b[^.]{0,40})?\s*(?:[.!?)]|$)
        |\b(?:shall\ i|should\ i|would\ you\ like\ me\ to|do\ you\ want\ me\ to)\ (?:continue|go\ on|keep\ going)(?:\ with\ the\ (?:rest|remaining|remainder|next\ part|other\ (?:parts?|functions?|methods?|files?|classes|tests))\b[^.?]{0,40})?\s*\?
        |(?:続き|残り)(?:の[^。、]{1,12})?(?:が|も|を)[^。]{0,6}(?:必要|ご?希望|ご入用|ご入り用)[^。]{0,10}(?:お知らせ|お申し付け|教えて|ご連絡|言って|お声|お伝え|ご指示)
        |続きを(?:出力し|生成し|書き|記述し|提示し)ましょうか
        |(?:文字数|長さ|出力|回答)(?:の(?:長さの)?)?(?:制限|制約|都合)[^。]{0,10}(?:最初|前半|冒頭|一部)[^。]{0,16}(?:のみ|だけ)
        |(?:以降|残り|他|ほか|その他)(?:の[^。、]{1,12})?(?:は|も)、?\s*同じ(?:要領|よう|パターン|形|方法|手順)(?:で|に)、?(?:実装して|記述して|書いて)(?:ください|下さい)
        |(?:(?:残り|以降|他|ほか|その他|それ以外)(?:の[^。、はもを]{1,10})?|(?:以下|中間|途中)(?:の(?:コード|実装|部分|処理|関数|メソッド|行|内容|項目|テスト|フィールド|ケース|箇所))?)(?:は|も|を|、)?\s*(?:全て|すべて|元の|既存の?|上記と|前回と|以前と|先ほどと)?\s*(?:コードと)?(?:省略(?:します|しました|しています|する|いたします|済み)?(?:[。)）\]】…]|$|\s)|同様(?:です|に(?:続き|なります|なる|繰り返|記述して|実装してく)|の(?:実装|処理|パターン|形)(?:です|[。]|$)|で(?:す|ある)|[。)）\]】…]|$)|同じ(?:です|で(?:す|ある)|[。)）\]】…]|$)|変更(?:なし|ありません|はありません)|そのまま(?:です|[。)）\]】…]|$))
        |(?:残り|以降|以下)省略|以下(?:同様|略|、?同文)(?:です|とします|とする)?\s*(?:[、。，．,)）\]】〉>…〜～*]|$)|[（(\[【〈<〜～\-－―…・*]\s*(?:前略|中略|後略|略|省略|途中省略|一部省略|以下省略|以降省略|残り省略|続く|つづく)\s*[)）\]】〉>〜～\-－―…・*]
        |(?:^|[\s　])(?:中略|後略|前略)(?:$|[\s　。])
        |(?:長い|長く|冗長|紙面|文字数|簡潔|簡略|スペース|見やす)[^。]{0,20}(?:ため|ので|都合|から|に)[^。]{0,12}省略
        |省略(?:しました|しています|いたします|いたしました|させていただき|してあります|しております)
        |(?:続き|残り)は(?:次|別)(?:の|回)[^。]{0,12}(?:メッセージ|回答|返信|出力|パート|で)",
    )
});
/// Leaving out is what is spoken of, not what is done.
static NOT_SAID: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)省略(?:せず|なし|無し|は(?:あり|して(?:い|お)り)ません|はしていません|しない|しません|可能|でき|した場合|された場合|すると|すれば|時|記法|形|名|表記|値|符号|引数|可)|\b(?:nothing|not|never|no\b[^.]{0,20}) (?:was |were |is |has been |been )?(?:omitted|skipped|left out|elided|abbreviated)|without (?:omitting|skipping)",
    )
});
/// What a comment in Japanese says when it stands for what is missing.
static COMMENT_JA: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?x)^(?:(?:以下|以降|残り|他|ほか|その他|途中|一部|中|後|前)?(?:は|、|の.{1,10}は)?\s*(?:省略|略|続く|つづく|同様|同じ|同上|そのまま|変更なし|変わらず|既存のまま|変更ありません)(?:です|します|しました|のため.{0,10}|.{0,3})?
        |(?:既存|残り|元|以前|従来|これまで)の(?:コード|実装|処理|内容|メソッド|関数|ロジック|部分|設定|フィールド|インポート|テスト)(?:は.{1,12}|が(?:続く|入る|続きます|入ります)|が?ここに.{1,8}|をここに.{1,8}|そのまま|省略|と同じ|.{0,2})?
        |(?:ここに|ここへ).{1,16}(?:を)?(?:実装|追加|記述|書く|入れる|入る|挿入|続く)(?:する|します|してください|.{0,4})?
        |(?:以下|以降|残り)(?:の.{1,12})?(?:も|は)?同様.{0,12})$",
    )
});
/// `// Similarly for B, C and D` with nothing below it; what follows would be what it introduces.
static LIKEWISE: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"(?i)^(?:and )?(?:similarly|likewise|the same|same|do the same|repeat) for .{1,60}$")
});
/// The only word of a comment. Where pages are made it is also the name of something.
static PLACEHOLDER: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)^(?:this is )?(?:just |only )?(?:a )?placeholder$|^(?:プレースホルダー?|仮実装|仮の実装)(?:です)?$",
    )
});
static PART: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"(?i)^[#*_\[(（【\s]*(?:part|パート)\s*(\d{1,3})\s*(?:of|/|／)\s*(\d{1,3})[\])）】*_:：.\s]*$")
});
static ETC_AT_END: LazyLock<Regex> = LazyLock::new(|| regex(r"(?i)(?-u:\b)etc\.$"));
static ETC: LazyLock<Regex> =
    LazyLock::new(|| regex(r"(?i)^\s*(?:/{2,}|/\*+|#+|--|;+|%+|<!--)?\s*etc(?:[.\s]|$)"));
static LINE: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)^(?:and so (?:on|forth)|(?:the )?same as (?:before|above)|unchanged|omitted|snip|続く|つづく|以下略|省略|中略|後略|以下省略|(?:the )?rest (?:is )?(?:unchanged|omitted|the same))[.。]?$",
    )
});
/// A program that says what it is doing.
static PROGRESS: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)^\W*(?:\[[^\]]{1,40}\]\s*|\d[\d:.,TZ/-]{4,}\s*|(?:info|debug|warn|warning|trace|step|=>|==>|-->)\b?[:\s]*)*(?:\w+ing\b|please wait|wait|test |checking)|中\s*$|しています\s*$|ください\s*$",
    )
});

/// What is left out on this line, as a place in bytes.
pub(super) fn find(line: &Line<'_>, quoted: &[(usize, usize)]) -> Option<(usize, usize)> {
    let text = line.text;
    let (language, body) = match line.place {
        Place::Prose => (None, ""),
        Place::Code(language, _) if language.is_prose() => return None,
        Place::Code(language, _) if language.name == "diff" && !text.starts_with('+') => return None,
        Place::Code(language, body) => (Some(language), body),
        Place::Opening(_) | Place::Closing => return None,
    };
    let ellipses = ELLIPSIS.find_iter(text).take(MAX_LOOKED_AT).map(|found| (found.start(), found.end()));
    for (from, to) in ellipses {
        if to - from > LONGEST && text[from..].starts_with('.') {
            // A rule across the page, or the dots of a dump.
            continue;
        }
        let piece = line.pieces.iter().find(|piece| piece.from <= from && from < piece.to);
        let is_left_out = !within(quoted, from)
            && !is_followed_by_a_word(text, from, to)
            && piece.is_some_and(|piece| match (piece.kind, language) {
                (Kind::Text, _) => false,
                (Kind::Comment, _) => in_comment(text, *piece, from, to, body),
                (Kind::Code, Some(language)) => in_code(text, from, to, language, body),
                (Kind::Prose | Kind::Code, _) => in_prose(text, from, to),
            });
        if is_left_out {
            return Some((from, to));
        }
    }
    phrase(line, quoted)
}

/// More of them in one line are not told apart.
const MAX_LOOKED_AT: usize = 64;
/// More dots than this are drawn, not written.
const LONGEST: usize = 6;

/// `...args`, `…/path`, `1...10`: what follows belongs to it.
fn is_followed_by_a_word(text: &str, from: usize, to: usize) -> bool {
    let next = text[to..].chars().next();
    let is_dots = text[from..].starts_with('.');
    next.is_some_and(|c| {
        c.is_alphanumeric()
            || matches!(c, '_' | '$' | '/' | '\\' | '@')
            || (is_dots && "([{\"'`<".contains(c))
    }) || text[..from].ends_with(['/', '\\'])
}

fn in_comment(text: &str, piece: Piece, from: usize, to: usize, body: &str) -> bool {
    let comment = text[piece.from..piece.to].trim_start();
    let before = text[piece.from..from].trim_end();
    let after = text[to..piece.to].trim_start();
    let says = |text: &str| text.chars().any(char::is_alphanumeric);
    // Documentation shows examples, and an example may be short.
    let is_documentation = comment.starts_with("///") || comment.starts_with("//!");
    if is_documentation || (is_session(body) && !says(before)) {
        return false;
    }
    // A sentence or a series goes on after it: "a ... b", "1, 2, ..., n".
    if says(before) && (after.starts_with(',') || after.starts_with(char::is_alphanumeric)) {
        return false;
    }
    // "... and then": the rest of a sentence that began above.
    if !says(before) && GOES_ON.is_match(after) {
        return false;
    }
    // f(x, ...), [a, b, ...], [FILE ...]: a call, a list or a usage, told in few words.
    if after.starts_with([')', ']', '}', '>', ',']) {
        let open = before.rfind(['(', '[', '{', '<']);
        let is_call = open
            .is_some_and(|at| before[..at].ends_with(|c: char| c.is_alphanumeric() || "_])>!`$".contains(c)));
        if is_call || open.is_some_and(|at| says(&before[at..])) {
            return false;
        }
    }
    // Behind code that is there it is punctuation, unless it stands apart.
    if !piece.first
        && says(before)
        && !text[..from].ends_with(char::is_whitespace)
        && !OMITS.is_match(comment)
    {
        return false;
    }
    !before.ends_with([']', '>']) && !last_word_is_a_placeholder(before)
}

fn is_about_what_is_missing(says: &str) -> bool {
    let is_short = says.split_whitespace().count() <= 5;
    OMITS.is_match(says) || (is_short && !QUANTITY.is_match(says))
}

/// `FILE...`: what may be given several times.
fn last_word_is_a_placeholder(before: &str) -> bool {
    let word = before.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
    word.len() > 1
        && word.chars().all(|c| c.is_ascii_uppercase() || c == '_' || c.is_ascii_digit())
        && word.chars().any(|c| c.is_ascii_uppercase())
}

fn in_code(text: &str, from: usize, to: usize, language: &Language, body: &str) -> bool {
    let before = text[..from].trim();
    let before = before.strip_prefix('+').filter(|_| language.name == "diff").unwrap_or(before).trim();
    let after = text[to..].trim();
    let is_python = language.name == "python" || (language.name.is_empty() && before.ends_with(':'));
    if is_python && (before.is_empty() || before.ends_with(':')) && after.is_empty() {
        // A body that is left to whoever implements it is whole as it is.
        let is_declared =
            ["Protocol", "@overload", "@abstractmethod", "ABC"].iter().any(|word| body.contains(word));
        let is_class = before.starts_with("class ");
        return !is_declared && !is_class && !is_session(body);
    }
    let is_list = before.is_empty() || matches!(before, "-" | "*" | "|");
    if is_list && matches!(after, "" | "," | ";" | ")" | "]" | "}" | ");" | "];" | "};" | "},") {
        let ends_yaml = language.name == "hash" && text.starts_with("...") && after.is_empty();
        return !is_session(body) && !ends_yaml;
    }
    if is_list && after.starts_with(|c: char| c.is_alphabetic()) && text[to..].starts_with(' ') {
        // "... rest of it": no language begins a statement so; a session's second line does.
        return !is_session(body) && language.name != "python" && language.name != "sql";
    }
    let in_braces = before.ends_with('{') && after.starts_with('}');
    let is_value = after.trim_end_matches([';', ',']).is_empty()
        && (before.ends_with('=') && !before.ends_with("==")
            || before == "return"
            || before.ends_with(" return"));
    let in_data = language.name == "json" && (before.ends_with([',', ':', '[', '{']) || before.is_empty());
    let takes_no_dots = matches!(language.name, "javascript" | "rust" | "java" | "kotlin" | "csharp");
    let is_argument = takes_no_dots
        && ((before.ends_with('(') && after.starts_with(')'))
            || (before.ends_with(',') && after.starts_with([')', ']', '}']) && !body.contains("extern ")));
    in_braces || is_value || in_data || is_argument
}

/// Whether it shows an interpreter at work, whose second lines begin with dots.
fn is_session(body: &str) -> bool {
    body.contains(">>> ")
}

fn in_prose(text: &str, from: usize, to: usize) -> bool {
    let before = text[..from].trim_end();
    let after = text[to..].trim();
    let bare = before.trim_matches(|c: char| c.is_whitespace() || "-*+•・>|([{（［【0123456789.".contains(c));
    let rest = after.trim_matches(|c: char| c.is_whitespace() || "|)]}）］】.…,;".contains(c));
    if bare.is_empty() {
        // Alone, or before what it stands for: "... rest of the code".
        return rest.is_empty() || text[to..].starts_with(char::is_whitespace);
    }
    let opens = before.chars().next_back().filter(|c| "([{（［".contains(*c));
    let closes = after.starts_with([')', ']', '}', '）', '］']);
    if opens.is_some() && closes {
        // `f(...)` is a call that is spoken of; "( ... )" and "{ ... }" stand for something.
        let head = before[..before.len() - opens.map_or(0, char::len_utf8)].chars().next_back();
        return before.ends_with('{') || head.is_none_or(char::is_whitespace);
    }
    if !rest.is_empty() {
        return false;
    }
    if before.ends_with([',', '、']) {
        return true;
    }
    // A function of Python that was written without a fence.
    let declares = ["def ", "async def "].iter().any(|word| text.trim_start().starts_with(word));
    if declares && before.ends_with(':') {
        return true;
    }
    // Punctuation hangs on its word; what stands apart stands for something, unless a program says what it is doing.
    let stands_apart = text[..from].ends_with(char::is_whitespace);
    stands_apart
        && after.is_empty()
        && !PROGRESS.is_match(text)
        && !last_word_is_a_placeholder(before)
        && !before.ends_with([']', '>', ':'])
}

fn phrase(line: &Line<'_>, quoted: &[(usize, usize)]) -> Option<(usize, usize)> {
    let text = line.text;
    for piece in line.pieces.iter().filter(|piece| matches!(piece.kind, Kind::Comment | Kind::Prose)) {
        let part = &text[piece.from..piece.to];
        if let Some(found) = SAID.find_iter(part).find(|found| !within(quoted, piece.from + found.start()))
            && !NOT_SAID.is_match(part)
        {
            return Some((piece.from + found.start(), piece.from + found.end()));
        }
        let trimmed = part.trim_end();
        if let Some(found) = ETC_AT_END.find(trimmed)
            && piece.to == text.len()
            && !within(quoted, piece.from + found.start())
        {
            return Some((piece.from + found.start(), piece.from + found.end()));
        }
        let says = said_by_comment(part);
        let stands_alone =
            LINE.is_match(part.trim_matches(|c: char| c.is_whitespace() || "-*+•・>()（）[]".contains(c)));
        let stands_for_it = match piece.kind {
            Kind::Comment => {
                COMMENT.is_match(says)
                    || ETC.is_match(part)
                    || COMMENT_JA.is_match(says)
                    || (piece.first && is_in_place_of_code(line, says))
                    || (piece.first && REMAINING.is_match(says) && is_about_what_is_missing(says))
            }
            _ => stands_alone,
        };
        if stands_for_it && !says.is_empty() {
            let from = piece.from + part.find(says).unwrap_or_default();
            return Some((from, from + says.len()));
        }
    }
    None
}

/// Whether a comment that could also introduce what follows has nothing to introduce.
fn is_in_place_of_code(line: &Line<'_>, says: &str) -> bool {
    let Place::Code(language, body) = line.place else { return false };
    let Some((_, below)) = around(body, line.text) else { return false };
    let mut below = below.lines().skip(1).map(str::trim);
    // Documentation speaks in sentences, and names what it stands above.
    let comment = line.text.trim();
    let is_documentation = comment.starts_with("///")
        || comment.starts_with("//!")
        || comment.trim_end_matches(['*', '/', ' ']).ends_with('.')
        || !comment.starts_with(|c: char| "/#-;%+".contains(c));
    if is_documentation {
        return false;
    }
    if LIKEWISE.is_match(says) {
        let next = below.next().unwrap_or_default();
        return next.chars().all(|c| "})];,".contains(c)) || next == "end";
    }
    let is_page = matches!(language.name, "css" | "scss" | "markup");
    let mut named = below.take(2).filter(|next| next.to_lowercase().contains("placeholder"));
    !is_page && PLACEHOLDER.is_match(says) && named.next().is_none()
}

/// Which part of how many a line says that it begins, where it says nothing else.
pub(super) fn part(text: &str) -> Option<(u32, u32)> {
    if text.len() > 60 {
        return None;
    }
    let found = PART.captures(text)?;
    Some((found[1].parse().ok()?, found[2].parse().ok()?))
}

/// A comment without what makes it one.
pub(super) fn said_by_comment(comment: &str) -> &str {
    let is_frame = |c: char| c.is_whitespace() || "/*#-;%<!>.…‥()（）[]【】{}～〜=ー―:：".contains(c);
    let said = comment.trim_matches(is_frame);
    said.trim_end_matches(['.', '。', '…', '、'])
}
