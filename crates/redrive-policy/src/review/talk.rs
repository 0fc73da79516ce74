//! Q5 in words: a refusal, an announcement, or the error of a tool stands where a result should.
//!
//! Each counts only where nothing else is delivered. A refusal opens the output and little follows; an announcement is all
//! that is said; an error is the whole of it. Somebody who asks, explains or offers something else has said something.

use std::sync::LazyLock;

use regex::Regex;

use super::document::numbered;
use super::patterns::regex;
use crate::cause::Cause;
use crate::classify::Classifier;
use crate::failure::Report;

/// A sentence that declines the work as such. What cannot be found, run or reproduced is a result.
static REFUSES: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?ix)^(?:
         (?:(?:i['’]m|i\ am)\ (?:very\ |really\ |so\ )?sorry|sorry|i\ apologi[sz]e|unfortunately|my\ apologies)?[,;:]?\s*(?:but\s+|as\ an\ ai(?:\ (?:language\ )?model)?,\s+)*
            i(?:\ (?:can(?:['’]t|not|\ not)|won['’]t|will\ not|am\ (?:unable|not\ able)\ to|must\ decline\ to)|['’]m\ (?:unable|not\ able)\ to)(?:\ be\ able\ to)?\s+
            (?:(?:help|assist)(?:\ you)?(?:\ (?:with\ )?(?:that|this|it|your)(?:\ \w+){0,3})?|(?:comply|proceed|continue)\ with\ (?:that|this|your)(?:\ \w+){0,2}|(?:fulfil+|complete|do|answer|process|carry\ out|perform)\ (?:that|this|your)(?:\ (?:request|task|prompt|question))?)
        |(?:sorry,?\ (?:but\ )?)?i\ (?:must|have\ to)\ (?:respectfully\ )?(?:decline|refuse)(?:\ (?:that|this|your|to)\b.{0,40})?
        |(?:(?:大変|誠に|まことに)?申し訳(?:ありません|ございません|ない(?:の)?です)|すみません|恐れ入ります|恐縮です)(?:が|けど|けれど)?[、,]?\s*.{0,40}?(?:お応え|お答え|お手伝い|ご?協力|ご?対応|お力|ご?支援|ご?提供|ご?回答|お引き受け|お受け)(?:する|いたす|になる)?(?:こと)?(?:が|は|も)?(?:でき(?:ません|ない|かねます)|いたしかねます|しかねます)
        |(?:その|この|そのような|このような)?ご?(?:依頼|要望|要求|リクエスト)(?:に|を|は|には)[、]?(?:お応え|応える|お答え|お引き受け|お受け|応じる)(?:する)?(?:こと)?(?:が|は|も)?(?:でき(?:ません|かねます)|いたしかねます)
        )$",
    )
});
/// Something is offered in its place.
static OFFERS: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)\b(?:instead|however|alternativ\w+|here(?:['’]s| is| are)|i(?:['’]ve| have)|but)\b|代わりに|代替|ただし|なお|一方",
    )
});
/// A sentence that says what is going to be done.
static ANNOUNCES: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?ix)^(?:
         (?:(?:ok|okay|sure|certainly|great|alright|now|next|first|then|understood|so)[,!]?\s+(?:then\s+)?)?(?:i\ will|i['’]ll|i\ am\ going\ to|i['’]m\ going\ to|i\ am\ about\ to|i['’]m\ about\ to|let\ me|let['’]s)\s+
            (?:(?:now|first|then|next|also|start\ by|begin\ by|go\ ahead\ and|quickly|carefully|get\ started\ (?:by|with|on))\s+)*
            (?:implement|creat|writ|add|build|fix|refactor|updat|start|begin|look|check|examin|analy[sz]|review|investigat|explor|read|work\ on|proceed|set\ up|search|inspect|modif|design|generat|prepar|get\ started|tackle|port|migrat|rewrit|extend)(?:e|ing|y|ying|ting|ning|t)?\b.*
        |(?:では|それでは|さて|はい)?[、,]?\s*(?:まず(?:は)?、?)?(?:これから|今から|早速|さっそく|ただいま(?:から|より))[、,]?.{0,80}?(?:実装|作成|修正|追加|調査|確認|対応|開始|着手|変更|作業|更新|分析|検討|生成|設計|リファクタリング|移行|改修|作業)(?:を|に)?(?:開始し|行い|行っていき|進め(?:ていき)?|始め|取り(?:掛|か)かり|着手し|していき|してまいり|し|いたし|致し)ます
        |(?:では|それでは)、?.{0,80}?(?:実装|作成|修正|追加|調査|対応|着手|変更|作業|更新|分析|設計|移行|改修)(?:を|に)?(?:開始し|進め(?:ていき)?|始め|取り(?:掛|か)かり|着手し|していき|してまいり)ます
        )$",
    )
});
/// It depends on something, or on somebody: a question, not an announcement.
static DEPENDS: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?i)\b(?:if|once|when|whenever|after|unless|until|tomorrow|later|know)\b|\?$|たら|れば|場合|なら|次第|後に",
    )
});

/// Errors that tools of models print with exit code 0.
static TOOL_ERROR: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r#"(?ix)^\W*(?:
         (?:api\s+)?error\b[^{}]{0,60}\b[45]\d\d\b[^{}]{0,60}\{.*"(?:error|type|message|code)"\s*:.*
        |(?:(?:api\s+)?error\b[^{}]{0,60})?\{.*"(?:type|code|status)"\s*:\s*"(?:overloaded_error|rate_limit_error|rate_limit_exceeded|authentication_error|permission_error|billing_error|insufficient_quota|invalid_api_key|api_error|server_error|RESOURCE_EXHAUSTED|UNAVAILABLE|UNAUTHENTICATED)".*
        |api\s+error\s*[:(].{1,300}
        |(?:error:?\s*)?(?:invalid|incorrect|missing)\s+(?:x-)?api[\ -]key(?:\s+provided)?\s*(?:[.·:;|-].{0,120})?
        |.{0,60}\bplease\s+run\s+/login\b.{0,40}
        |(?:error:?\s*)?(?:[\w.-]+\s){0,3}(?:usage|rate|session|weekly|hourly|daily|request)\s+limit\s+(?:reached|exceeded)\s*(?:[|.·∙;:(,-].{0,120})?
        |(?:error:?\s*)?you(?:['’]ve|\s+have)\s+(?:hit|reached|exceeded)\s+your\s+(?:[\w-]+\s){0,2}(?:limit|quota)\b.{0,120}
        |(?:error:?\s*)?(?:your\s+)?credit\s+balance\s+is\s+too\s+low\b.{0,120}
        |(?:error:?\s*)?oauth\s+token\s+(?:has\s+|is\s+)?(?:expired|revoked|invalid)\b.{0,120}
        |(?:エラー[:：]\s*)?API\s*キーが(?:無効|正しくありません|設定されていません).{0,20}
        |(?:エラー[:：]\s*)?(?:利用|使用|レート|リクエスト)(?:量|回数|数)?の?(?:上限|制限)(?:に達しました|を超えました|に達しています).{0,30}
        )$"#,
    )
});

/// More than this is an explanation of some worth, or a plan.
const LONG: usize = 240;
/// A longer text is no error line, and no sentence.
const ERROR_BYTES: usize = 2_000;

/// What an output says in place of a result.
#[derive(Debug, Default)]
pub(super) struct Talk {
    /// The line of the first such sentence.
    pub(super) line: Option<u32>,
    refused: bool,
    /// How much was announced, or added to a refusal.
    bytes: usize,
}

impl Talk {
    /// Whether a sentence is only talk. `is_first`: nothing was said before it.
    pub(super) fn takes(&mut self, line: u32, sentence: &str, is_first: bool) -> bool {
        if sentence.len() > ERROR_BYTES {
            return false;
        }
        let is_talk = if is_first && REFUSES.is_match(sentence) {
            self.refused = true;
            true
        } else if self.refused {
            self.bytes += sentence.len();
            self.bytes <= LONG && !OFFERS.is_match(sentence)
        } else {
            let announces = ANNOUNCES.is_match(sentence) && !DEPENDS.is_match(sentence);
            self.bytes += if announces { sentence.len() } else { 0 };
            announces && self.bytes <= LONG
        };
        if is_talk {
            self.line.get_or_insert(line);
        }
        is_talk
    }
}

/// The error that an output consists of: its line and what it means, where that is known.
pub(super) fn error_of_a_tool(text: &str) -> Option<(u32, &str, Option<Cause>)> {
    if text.trim().len() > ERROR_BYTES {
        return None;
    }
    let mut lines = numbered(text).filter(|(_, line)| !line.trim().is_empty());
    let (number, line) = lines.next()?;
    let is_error = |line: &str| TOOL_ERROR.is_match(line.trim());
    if !is_error(line) || !lines.all(|(_, line)| is_error(line)) {
        return None;
    }
    let cause = Classifier::built_in().classify(&Report::text(line.trim())).cause;
    let is_known = matches!(
        cause,
        Cause::Network
            | Cause::Timeout
            | Cause::RateLimit
            | Cause::ApiError
            | Cause::AuthError
            | Cause::ResourceExhausted
    );
    Some((number, line, is_known.then_some(cause)))
}
