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

/// What redrive itself has written down in English, for whoever reads another language; what others have said stays as it is. Errors of
/// jobs are kept in English alone, so that groups and filters know them again.
pub(crate) fn own(lang: Lang, words: &str) -> String {
    let told = CATALOG.as_ref().filter(|_| lang != Lang::En).and_then(|catalog| {
        let words = words.trim();
        catalog.translated(lang, "own.", words)
    });
    told.unwrap_or_else(|| words.to_owned())
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

    /// R-C2: what the engine writes down about a job or an endpoint is told in Japanese, each sentence of it and its parts, and what
    /// others have said stays.
    #[test]
    fn what_the_engine_says_is_told_in_japanese() {
        use redrive::engine::{NotListed, check_payload};
        use redrive::{Inside, Refused};
        let (host, address) = ("db.example.com".to_owned(), "10.0.0.7".parse().unwrap());
        let inside = [
            Inside::Loopback,
            Inside::Private,
            Inside::LinkLocal,
            Inside::Shared,
            Inside::Unspecified,
            Inside::Multicast,
            Inside::Broadcast,
            Inside::Reserved,
        ];
        let mut said: Vec<String> = Vec::new();
        for host in [host.clone(), "10.0.0.7".to_owned()] {
            said.extend(
                inside.map(|inside| Refused::Inside { host: host.clone(), address, inside }.to_string()),
            );
            said.push(Refused::Ourselves { host, address }.to_string());
        }
        said.extend(
            [Refused::Port { host, port: 22 }, Refused::UserInfo, Refused::NoHost].map(|one| one.to_string()),
        );
        said.push(NotListed::Program("/bin/sh".to_owned()).to_string());
        said.push(NotListed::Setting("env").to_string());
        for (kind, payload) in [
            ("http", r#"{"method": 5, "url": "http://x/"}"#),
            ("http", r#"{"method": "GET"}"#),
            ("http", r#"{"method": "GET", "url": "http://x/", "header": 1}"#),
            ("http", r#"{"method": "GE T", "url": "http://x/"}"#),
            ("http", r#"{"method": "GET", "url": "ftp://x/"}"#),
            ("http", r#"{"method": "GET", "url": "http://x/", "headers": {"host": "y"}}"#),
            ("exec", r#"{"argv": "ls"}"#),
            ("exec", r#"{"argv": []}"#),
        ] {
            said.push(check_payload(kind, payload.as_bytes()).unwrap_err().to_string());
        }
        said.push("it answered 410 Gone".to_owned());
        for words in &said {
            assert_eq!(own(Lang::En, words), *words);
            let told = own(Lang::Ja, words);
            assert!(!told.is_ascii(), "{words} has no Japanese");
            // Names and settings stay; sentences of ours do not.
            for english in ["jobs", "expected", " is ", "the form", "a string", "address", "machine"] {
                assert!(!told.contains(english), "{words}: {told}");
            }
        }
        for others in ["string too long", "map", "no address", "connection refused", "the job is gone"] {
            assert_eq!(own(Lang::Ja, others), others);
        }
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
