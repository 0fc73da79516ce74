//! The signature of a push, as Standard Webhooks has it: HMAC-SHA256 over id, time and body, once for each secret that holds.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::engine::EngineError;

/// What a secret begins with, for people and for those who look for secrets where they should not be.
const PREFIX: &str = "whsec_";
/// How long a secret may be.
const BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// A secret that a push is signed with, written `whsec_…`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PushSecret(Vec<u8>);

/// A text that is no secret. It does not say which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a secret is whsec_ and then 24 to 64 bytes as base64")]
pub struct BadSecret;

impl PushSecret {
    /// One that nobody can guess.
    pub fn fresh() -> Result<PushSecret, EngineError> {
        let mut bytes = vec![0; 32];
        getrandom::fill(&mut bytes).map_err(|error| EngineError::Io(std::io::Error::other(error)))?;
        Ok(PushSecret(bytes))
    }

    /// As it is shown, once, to whoever receives pushes.
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}", STANDARD.encode(&self.0))
    }
}

impl TryFrom<String> for PushSecret {
    type Error = BadSecret;

    fn try_from(text: String) -> Result<PushSecret, BadSecret> {
        let bytes = STANDARD.decode(text.strip_prefix(PREFIX).ok_or(BadSecret)?).map_err(|_| BadSecret)?;
        if BYTES.contains(&bytes.len()) { Ok(PushSecret(bytes)) } else { Err(BadSecret) }
    }
}

impl From<PushSecret> for String {
    fn from(secret: PushSecret) -> String {
        secret.reveal()
    }
}

impl fmt::Debug for PushSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("whsec_[redacted]")
    }
}

/// The header `webhook-signature`.
pub(super) fn signature(secrets: &[PushSecret], id: &str, seconds: i64, body: &[u8]) -> String {
    let one = |secret: &PushSecret| {
        // A key of any length is one to HMAC.
        let mut code = Hmac::<Sha256>::new_from_slice(&secret.0).ok()?;
        code.update(id.as_bytes());
        code.update(format!(".{seconds}.").as_bytes());
        code.update(body);
        Some(format!("v1,{}", STANDARD.encode(code.finalize().into_bytes())))
    };
    secrets.iter().filter_map(one).collect::<Vec<String>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Result<PushSecret, BadSecret> {
        PushSecret::try_from(text.to_owned())
    }

    /// Reliability, Security: the example of the Standard Webhooks documentation is signed as it says there.
    #[test]
    fn a_push_is_signed_as_the_standard_says() {
        let secret = secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let body = br#"{"test": 2432232314}"#;
        let signed =
            signature(std::slice::from_ref(&secret), "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        let other = PushSecret::fresh().unwrap();
        let both = signature(&[other, secret], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body);
        assert_eq!(both.split(' ').count(), 2);
        assert!(both.ends_with(&signed), "while secrets are exchanged, each signs");
    }

    /// Reliability, Security: a secret reads as it was written, shows itself only when asked, and nonsense is none.
    #[test]
    fn a_secret_shows_itself_only_when_asked() {
        let fresh = PushSecret::fresh().unwrap();
        assert_eq!(secret(&fresh.reveal()).as_ref(), Ok(&fresh));
        assert_eq!(format!("{fresh:?}"), "whsec_[redacted]");
        for text in ["", "whsec_", "whsec_AAAA", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_!"] {
            assert_eq!(secret(text), Err(BadSecret), "{text}");
        }
    }
}
