//! Tokens that belong together become one: the parts of a time, a number and its unit, a list of values.

use super::scan::Token;
use super::words::{JAPANESE_BEFORE, JAPANESE_UNITS, MONTHS, UNITS, WEEKDAYS, ZONES, is_one_of};

/// All of it, in the order that makes times whole before numbers are joined.
pub(super) fn tidy(tokens: Vec<Token>) -> Vec<Token> {
    let tokens = units(names_of_time(tokens));
    headless(singular(joined(weekdays(tokens))))
}

/// `11月16日（月）`
fn weekdays(tokens: Vec<Token>) -> Vec<Token> {
    let mut out: Vec<Token> = Vec::with_capacity(tokens.len());
    for token in tokens {
        out.push(token);
        if let [.., Token::Number, Token::Mark('('), Token::Word(day), Token::Mark(')')] = out.as_slice()
            && ["月", "火", "水", "木", "金", "土", "日"].contains(&day.as_str())
        {
            out.truncate(out.len() - 3);
        }
    }
    out
}

/// What a log writes before every line, a time and a number in brackets, is no part of the message.
fn headless(tokens: Vec<Token>) -> Vec<Token> {
    if !tokens.iter().any(|token| matches!(token, Token::Word(_))) {
        return tokens;
    }
    let mut rest = tokens.as_slice();
    loop {
        rest = match rest {
            [Token::Mark('['), Token::Number, Token::Mark(']'), after @ ..]
            | [Token::Number | Token::Space, after @ ..]
            | [Token::Mark(':' | '-' | '|' | ','), Token::Space, after @ ..] => after,
            _ => break,
        };
    }
    rest.to_vec()
}

/// Months, weekdays and zones beside a number are a part of it.
fn names_of_time(mut tokens: Vec<Token>) -> Vec<Token> {
    let is = |token: &Token, list: &[&str]| matches!(token, Token::Word(word) if is_one_of(list, word));
    for i in 0..tokens.len() {
        let Token::Word(word) = &tokens[i] else { continue };
        let capital = word.starts_with(|c: char| c.is_ascii_uppercase());
        let month =
            capital && is(&tokens[i], MONTHS) && (number_after(&tokens, i) || number_before(&tokens, i));
        let zone = is(&tokens[i], ZONES) && number_before(&tokens, i) && (capital || word.len() == 2);
        if month || zone {
            tokens[i] = Token::Number;
        }
    }
    // From the right: a weekday stands before the month that has just become a number.
    for i in (0..tokens.len()).rev() {
        let capital =
            matches!(&tokens[i], Token::Word(word) if word.starts_with(|c: char| c.is_ascii_uppercase()));
        if capital && is(&tokens[i], WEEKDAYS) && number_after(&tokens, i) {
            tokens[i] = Token::Number;
        }
    }
    tokens
}

/// Whether a number stands behind, with a blank, a comma or a dash at most between.
fn number_after(tokens: &[Token], i: usize) -> bool {
    tokens[i + 1..].iter().take(3).find(|token| !between(token)) == Some(&Token::Number)
}

fn number_before(tokens: &[Token], i: usize) -> bool {
    tokens[..i].iter().rev().take(2).find(|token| !between(token)) == Some(&Token::Number)
}

fn between(token: &Token) -> bool {
    matches!(token, Token::Space | Token::Mark(',' | '-' | '/' | '.'))
}

/// A unit behind a number belongs to it, a sign before it too.
fn units(tokens: Vec<Token>) -> Vec<Token> {
    let mut out: Vec<Token> = Vec::with_capacity(tokens.len());
    for token in tokens {
        let after_number = match out.as_slice() {
            [.., Token::Number] => Some(0),
            [.., Token::Number, Token::Space] => Some(1),
            _ => None,
        };
        match (&token, after_number) {
            (Token::Word(word), Some(blank)) if is_one_of(UNITS, word) => out.truncate(out.len() - blank),
            (Token::Mark('%'), Some(blank)) => out.truncate(out.len() - blank),
            (Token::Word(word), Some(0)) if !word.is_ascii() => match japanese(word) {
                "" => {}
                rest => out.push(Token::Word(rest.to_owned())),
            },
            (Token::Word(word), Some(1)) if JAPANESE_UNITS.iter().any(|unit| word.starts_with(unit)) => {
                out.pop();
                let rest = japanese(word);
                if !rest.is_empty() {
                    out.push(Token::Word(rest.to_owned()));
                }
            }
            (Token::Number, _) => {
                signs_off(&mut out);
                out.push(Token::Number);
            }
            _ => out.push(token),
        }
    }
    out
}

/// What is left of Japanese words behind a number without the unit: `秒以内` is `以内`.
fn japanese(word: &str) -> &str {
    JAPANESE_UNITS.iter().find_map(|unit| word.strip_prefix(unit)).unwrap_or(word)
}

/// A sign, or 令和 and 午後, before a number.
fn signs_off(out: &mut Vec<Token>) {
    let free = |token: Option<&Token>| {
        matches!(token, None | Some(Token::Space | Token::Mark('(' | '[' | ':' | '=' | ',')))
    };
    match out.as_slice() {
        [.., before, Token::Mark('-' | '+' | '±' | '~' | '$' | '¥' | '€')] if free(Some(before)) => {
            out.pop();
        }
        [Token::Mark('-' | '+' | '±' | '~' | '$' | '¥' | '€')] => {
            out.pop();
        }
        [.., Token::Word(word)] if !word.is_ascii() => {
            let stem = JAPANESE_BEFORE.iter().find_map(|era| word.strip_suffix(era)).map(ToOwned::to_owned);
            if let Some(stem) = stem {
                out.pop();
                if !stem.is_empty() {
                    out.push(Token::Word(stem));
                }
            }
        }
        _ => {}
    }
}

/// Numbers with a mark or a blank between are one number, values in a list one value, a host after a host one host.
fn joined(tokens: Vec<Token>) -> Vec<Token> {
    let mut out: Vec<Token> = Vec::with_capacity(tokens.len());
    for token in tokens {
        if out.last() == Some(&Token::Space) && token == Token::Space {
            continue;
        }
        let is_one = |token: &Token| {
            matches!(token, Token::Number | Token::Value | Token::Host | Token::Path(_) | Token::Mail)
        };
        if is_one(&token) {
            let glue = out.iter().rev().take(4).take_while(|before| glues(before, &token)).count();
            let words = out.len() - glue;
            let same = words
                .checked_sub(1)
                .and_then(|i| out.get(i))
                .is_some_and(|before| *before == token || is_path(before) && is_path(&token));
            if same && glue <= 3 {
                out.truncate(words);
                if is_path(&token) {
                    out.pop();
                    out.push(token);
                }
                continue;
            }
        }
        out.push(token);
    }
    out
}

const fn is_path(token: &Token) -> bool {
    matches!(token, Token::Path(_))
}

/// What may stand between two that are one.
fn glues(token: &Token, of: &Token) -> bool {
    match (of, token) {
        (_, Token::Space) | (Token::Value | Token::Host | Token::Mail, Token::Mark(',' | '/' | '.')) => true,
        (Token::Value | Token::Host, Token::Word(word)) => matches!(word.as_str(), "or" | "and"),
        (Token::Number, Token::Mark(mark)) => {
            matches!(mark, '.' | ':' | ',' | '-' | '/' | '+' | '~' | '–' | '×')
        }
        (Token::Number, Token::Word(word)) => word == "T",
        _ => false,
    }
}

/// `1 row` and `2 rows` are alike.
fn singular(mut tokens: Vec<Token>) -> Vec<Token> {
    for i in 2..tokens.len() {
        if tokens[i - 2] == Token::Number
            && tokens[i - 1] == Token::Space
            && let Token::Word(word) = &mut tokens[i]
        {
            if let Some(stem) = word.strip_suffix("ies").filter(|stem| stem.len() > 2) {
                *word = format!("{stem}y");
            } else if word.len() > 3
                && word.ends_with('s')
                && !["ss", "us", "is", "as", "os"].iter().any(|end| word.ends_with(end))
            {
                word.pop();
            }
        }
    }
    tokens
}
