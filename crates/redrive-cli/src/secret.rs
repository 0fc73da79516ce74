//! What must not be read over a shoulder: the password of a store is blanked wherever its URL is shown.
//!
//! Only showing goes through here; the store itself is opened with the URL as it was given. Rather too much
//! is blanked than too little: a password may hold `/`, `?` and `@`, so all up to the last `@` counts as one.

use redrive::redact;

const BLANK: &str = "[redacted]";

/// The URL of a store, or a word that may be one, without its password.
pub(crate) fn blanked(url: &str) -> String {
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) => (Some(scheme), rest),
        None => (None, url),
    };
    // A path may hold any of these signs, and no password.
    if scheme.unwrap_or(rest).to_ascii_lowercase().starts_with("sqlite") {
        return redact(url);
    }
    let mut out = scheme.map(|scheme| format!("{scheme}://")).unwrap_or_default();
    match rest.rsplit_once('@') {
        Some((who, place)) => {
            match who.split_once(':') {
                Some((user, _)) => out.extend([user, ":", BLANK]),
                None => out.push_str(who),
            }
            out.push('@');
            out.push_str(&without_secret_parameters(place));
        }
        None => out.push_str(&without_secret_parameters(rest)),
    }
    redact(&out)
}

/// What follows the `@`, with parameters such as `password=…` blanked up to the next one.
fn without_secret_parameters(place: &str) -> String {
    let Some((before, parameters)) = place.split_once('?') else {
        return place.to_owned();
    };
    let parameters: Vec<String> = parameters
        .split('&')
        .map(|parameter| match parameter.split_once('=') {
            Some((name, _)) if is_secret(name) => format!("{name}={BLANK}"),
            _ => parameter.to_owned(),
        })
        .collect();
    format!("{before}?{}", parameters.join("&"))
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["pass", "pwd", "secret", "token"].iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-T8: no password of a store is shown, whatever stands in it.
    #[test]
    fn no_password_of_a_store_is_shown() {
        for (url, shown) in [
            ("postgres://u:hunter2@h/db", "postgres://u:[redacted]@h/db"),
            ("postgres://u:hun/ter2@h:5432/db", "postgres://u:[redacted]@h:5432/db"),
            ("postgres://u:hu@nter2@h/db", "postgres://u:[redacted]@h/db"),
            ("postgres://u:hu?nt@er2#@h/db", "postgres://u:[redacted]@h/db"),
            ("postgres://u:hun:ter2@h", "postgres://u:[redacted]@h"),
            ("POSTGRESQL://:hunter2@/db", "POSTGRESQL://:[redacted]@/db"),
            ("postgres://h/db?user=u&password=hunter2,x", "postgres://h/db?user=u&password=[redacted]"),
            ("postgres://u@h/db?sslPassword=hunter2", "postgres://u@h/db?sslPassword=[redacted]"),
            ("u:hunter2@h/db", "u:[redacted]@h/db"),
            ("host=h password=hunter2 user=u", "host=h password=[redacted] user=u"),
        ] {
            assert_eq!(blanked(url), shown, "{url}");
        }
    }

    #[test]
    fn what_holds_no_password_stays() {
        for url in ["sqlite:/data/a:b@c/x.db", "postgres://h:5432/db", "postgres://u@h/db", "fibonacci", ""] {
            assert_eq!(blanked(url), url);
        }
    }
}
