//! Which tokens hold, as a server asks for every request. Known ones are kept in memory and read again twice a second, so that a
//! token that was revoked elsewhere ends everywhere within a second. One that was made elsewhere counts at once: what is not known is
//! looked up.
//!
//! However many ask, one reads, and all who came before it ended have what it found, also when that is an error: a database that is slow
//! or does not answer is waited for once, and not by one after the other.
//!
//! Whatever is wrong with a token, the same work is done and the same answer given: an id that nobody has, a wrong secret, a
//! revoked and an expired token cannot be told apart.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use redrive_store::{NoticeChange, StoreError, Timestamp};
use subtle::{Choice, ConstantTimeEq};
use tokio::time::Instant;

use super::{PREFIX, SPACE, Stored, Token, USED, keyed_hash};
use crate::engine::{Engine, EngineError};

/// How old what is known of tokens may be. Only a token that was revoked elsewhere holds so long: whatever does not hold by what is
/// known is looked up.
const FRESH: Duration = Duration::from_millis(500);
/// How old it may be that there are none: so long may a server stay open to its machine once somebody has made the first.
const FRESH_NONE: Duration = Duration::from_millis(50);
/// A name that no token has.
const NOBODY: &str = "nobody----";
/// How often it is written down that a token is used.
const USED_EVERY: Duration = Duration::from_mins(1);

/// Knows the tokens of a store. Cheap to clone.
#[derive(Clone)]
pub struct TokenKeeper(Arc<Kept>);

struct Kept {
    engine: Engine,
    known: RwLock<Option<Arc<Known>>>,
    /// Held by whoever reads: the others wait for it instead of reading as well. When the last look failed, and how.
    reading: tokio::sync::Mutex<Option<(Instant, StoreError)>>,
    used: Mutex<HashMap<String, Timestamp>>,
}

struct Known {
    read_at: Instant,
    pepper: [u8; 32],
    tokens: HashMap<String, Entry>,
}

/// A token, and what is kept of its text.
type Entry = (Arc<Token>, [u8; 32]);

fn entry(id: String, stored: Stored) -> Entry {
    let hash = URL_SAFE_NO_PAD.decode(&stored.hash).ok().and_then(|hash| hash.try_into().ok());
    // A hash that is none fits nothing, and the token still counts as one.
    let hash: [u8; 32] = hash.unwrap_or_default();
    (Arc::new(stored.token(id)), hash)
}

/// What a shown token is worth.
#[derive(Debug, Clone)]
pub enum Shown {
    /// It holds.
    Good(Arc<Token>),
    /// It does not; the id that it claims, for whoever counts.
    Bad(String),
}

impl TokenKeeper {
    /// For the tokens of this engine's store.
    pub fn new(engine: &Engine) -> TokenKeeper {
        TokenKeeper(Arc::new(Kept {
            engine: engine.clone(),
            known: RwLock::default(),
            reading: tokio::sync::Mutex::default(),
            used: Mutex::default(),
        }))
    }

    /// Whether the store ever had a token, as was known a moment ago.
    pub async fn any(&self) -> Result<bool, EngineError> {
        Ok(!self.known().await?.tokens.is_empty())
    }

    /// Whether the store has ever had a token, now: whoever shows one has got it from somewhere.
    pub async fn any_now(&self) -> Result<bool, EngineError> {
        // A store that had a token has had it for ever.
        Ok(self.any().await? || !self.read_since(Instant::now()).await?.tokens.is_empty())
    }

    /// What this text is worth. What does not hold by what is known is looked up: the token may be a moment old. That is done for
    /// everything that does not hold, so that nobody learns from the time it takes what is wrong with it.
    pub async fn check(&self, text: &str) -> Result<Shown, EngineError> {
        let shown_at = Instant::now();
        let (id, secret) =
            text.strip_prefix(PREFIX).and_then(|rest| rest.split_once('_')).unwrap_or(("", text));
        let known = self.known().await?;
        let shown = self.worth(known.pepper, known.tokens.get(id), id, secret);
        if matches!(shown, Shown::Good(_)) {
            return Ok(shown);
        }
        if known.tokens.is_empty() {
            let known = self.read_since(shown_at).await?;
            return Ok(self.worth(known.pepper, known.tokens.get(id), id, secret));
        }
        // One that is known holds no more than it did: instead of it somebody is looked for whom nobody knows, so that a wrong secret
        // and an unknown id take the same time. Nor has anybody an id that is longer, or empty.
        let unknown = !known.tokens.contains_key(id) && (1..=32).contains(&id.len()) && id.is_ascii();
        let name = if unknown { id } else { NOBODY };
        let found = self.0.engine.store().notice(SPACE.to_owned(), name.to_owned()).await?;
        let found = found.map(|notice| Stored::read(&notice).map(|stored| entry(name.to_owned(), stored)));
        let shown = self.worth(known.pepper, found.transpose()?.as_ref(), id, secret);
        if matches!(shown, Shown::Good(_)) {
            self.forget();
        }
        Ok(shown)
    }

    fn worth(&self, pepper: [u8; 32], known: Option<&Entry>, id: &str, secret: &str) -> Shown {
        let nobody = [0; 32];
        let (token, kept) = match known {
            Some((token, kept)) => (Some(token), kept),
            None => (None, &nobody),
        };
        let hash = keyed_hash(&pepper, id, secret);
        let holds = token.is_some_and(|token| token.holds(self.0.engine.now()));
        let good = hash.ct_eq(kept) & Choice::from(u8::from(holds));
        match token {
            Some(token) if bool::from(good) => {
                self.used(token);
                Shown::Good(Arc::clone(token))
            }
            _ => Shown::Bad(id.chars().take(32).collect()),
        }
    }

    /// Whether the token of this id still holds: asked again and again by whoever was let in for long.
    pub async fn holds(&self, id: &str) -> Result<bool, EngineError> {
        let known = self.known().await?;
        Ok(known.tokens.get(id).is_some_and(|(token, _)| token.holds(self.0.engine.now())))
    }

    /// What is known is read again before the next answer: after a token was made or revoked here.
    pub fn forget(&self) {
        *self.0.known.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// What is known, if that is enough.
    fn at_hand(&self, enough: impl Fn(&Known) -> bool) -> Option<Arc<Known>> {
        let known = self.0.known.read().unwrap_or_else(PoisonError::into_inner);
        known.as_ref().filter(|known| enough(known)).map(Arc::clone)
    }

    /// What was known a moment before we asked, or later.
    async fn known(&self) -> Result<Arc<Known>, EngineError> {
        let asked = Instant::now();
        let fresh = move |known: &Known| {
            known.read_at + if known.tokens.is_empty() { FRESH_NONE } else { FRESH } > asked
        };
        match self.at_hand(fresh) {
            Some(known) => Ok(known),
            None => self.read(asked, fresh).await,
        }
    }

    /// What is known by a look that began after this moment.
    async fn read_since(&self, moment: Instant) -> Result<Arc<Known>, EngineError> {
        self.read(Instant::now(), |known| known.read_at > moment).await
    }

    /// Reads all tokens, unless somebody else has done so while we waited for our turn, or tried in vain.
    async fn read(&self, asked: Instant, enough: impl Fn(&Known) -> bool) -> Result<Arc<Known>, EngineError> {
        let mut failed = self.0.reading.lock().await;
        if let Some(known) = self.at_hand(enough) {
            return Ok(known);
        }
        if let Some((at, error)) = &*failed
            && *at >= asked
        {
            return Err(error.clone().into());
        }
        let read = self.look().await;
        *failed = match &read {
            Err(EngineError::Store(error)) => Some((Instant::now(), error.clone())),
            _ => None,
        };
        read
    }

    async fn look(&self) -> Result<Arc<Known>, EngineError> {
        // As old as the moment before it was read.
        let read_at = Instant::now();
        let engine = &self.0.engine;
        let stored = engine.read_tokens().await?;
        let pepper = if stored.is_empty() { [0; 32] } else { engine.store_secret("pepper").await? };
        let mut tokens = HashMap::with_capacity(stored.len());
        for (notice, stored) in stored {
            tokens.insert(notice.name.clone(), entry(notice.name, stored));
        }
        let known = Arc::new(Known { read_at, pepper, tokens });
        *self.0.known.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&known));
        Ok(known)
    }

    /// Writes down that a token is used, at most once a minute, and lets nobody wait for it.
    fn used(&self, token: &Arc<Token>) {
        let now = self.0.engine.now();
        {
            let mut used = self.0.used.lock().unwrap_or_else(PoisonError::into_inner);
            if used.get(&token.id).is_some_and(|last| now.since(*last) < USED_EVERY) {
                return;
            }
            used.insert(token.id.clone(), now);
        }
        let (engine, name) = (self.0.engine.clone(), token.id.clone());
        tokio::spawn(async move {
            if let Err(error) = write_use(&engine, name, now).await {
                tracing::debug!(%error, "when a token was used could not be written down");
            }
        });
    }
}

async fn write_use(engine: &Engine, name: String, at: Timestamp) -> Result<(), EngineError> {
    let store = engine.store();
    let before = store.notice(USED.to_owned(), name.clone()).await?;
    let last = before.as_ref().and_then(|notice| notice.value.parse().ok()).map(Timestamp::from_millis);
    if last.is_some_and(|last| at.since(last) < USED_EVERY) {
        return Ok(());
    }
    let (space, seen) = (USED.to_owned(), before.map(|notice| notice.version));
    let change = NoticeChange { space, name, seen, value: Some(at.millis().to_string()), due_at: None };
    // Who was faster wrote the same minute.
    store.post(engine.now(), vec![change], Vec::new(), Vec::new()).await?;
    Ok(())
}

impl fmt::Debug for TokenKeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenKeeper").field("engine", &self.0.engine).finish_non_exhaustive()
    }
}
