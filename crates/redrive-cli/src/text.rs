//! What the command line says to people; the texts live in `messages/en.toml` and `messages/ja.toml`.

use std::fmt::Display;
use std::sync::LazyLock;

use redrive_policy::{Catalog, Lang};

// Both files are part of the program and a test parses them; without them every text would show its key.
static CATALOG: LazyLock<Option<Catalog>> = LazyLock::new(|| {
    Catalog::load(include_str!("../messages/en.toml"), include_str!("../messages/ja.toml")).ok()
});

/// The text of that key with its values put in.
pub(crate) fn text(lang: Lang, key: &str, values: &[(&str, &dyn Display)]) -> String {
    CATALOG.as_ref().map_or_else(|| key.to_owned(), |catalog| catalog.text(lang, key, values))
}

/// The text of a key that has no values.
pub(crate) fn say(lang: Lang, key: &str) -> String {
    text(lang, key, &[])
}

/// The text of that key if there is one.
pub(crate) fn find(lang: Lang, key: &str) -> Option<&'static str> {
    CATALOG.as_ref().and_then(|catalog| catalog.raw(lang, key))
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
        assert!(catalog.keys().count() > 50);
    }

    /// R-C2: what is Japanese is written in Japanese, and no text is empty.
    #[test]
    fn no_text_is_empty_and_japanese_is_japanese() {
        let catalog = CATALOG.as_ref().unwrap();
        for key in catalog.keys() {
            let (en, ja) = (catalog.raw(Lang::En, key).unwrap(), catalog.raw(Lang::Ja, key).unwrap());
            assert!(!en.trim().is_empty() && !ja.trim().is_empty(), "{key} is empty");
            let words = en.split_whitespace().count() > 2 && !key.ends_with(".examples");
            assert!(!words || !ja.is_ascii(), "{key} is not translated");
        }
    }
}
