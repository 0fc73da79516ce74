//! Tokens: who may do what over the API. They are notices on the board, so that every server on the store knows them.
//!
//! A token's text is `rdv_<id>_<secret>`, and it is shown once: what is kept is a keyed hash of it, and the key of that hash is the
//! store's own. A token that was revoked stays on the board for a while and then makes room (`forget`); a store which ever had a
//! token is never open again.

mod forget;
mod keeper;

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use redrive_store::{EventStatus, Notice, NoticeChange, Posted, Timestamp, Trouble};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use super::{Act, Engine, EngineError};
pub use keeper::{Shown, TokenKeeper};

/// The space of the board that tokens are in, and the one that says when each was used last.
const SPACE: &str = "token";
const USED: &str = "token-used";
/// How many tokens are read at once, and how many there may be.
const PAGE: u32 = 1_000;
const MOST: usize = 10_000;
/// What a token can say of itself.
const NAME_CHARS: usize = 100;
const MOST_PATTERNS: usize = 64;
const PATTERN_CHARS: usize = 100;
/// How often a token is made anew because its id is taken, or because somebody else changed it.
const TRIES: usize = 8;
/// What every token begins with.
const PREFIX: &str = "rdv_";

/// What a token allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Scope {
    /// Looking at everything but payloads.
    #[serde(rename = "read")]
    Read,
    /// Looking at payloads and outputs.
    #[serde(rename = "read:payload")]
    ReadPayload,
    /// Enqueuing.
    #[serde(rename = "produce")]
    Produce,
    /// Leasing and settling.
    #[serde(rename = "work")]
    Work,
    /// Redriving, editing, pausing, discarding.
    #[serde(rename = "operate")]
    Operate,
    /// Tokens and settings.
    #[serde(rename = "admin")]
    Admin,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Scope; 6] =
        [Scope::Read, Scope::ReadPayload, Scope::Produce, Scope::Work, Scope::Operate, Scope::Admin];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Scope::Read => "read",
            Scope::ReadPayload => "read:payload",
            Scope::Produce => "produce",
            Scope::Work => "work",
            Scope::Operate => "operate",
            Scope::Admin => "admin",
        }
    }
}

impl FromStr for Scope {
    type Err = TokenProblem;

    fn from_str(name: &str) -> Result<Scope, TokenProblem> {
        let found = Scope::ALL.into_iter().find(|scope| scope.name() == name);
        found.ok_or_else(|| TokenProblem::UnknownScope(name.chars().take(40).collect()))
    }
}

/// A token to be made.
#[derive(Debug, Clone, Default)]
pub struct NewToken {
    /// What people call it.
    pub name: String,
    /// What it allows.
    pub scopes: Vec<Scope>,
    /// The queues that it allows it in, as patterns in which `*` stands for anything; none: all of them.
    pub queues: Vec<String>,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
}

/// Why a token cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenProblem {
    /// Its name is none.
    #[error("a token's name has 1 to 100 characters, and no control characters")]
    Name,
    /// It would allow nothing.
    #[error("a token needs at least one scope: read, read:payload, produce, work, operate or admin")]
    NoScope,
    /// There is no such scope.
    #[error("there is no scope {0:?}; known: read, read:payload, produce, work, operate, admin")]
    UnknownScope(String),
    /// A pattern is none.
    #[error("{0:?} is no pattern of queues: letters, digits, _ - . and * for anything")]
    Pattern(String),
    /// It ends before it begins.
    #[error("a token must end later than now")]
    Expired,
    /// There are too many already.
    #[error("there are {MOST} tokens that hold; no more are kept")]
    TooMany,
}

/// A token, as it may be shown: without its secret, and without what is kept of that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Token {
    /// What it is known by.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// What it allows.
    pub scopes: Vec<Scope>,
    /// The queues that it allows it in; none: all of them.
    pub queues: Vec<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// By whom.
    pub created_by: String,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
    /// When it was used last, to the minute.
    pub last_used_at: Option<Timestamp>,
}

impl Token {
    /// Whether it still allows anything.
    pub fn holds(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|at| now < at)
    }
}

/// The text of a token, which is shown once. Its `Debug` shows nothing.
pub struct TokenText(String);

impl TokenText {
    /// The text itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for TokenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenText([redacted])")
    }
}

/// A token as the board holds it.
#[derive(Serialize, Deserialize)]
struct Stored {
    name: String,
    scopes: Vec<Scope>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    queues: Vec<String>,
    created_at: i64,
    created_by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revoked_at: Option<i64>,
    hash: String,
}

impl Stored {
    fn read(notice: &Notice) -> Result<Stored, EngineError> {
        serde_json::from_str(&notice.value).map_err(|_| {
            let told = format!("the token {:?} on the board cannot be read", notice.name);
            EngineError::Store(Trouble::Corrupt(told).into())
        })
    }

    fn token(self, id: String) -> Token {
        Token {
            id,
            name: self.name,
            scopes: self.scopes,
            queues: self.queues,
            created_at: Timestamp::from_millis(self.created_at),
            created_by: self.created_by,
            expires_at: self.expires_at.map(Timestamp::from_millis),
            revoked_at: self.revoked_at.map(Timestamp::from_millis),
            last_used_at: None,
        }
    }
}

impl Engine {
    /// Makes a token. Its text is in the answer, and nowhere else.
    ///
    /// ```no_run
    /// # async fn example(engine: redrive::engine::Engine) -> Result<(), redrive::engine::EngineError> {
    /// use redrive::engine::{NewToken, Scope};
    ///
    /// let new = NewToken { name: "billing".into(), scopes: vec![Scope::Produce], ..NewToken::default() };
    /// let (token, text) = engine.create_token(new, "cli:ada", None).await?;
    /// assert!(text.reveal().starts_with(&format!("rdv_{}_", token.id)));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn create_token(
        &self,
        new: NewToken,
        who: &str,
        why: Option<String>,
    ) -> Result<(Token, TokenText), EngineError> {
        let now = self.now();
        let mut scopes = new.scopes.clone();
        scopes.sort_unstable();
        scopes.dedup();
        check(&new, now)?;
        if self.forget_ended_tokens(now).await? >= MOST {
            return Err(TokenProblem::TooMany.into());
        }
        let pepper = self.store_secret("pepper").await?;
        for _ in 0..TRIES {
            let (id, secret) = (random_id()?, random_secret()?);
            let stored = Stored {
                name: new.name.trim().to_owned(),
                scopes: scopes.clone(),
                queues: new.queues.clone(),
                created_at: now.millis(),
                created_by: who.to_owned(),
                expires_at: new.expires_at.map(Timestamp::millis),
                revoked_at: None,
                hash: URL_SAFE_NO_PAD.encode(keyed_hash(&pepper, &id, &secret)),
            };
            let (target, why) = (format!("{id} ({})", stored.name), why.clone());
            let act = Act { who: who.to_owned(), act: "token.create".to_owned(), target, why };
            if self.put(&id, None, &stored, act).await? {
                return Ok((stored.token(id.clone()), TokenText(format!("{PREFIX}{id}_{secret}"))));
            }
        }
        Err(outrun())
    }

    /// Every token, the newest first, also those that hold no more.
    pub async fn tokens(&self) -> Result<Vec<Token>, EngineError> {
        let mut tokens = Vec::new();
        for (notice, stored) in self.read_tokens().await? {
            tokens.push(stored.token(notice.name));
        }
        let mut after = None;
        loop {
            let used = self.store().notices(USED.to_owned(), after, PAGE).await?;
            for notice in &used {
                let at = notice.value.parse().ok().map(Timestamp::from_millis);
                if let Some(token) = tokens.iter_mut().find(|token| token.id == notice.name) {
                    token.last_used_at = at;
                }
            }
            match used.last().filter(|_| used.len() >= PAGE as usize) {
                Some(last) => after = Some(last.name.clone()),
                None => break,
            }
        }
        tokens.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
        Ok(tokens)
    }

    /// Revokes a token; the token as it is now, or nothing when there is none of this id. From then on no server lets it in: this
    /// one at once, others within a second.
    pub async fn revoke_token(
        &self,
        id: &str,
        who: &str,
        why: Option<String>,
    ) -> Result<Option<Token>, EngineError> {
        for _ in 0..TRIES {
            let Some(notice) = self.store().notice(SPACE.to_owned(), id.to_owned()).await? else {
                return Ok(None);
            };
            let mut stored = Stored::read(&notice)?;
            if stored.revoked_at.is_some() {
                return Ok(Some(stored.token(id.to_owned())));
            }
            stored.revoked_at = Some(self.now().millis());
            let (target, why) = (format!("{id} ({})", stored.name), why.clone());
            let act = Act { who: who.to_owned(), act: "token.revoke".to_owned(), target, why };
            if self.put(id, Some(notice.version), &stored, act).await? {
                return Ok(Some(stored.token(id.to_owned())));
            }
        }
        Err(outrun())
    }

    /// Whether the store ever had a token. If so, nobody is let in without one.
    pub async fn has_tokens(&self) -> Result<bool, EngineError> {
        Ok(!self.store().notices(SPACE.to_owned(), None, 1).await?.is_empty())
    }

    /// Writes a token and the act in one transaction; whether nobody was faster.
    async fn put(&self, id: &str, seen: Option<i64>, stored: &Stored, act: Act) -> Result<bool, EngineError> {
        let value = serde_json::to_string(stored).map_err(EngineError::Payload)?;
        let (space, name) = (SPACE.to_owned(), id.to_owned());
        let change = NoticeChange { space, name, seen, value: Some(value), due_at: None };
        let event = act.event("operator_act", EventStatus::Success);
        let posted = self.store().post(self.now(), vec![change], Vec::new(), vec![event]).await?;
        Ok(matches!(posted, Posted::Done { .. }))
    }

    async fn read_tokens(&self) -> Result<Vec<(Notice, Stored)>, EngineError> {
        let (mut tokens, mut after) = (Vec::new(), None);
        loop {
            let notices = self.store().notices(SPACE.to_owned(), after, PAGE).await?;
            let full = notices.len() >= PAGE as usize;
            after = notices.last().map(|last| last.name.clone());
            for notice in notices {
                let stored = Stored::read(&notice)?;
                tokens.push((notice, stored));
            }
            if !full {
                return Ok(tokens);
            }
        }
    }
}

fn check(new: &NewToken, now: Timestamp) -> Result<(), TokenProblem> {
    let name = new.name.trim();
    if name.is_empty() || name.chars().count() > NAME_CHARS || name.chars().any(char::is_control) {
        return Err(TokenProblem::Name);
    }
    if new.scopes.is_empty() {
        return Err(TokenProblem::NoScope);
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-.*".contains(c);
    let is_pattern = |text: &String| (1..=PATTERN_CHARS).contains(&text.len()) && text.chars().all(fits);
    if let Some(bad) = new.queues.iter().find(|text| !is_pattern(text)) {
        return Err(TokenProblem::Pattern(bad.chars().take(40).collect()));
    }
    if new.queues.len() > MOST_PATTERNS {
        return Err(TokenProblem::Pattern(format!("{} of them", new.queues.len())));
    }
    if new.expires_at.is_some_and(|at| at <= now) {
        return Err(TokenProblem::Expired);
    }
    Ok(())
}

/// Whether a queue fits one of these patterns, in which `*` stands for any characters, also none. Takes no longer than the two are
/// long, whoever wrote the pattern.
///
/// ```
/// use redrive::engine::queue_fits;
/// assert!(queue_fits("billing-*", "billing-eu") && !queue_fits("billing-*", "mail"));
/// ```
pub fn queue_fits(pattern: &str, queue: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut left) = queue.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return left.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return left.ends_with(part);
        }
        match left.find(part) {
            Some(at) => left = &left[at + part.len()..],
            None => return false,
        }
    }
    true
}

/// What is kept of a token's text: nobody can come from it to the text, nor make it without the store's secret.
fn keyed_hash(pepper: &[u8; 32], id: &str, secret: &str) -> [u8; 32] {
    // A key of 32 bytes is never refused; a hash under no key would fit nothing that is kept.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(pepper) else { return [0; 32] };
    mac.update(id.as_bytes());
    mac.update(b".");
    mac.update(secret.as_bytes());
    mac.finalize().into_bytes().into()
}

/// Ten letters and digits: enough that two never meet, and short enough to be named.
fn random_id() -> Result<String, EngineError> {
    const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let mut bytes = [0; 10];
    fill(&mut bytes)?;
    Ok(bytes.iter().map(|byte| char::from(LETTERS[usize::from(byte % 32)])).collect())
}

fn random_secret() -> Result<String, EngineError> {
    let mut bytes = [0; 32];
    fill(&mut bytes)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

fn fill(bytes: &mut [u8]) -> Result<(), EngineError> {
    getrandom::fill(bytes).map_err(|error| EngineError::Io(std::io::Error::other(error)))
}

fn outrun() -> EngineError {
    EngineError::Store(
        Trouble::Contended("the board was changed by others again and again".to_owned()).into(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reliability 67: a pattern allows what it says, and nothing else.
    #[test]
    fn a_pattern_fits_what_it_says() {
        for (pattern, queue, fits) in [
            ("*", "anything", true),
            ("mail", "mail", true),
            ("mail", "mails", false),
            ("mail", "ail", false),
            ("a*", "a", true),
            ("*a", "ba", true),
            ("*a", "ab", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("a**b", "ab", true),
            ("a*a", "a", false),
            ("", "a", false),
        ] {
            assert_eq!(queue_fits(pattern, queue), fits, "{pattern} {queue}");
        }
        // Many stars and a text that almost fits end soon.
        assert!(!queue_fits(&"a*".repeat(40), &format!("{}b", "a".repeat(39))));
    }

    /// Reliability 65: ids and secrets are as long as they must be, and two are never alike.
    #[test]
    fn secrets_have_256_bits() {
        let (one, two) = (random_secret().unwrap(), random_secret().unwrap());
        assert_eq!((one.len(), one != two), (43, true));
        let id = random_id().unwrap();
        assert!(id.len() == 10 && !id.contains('_'));
        assert_ne!(keyed_hash(&[1; 32], &id, &one), keyed_hash(&[2; 32], &id, &one));
    }
}
