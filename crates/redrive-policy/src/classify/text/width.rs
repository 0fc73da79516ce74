//! One width for every letter: what Japanese systems print in full and half width meets here.

/// Full-width letters become narrow, half-width kana become wide, the long-vowel mark goes (サーバー is
/// サーバ), and punctuation of the East becomes that of the West.
pub(super) fn fold_widths(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            // 「…」 quotes a name as often as a message; what ends like no sentence is a name.
            '「' | '『' => {
                rest = &rest[quoted_name(rest).unwrap_or(0)..];
                out.push(' ');
            }
            '\u{ff01}'..='\u{ff5e}' => out.push(char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c)),
            'ー' | '\u{ff70}' | '\u{200b}' | '\u{feff}' => {}
            '。' | '｡' => out.push_str(". "),
            '\u{3000}'
            | '\u{a0}'
            | '、'
            | '､'
            | '・'
            | '」'
            | '』'
            | '【'
            | '】'
            | '“'
            | '”'
            | '…'
            | '•'
            | '─'..='╿' => out.push(' '),
            '\'' | '’' | '‘' => out.push('\''),
            '\u{ff9e}' | '\u{ff9f}' => voice(&mut out, c),
            '\u{ff66}'..='\u{ff9d}' => out.push(wide_kana(c)),
            _ => out.push(c),
        }
    }
    out
}

/// The wide form of a half-width katakana.
pub(super) fn wide_kana(c: char) -> char {
    const WIDE: &str = "ヲァィゥェォャュョッーアイウエオカキクケコサシスセソタチツテトナニヌネノハヒフヘホマミムメモヤユヨラリルレロワン";
    let at = usize::try_from(u32::from(c) - 0xff66).unwrap_or_default();
    WIDE.chars().nth(at).unwrap_or(c)
}

/// Joins a half-width voicing mark to the kana before it.
pub(super) fn voice(out: &mut String, mark: char) {
    let Some(last) = out.pop() else { return };
    let step = if mark == '\u{ff9e}' { 1 } else { 2 };
    let voiced = match last {
        'カ'..='ト' | 'ハ'..='ホ' => char::from_u32(u32::from(last) + step),
        'ウ' if step == 1 => Some('ヴ'),
        _ => None,
    };
    out.push(voiced.unwrap_or(last));
}

/// Where a quoted name ends, if what stands in the Japanese quotes is one.
fn quoted_name(rest: &str) -> Option<usize> {
    const SPEAKS: &[&str] = &["ました", "ません", "です", "ます", "した", "ない", "エラー", "。", "、", " "];
    let end = rest.find(['」', '』'])?;
    let content = &rest[..end];
    (content.chars().count() <= 24 && !SPEAKS.iter().any(|word| content.contains(word))).then_some(end)
}
