//! What a person reads, in English and Japanese.
//!
//! Texts live in flat TOML files, one per language, with `{name}` where a value goes. Keys and placeholders
//! are equal in both files; a test holds them together. JSON keys, codes and causes are never translated.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::str::FromStr;
use std::sync::LazyLock;

use crate::cause::UnknownName;

/// A language that redrive speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Lang {
    /// English.
    #[default]
    En,
    /// 日本語.
    Ja,
}

impl Lang {
    /// Both languages.
    pub const ALL: [Lang; 2] = [Lang::En, Lang::Ja];

    /// The name as it is written on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Lang::En => "en",
            Lang::Ja => "ja",
        }
    }

    /// The language of a locale such as `ja_JP.UTF-8`; `None` when it names neither.
    ///
    /// ```
    /// use redrive_policy::Lang;
    /// assert_eq!(Lang::of_locale("ja_JP.UTF-8"), Some(Lang::Ja));
    /// assert_eq!(Lang::of_locale("C"), Some(Lang::En));
    /// ```
    pub fn of_locale(locale: &str) -> Option<Lang> {
        let language = locale.split(['_', '.', '-', '@']).next().unwrap_or_default();
        match language {
            "ja" => Some(Lang::Ja),
            "en" | "C" | "POSIX" => Some(Lang::En),
            _ => None,
        }
    }
}

impl Display for Lang {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Lang {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Lang, UnknownName> {
        match name {
            "en" => Ok(Lang::En),
            "ja" => Ok(Lang::Ja),
            _ => Err(UnknownName { given: name.to_owned(), allowed: &["en", "ja"] }),
        }
    }
}

/// One program's texts in both languages.
///
/// ```
/// use redrive_policy::{Catalog, Lang};
///
/// let catalog = Catalog::load("[greet]\nhello = \"Hello {name}\"", "[greet]\nhello = \"{name}さん、こんにちは\"").unwrap();
/// assert_eq!(catalog.text(Lang::Ja, "greet.hello", &[("name", &"Ada")]), "Adaさん、こんにちは");
/// ```
#[derive(Debug)]
pub struct Catalog {
    english: BTreeMap<String, String>,
    japanese: BTreeMap<String, String>,
}

impl Catalog {
    /// Reads both files; tables nest with dots: `[a.b]` `c = "…"` is the key `a.b.c`.
    pub fn load(english: &str, japanese: &str) -> Result<Catalog, toml::de::Error> {
        Ok(Catalog { english: flatten(english)?, japanese: flatten(japanese)? })
    }

    /// The text of that key with its values put in. A key that is missing shows itself, so that it is seen.
    pub fn text(&self, lang: Lang, key: &str, values: &[(&str, &dyn Display)]) -> String {
        match self.raw(lang, key) {
            Some(template) => fill(template, values),
            None => key.to_owned(),
        }
    }

    /// The template of that key.
    pub fn raw(&self, lang: Lang, key: &str) -> Option<&str> {
        self.of(lang).get(key).map(String::as_str)
    }

    /// What keeps the two files from saying the same: keys in one only, and differing placeholders.
    pub fn disparities(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (own, other, name) in
            [(&self.english, &self.japanese, "ja"), (&self.japanese, &self.english, "en")]
        {
            for (key, template) in own {
                match other.get(key) {
                    None => found.push(format!("{key}: missing in {name}")),
                    Some(twin) if placeholders(template) != placeholders(twin) => {
                        found.push(format!("{key}: placeholders differ"));
                    }
                    Some(_) => {}
                }
            }
        }
        found.sort();
        found.dedup();
        found
    }

    /// Every key, in order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.english.keys().map(String::as_str)
    }

    /// A sentence that was written down in another language, in this one, if one of the texts whose keys begin so says it. The values in
    /// it are taken over; those that are such texts themselves are told in this language, too. Texts under `part` are only looked for in
    /// values: alone they are too short to be known for ours.
    ///
    /// ```
    /// use redrive_policy::{Catalog, Lang};
    ///
    /// let catalog = Catalog::load("[said]\nport = \"port {n} is closed\"", "[said]\nport = \"ポート {n} は閉じています\"").unwrap();
    /// assert_eq!(catalog.translated(Lang::Ja, "said.", "port 22 is closed").unwrap(), "ポート 22 は閉じています");
    /// assert_eq!(catalog.translated(Lang::Ja, "said.", "port 22 is open"), None);
    /// ```
    pub fn translated(&self, to: Lang, under: &str, words: &str) -> Option<String> {
        let part = format!("{under}part.");
        self.told(to, under, words, &|key| !key.starts_with(&part))
    }

    fn told(&self, to: Lang, under: &str, words: &str, fits: &dyn Fn(&str) -> bool) -> Option<String> {
        let from = match to {
            Lang::En => Lang::Ja,
            Lang::Ja => Lang::En,
        };
        let mut best: Option<(usize, &str, Values<'_>)> = None;
        let texts = self.of(from).iter().skip_while(|(key, _)| key.as_str() < under);
        for (key, template) in
            texts.take_while(|(key, _)| key.starts_with(under)).filter(|(key, _)| fits(key))
        {
            let Some(values) = values_in(template, words) else { continue };
            // The one that says the most of it by itself.
            let said = words.len() - values.iter().map(|(_, value)| value.len()).sum::<usize>();
            if best.as_ref().is_none_or(|(most, ..)| said > *most) {
                best = Some((said, key, values));
            }
        }
        let (_, key, values) = best?;
        let values: Vec<(&str, String)> = values
            .into_iter()
            .map(|(name, value)| {
                (name, self.told(to, under, value, &|_| true).unwrap_or_else(|| value.to_owned()))
            })
            .collect();
        let values: Vec<(&str, &dyn Display)> =
            values.iter().map(|(name, value)| (*name, value as &dyn Display)).collect();
        Some(self.text(to, key, &values))
    }

    fn of(&self, lang: Lang) -> &BTreeMap<String, String> {
        match lang {
            Lang::En => &self.english,
            Lang::Ja => &self.japanese,
        }
    }
}

fn flatten(source: &str) -> Result<BTreeMap<String, String>, toml::de::Error> {
    fn walk(prefix: &str, table: toml::Table, into: &mut BTreeMap<String, String>) {
        for (key, value) in table {
            let path = if prefix.is_empty() { key } else { format!("{prefix}.{key}") };
            match value {
                toml::Value::Table(inner) => walk(&path, inner, into),
                toml::Value::String(text) => drop(into.insert(path, text)),
                // Only texts are looked up; anything else in the file would be found by the parity test.
                _ => {}
            }
        }
    }
    let mut texts = BTreeMap::new();
    walk("", toml::from_str(source)?, &mut texts);
    Ok(texts)
}

/// Puts values where the template has `{name}`. Values are inserted as they are and never read again, so a
/// `{…}` inside a value stays what it is.
pub(crate) fn fill(template: &str, values: &[(&str, &dyn Display)]) -> String {
    use std::fmt::Write;
    let mut out = String::with_capacity(template.len() + 32);
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        out.push_str(&rest[..open]);
        rest = &rest[open..];
        let close = rest.find('}').map(|close| (close, &rest[1..close]));
        let found =
            close.and_then(|(close, name)| Some((close, values.iter().find(|(key, _)| *key == name)?.1)));
        if let Some((close, value)) = found {
            let _ = write!(out, "{value}");
            rest = &rest[close + 1..];
        } else {
            out.push('{');
            rest = &rest[1..];
        }
    }
    out.push_str(rest);
    out
}

/// Names of values, and the values.
type Values<'a> = Vec<(&'a str, &'a str)>;

/// The values that a template was filled with to say this; nothing when it says something else. A template that is nothing but a value
/// says anything, and so nothing.
fn values_in<'a>(template: &'a str, words: &'a str) -> Option<Values<'a>> {
    let (begin, mut rest) = template.split_once('{').unwrap_or((template, ""));
    let mut words = words.strip_prefix(begin)?;
    if rest.is_empty() {
        return words.is_empty().then(Vec::new);
    }
    let mut values = Vec::new();
    let mut said = begin.len();
    loop {
        let (name, after) = rest.split_once('}')?;
        let (literal, next) = match after.split_once('{') {
            Some((literal, next)) => (literal, Some(next)),
            None => (after, None),
        };
        said += literal.len();
        let end = match (next, literal) {
            (None, literal) => words.len().checked_sub(literal.len()).filter(|_| words.ends_with(literal))?,
            (Some(_), literal) => words.find(literal)?,
        };
        let value = &words[..end];
        let known = values.iter().find(|(known, _)| *known == name);
        if value.is_empty() || known.is_some_and(|(_, known)| *known != value) {
            return None;
        }
        values.push((name, value));
        match next {
            Some(next) => (words, rest) = (&words[end + literal.len()..], next),
            None => return (said > 0).then_some(values),
        }
    }
}

fn placeholders(template: &str) -> Vec<&str> {
    let mut names: Vec<&str> =
        template.split('{').skip(1).filter_map(|part| part.split_once('}').map(|(name, _)| name)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

static CATALOG: LazyLock<Catalog> = LazyLock::new(|| {
    // Both files are part of this crate and a test parses them; without them people would be shown bare keys.
    Catalog::load(include_str!("../messages/en.toml"), include_str!("../messages/ja.toml"))
        .unwrap_or_else(|error| panic!("the built-in messages do not load: {error}"))
});

/// A text of this crate.
pub(crate) fn text(lang: Lang, key: &str, values: &[(&str, &dyn Display)]) -> String {
    CATALOG.text(lang, key, values)
}

/// A sentence of this crate that was written down in another language; see [`Catalog::translated`].
pub(crate) fn translated(to: Lang, under: &str, words: &str) -> Option<String> {
    CATALOG.translated(to, under, words)
}

/// The template of a text of this crate.
pub(crate) fn template(lang: Lang, key: &str) -> &'static str {
    CATALOG.raw(lang, key).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-C2: both languages say the same things.
    #[test]
    fn both_languages_have_the_same_keys_and_placeholders() {
        let catalog =
            Catalog::load(include_str!("../messages/en.toml"), include_str!("../messages/ja.toml")).unwrap();
        assert_eq!(catalog.disparities(), Vec::<String>::new());
        assert!(catalog.keys().count() > 20);
    }

    #[test]
    fn a_value_is_never_read_as_a_template() {
        assert_eq!(fill("{a} and {b}, {c}", &[("a", &"{b}"), ("b", &2)]), "{b} and 2, {c}");
        assert_eq!(fill("open { brace", &[]), "open { brace");
    }

    /// R-C2: what was written down in one language is told in the other, with its values; what others have said stays.
    #[test]
    fn a_sentence_is_told_in_the_other_language() {
        let english = "[a]\nplain = \"done\"\nport = \"port {n} of {host}; {n} is closed\"\nlong = \"{who} is {what}; no\"\nlonger = \"{who} is {at}, {what}; no\"\n[b]\nother = \"port {n}\"";
        let japanese = "[a]\nplain = \"済み\"\nport = \"{host} の {n} 番\"\nlong = \"{who} は{what}\"\nlonger = \"{who}（{at}）は{what}\"\n[b]\nother = \"{n} 番\"";
        let catalog = Catalog::load(english, japanese).unwrap();
        let told = |words: &str| catalog.translated(Lang::Ja, "a.", words);
        assert_eq!(told("done").as_deref(), Some("済み"));
        assert_eq!(told("port 22 of db; 22 is closed").as_deref(), Some("db の 22 番"));
        assert_eq!(told("port 22 of db; 23 is closed"), None, "one value, said twice, is one");
        assert_eq!(told("x is y; no").as_deref(), Some("x はy"));
        assert_eq!(
            told("x is 1, done; no").as_deref(),
            Some("x（1）は済み"),
            "the longer one, and its parts"
        );
        assert_eq!(told("x is y; no, z").as_deref(), None);
        for others in ["", "port 22", "undone", "done.", "port  of ;  is closed"] {
            assert_eq!(told(others), None, "{others}");
        }
        assert_eq!(catalog.translated(Lang::En, "a.", "済み").as_deref(), Some("done"));
    }

    #[test]
    fn a_disparity_is_named() {
        let catalog = Catalog::load("a = \"{x}\"\nb = \"1\"", "a = \"{y}\"\nc = \"1\"").unwrap();
        assert_eq!(catalog.disparities(), ["a: placeholders differ", "b: missing in ja", "c: missing in en"]);
    }
}
