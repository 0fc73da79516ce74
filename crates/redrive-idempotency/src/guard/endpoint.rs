//! What a person sees of a request's place: method and path, without what may be a secret.
//!
//! Some services carry tokens in their paths. A record, a log and a list must not; so a segment that looks like more than a word or a
//! short number is blanked. It is in the hash as it was sent.

use http::Method;

/// The most characters of a path that a person sees.
const MAX_CHARS: usize = 300;
/// What stands where something was blanked.
const BLANK: &str = "{…}";
/// A segment with a digit in it, or with capitals among small letters, is an id or a token from here on.
const LONGEST_NUMBER: usize = 11;
/// Nothing longer is a word.
const LONGEST_WORD: usize = 40;

/// Method and path, for people.
pub(super) fn endpoint(method: &Method, path: &str) -> String {
    let mut text = String::with_capacity(method.as_str().len() + path.len() + 1);
    text.push_str(method.as_str());
    text.push(' ');
    for (at, segment) in path.split('/').enumerate() {
        if text.len() > MAX_CHARS {
            text.push('…');
            break;
        }
        if at > 0 {
            text.push('/');
        }
        text.push_str(if may_be_secret(segment) { BLANK } else { segment });
    }
    text
}

fn may_be_secret(segment: &str) -> bool {
    let has = |is: fn(&u8) -> bool| segment.bytes().any(|byte| is(&byte));
    let odd = !segment.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte));
    let mixed = has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase);
    odd || segment.len() > LONGEST_WORD
        || (segment.len() > LONGEST_NUMBER && (has(u8::is_ascii_digit) || mixed))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-I2, R-D7: a person can tell which endpoint it was, and nothing that may be a secret is in it.
    #[test]
    fn words_stay_and_tokens_go() {
        let check =
            |path: &str, seen: &str| assert_eq!(endpoint(&Method::POST, path), format!("POST {seen}"));
        check("/v1/bookmarks", "/v1/bookmarks");
        check("/v1/orders/1234/reprocess-all", "/v1/orders/1234/reprocess-all");
        check("/v1/user_settings/", "/v1/user_settings/");
        check("/", "/");
        check("/close/token=ghp_CANARY", "/close/{…}");
        check("/bot123456:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw/send", "/{…}/send");
        check("/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX1", "/services/T00000000/B00000000/{…}");
        check("/reset/dGhpc0lzQVRva2Vu", "/reset/{…}");
        check("/v1/b/018f4c7e-7b1c-7d00-8000-000000000001", "/v1/b/{…}");
        check("/sk_live_abc123def456", "/{…}");
        let long = endpoint(&Method::POST, &"/segment".repeat(1_000));
        assert!(long.len() < MAX_CHARS + 30 && long.ends_with('…'), "{long}");
    }
}
