//! The guard: every keyed request passes it, whether it comes through the layer or the proxy.
//!
//! look → enter → run → complete, release or give up. Looking needs no store; entering takes the key or answers from its record;
//! whoever is let in holds the key, which is renewed while it lives, and says how the request ended. One that goes away without a word
//! leaves an unknown outcome, never a free key.

mod count;
mod endpoint;
mod hash;
mod held;
mod renew;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderMap, Method, Response, Uri};
use redrive::engine::Engine;
use redrive_policy::Lang;
use redrive_policy::idempotency::{Guarded, InFlight, OnUnknown, Principal, Rules};
use redrive_store::{Claimed, KeyClaim, KeyHold, StoreError};
use sha2::{Digest, Sha256};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::key::Key;
use crate::problem::{Problem, language};
use crate::replay::replayed;
use count::{Counted, Counters};
use endpoint::endpoint;
pub use held::Held;
use renew::Renewals;

/// How often somebody who waits looks again when nobody tells it anything.
const FIRST_LOOK: Duration = Duration::from_millis(25);
const LAST_LOOK: Duration = Duration::from_millis(500);
/// How many bells there are for those who wait; a bell is shared by keys of the same hash.
const BELLS: usize = 64;

/// Guards requests with keys. Cheap to clone; every clone is the same guard.
#[derive(Clone)]
pub struct Guard(Arc<Inner>);

struct Inner {
    engine: Engine,
    /// Which guard it is: a proxy and a layer behind it may share a store, and must not take each other's keys for their own.
    scope: &'static str,
    guarded: Guarded,
    /// Of each route, in the order of the routes.
    rules: Vec<Arc<Rules>>,
    counters: Counters,
    renewals: Renewals,
    /// When the store refused to say whether a key is free, and why; until it said so again.
    trouble: Mutex<Option<(Instant, String)>>,
    bells: [Notify; BELLS],
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").field("guarded", &self.0.guarded).finish_non_exhaustive()
    }
}

/// What a look at a request's head says.
#[derive(Debug)]
pub enum Looked {
    /// Not ours: it passes as it is.
    Pass,
    /// It is to be guarded, once its body is known.
    Guarded(Asked),
    /// It is answered at once; nothing leaves a trace.
    Refused(Response<Bytes>),
}

/// A request that is to be guarded: its head, read.
#[derive(Debug, Clone)]
pub struct Asked {
    rules: Arc<Rules>,
    principal: String,
    key: Key,
    endpoint: String,
    lang: Lang,
    head: Sha256,
}

impl Asked {
    /// The rules of its route.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Its key.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Whose key it is.
    pub fn principal(&self) -> &str {
        &self.principal
    }

    /// Its method and path, for people.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The language of its caller.
    pub fn lang(&self) -> Lang {
        self.lang
    }
}

/// Whose keys a request's keys are, where whatever authenticates callers knows better than their headers: put into the request's
/// extensions before the layer. A caller whose token was exchanged for a new one then still has its keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyOwner(pub String);

/// What happens to a request that is guarded.
#[derive(Debug)]
pub enum Entered {
    /// It is run, by the caller of this.
    Run(Held),
    /// It is not run: this is its answer.
    Answer(Response<Bytes>),
}

impl Guard {
    /// A guard of these routes, on the engine's store and by its clock.
    pub fn new(engine: &Engine, guarded: Guarded) -> Guard {
        Guard::in_scope(engine, guarded, "")
    }

    /// The guard of a proxy. Its keys are not those of a service behind it that guards itself on the same store; all proxies on one store
    /// share theirs.
    pub fn of_proxy(engine: &Engine, guarded: Guarded) -> Guard {
        Guard::in_scope(engine, guarded, "proxy")
    }

    fn in_scope(engine: &Engine, guarded: Guarded, scope: &'static str) -> Guard {
        let rules = guarded.routes.iter().map(|route| Arc::new(route.rules.clone())).collect();
        Guard(Arc::new(Inner {
            engine: engine.clone(),
            scope,
            guarded,
            rules,
            counters: Counters::default(),
            renewals: Renewals::default(),
            trouble: Mutex::default(),
            bells: [const { Notify::const_new() }; BELLS],
        }))
    }

    /// The engine that it works on.
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// What it guards.
    pub fn guarded(&self) -> &Guarded {
        &self.0.guarded
    }

    /// Waits until nothing is run any more, and writes down what was counted. For the end of a service, after its last connection: a
    /// request whose client went away may still be running.
    pub async fn drain(&self) -> Result<(), StoreError> {
        while self.held() > 0 {
            tokio::time::sleep(FIRST_LOOK).await;
        }
        self.write_counts().await
    }

    /// Since when the store cannot be asked for keys, and why, as the last request found; nothing while it can.
    pub fn trouble(&self) -> Option<(Instant, String)> {
        self.0.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn asked_the_store(&self, error: Option<&StoreError>) {
        let mut trouble = self.0.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if trouble.is_some() || error.is_some() {
            *trouble = error.map(|error| (Instant::now(), error.to_string()));
        }
    }

    /// Looks at the head of a request. Asks no store.
    pub fn look(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Looked {
        self.look_for(method, uri, headers, None)
    }

    /// The same for a request whose caller is known by other means than its headers.
    pub fn look_for(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        owner: Option<&KeyOwner>,
    ) -> Looked {
        let wanted = self.0.guarded.position(method.as_str(), uri.path());
        let Some(rules) = wanted.and_then(|at| self.0.rules.get(at)) else { return Looked::Pass };
        self.count(Counted::Guarded);
        let lang = language(headers);
        let key = match Key::from_headers(headers, rules.key) {
            Ok(Some(key)) => key,
            Ok(None) if rules.required => return Looked::Refused(Problem::KeyMissing.response(lang)),
            Ok(None) => return Looked::Pass,
            Err(bad) => return Looked::Refused(Problem::KeyMalformed(bad).response(lang)),
        };
        self.count(Counted::Keyed);
        let principal = match owner {
            Some(KeyOwner(owner)) => self.scoped(owner),
            None => self.principal(rules, headers),
        };
        let mut head = hash::head(&principal, key.as_str(), method, uri, headers);
        let nobody = rules.principal == Principal::Authorization && !headers.contains_key(AUTHORIZATION);
        if owner.is_none() && nobody {
            hash::other_credentials(&mut head, headers);
        }
        let endpoint = endpoint(method, uri.path());
        Looked::Guarded(Asked { rules: Arc::clone(rules), principal, key, endpoint, lang, head })
    }

    /// Takes the key for a request whose body is known by now, or answers it.
    ///
    /// To be awaited to its end, so in a task that no client's going away ends: dropped half-way, it may have taken a key that nobody
    /// holds, and whose outcome then counts as unknown although nothing was run.
    pub async fn enter(&self, asked: &Asked, body: &[u8]) -> Entered {
        let mut hash = asked.head.clone();
        hash::frame(&mut hash, body);
        let claim = KeyClaim {
            principal: asked.principal.clone(),
            key: asked.key.as_str().to_owned(),
            endpoint: asked.endpoint.clone(),
            request_hash: hash::hex(&hash.finalize()),
            hold_for: asked.rules.hold_for,
            keep_for: asked.rules.keep_for,
            rerun: asked.rules.unknown == OnUnknown::SafeToRerun,
            job: None,
        };
        self.claim(asked, claim).await
    }

    async fn claim(&self, asked: &Asked, claim: KeyClaim) -> Entered {
        let until = match asked.rules.in_flight {
            InFlight::Conflict => None,
            InFlight::Wait(wait_for) => Some(Instant::now() + wait_for),
        };
        let mut pause = FIRST_LOOK;
        loop {
            let bell = self.bell(&asked.principal, asked.key.as_str()).notified();
            tokio::pin!(bell);
            // Heard from here on: who completes between our look and our wait is not missed.
            bell.as_mut().enable();
            let now = self.0.engine.now();
            let claimed = self.0.engine.store().claim_key(now, claim.clone()).await;
            self.asked_the_store(claimed.as_ref().err());
            let problem = match claimed {
                Err(error) => {
                    tracing::error!(%error, endpoint = asked.endpoint, "an idempotency key cannot be looked up; its request is refused");
                    Problem::StoreUnavailable
                }
                Ok(Claimed::Taken { hold, again }) => return Entered::Run(self.hold(asked, hold, again)),
                Ok(Claimed::Completed { response, .. }) => {
                    self.count(Counted::Replayed);
                    return Entered::Answer(replayed(response, asked.lang));
                }
                Ok(Claimed::Mismatch { .. }) => {
                    self.count(Counted::Mismatched);
                    Problem::Mismatch { status: asked.rules.mismatch_status }
                }
                Ok(Claimed::Unknown { .. }) => {
                    self.count(Counted::Unknown);
                    Problem::UnknownOutcome
                }
                Ok(Claimed::InFlight { .. }) => {
                    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
                    if let Some(left) = left.filter(|left| !left.is_zero()) {
                        // Nothing to hear of is no error: another process may hold the key.
                        drop(tokio::time::timeout(pause.min(left), bell).await);
                        pause = (pause * 2).min(LAST_LOOK);
                        continue;
                    }
                    self.count(Counted::InFlight);
                    Problem::InFlight { retry_after: Duration::from_secs(1) }
                }
            };
            return Entered::Answer(problem.response(asked.lang));
        }
    }

    fn hold(&self, asked: &Asked, hold: KeyHold, again: bool) -> Held {
        self.count(Counted::Taken);
        self.renew(hold, asked.rules.hold_for);
        Held::new(self.clone(), asked.clone(), hold, again)
    }

    fn principal(&self, rules: &Rules, headers: &HeaderMap) -> String {
        let name = match &rules.principal {
            Principal::Everybody => return self.scoped("everybody"),
            Principal::Authorization => AUTHORIZATION.as_str(),
            Principal::Header(name) => name,
        };
        let mut values = headers.get_all(name).iter().peekable();
        if values.peek().is_none() {
            return self.scoped("nobody");
        }
        let mut hash = Sha256::new();
        // Bound to the store, so that hashes of two stores cannot be compared, nor looked up in a table made once for all.
        hash::frame(&mut hash, &self.0.engine.store().store_id().to_be_bytes());
        for value in values {
            hash::frame(&mut hash, &hash::credentials(value.as_bytes()));
        }
        self.scoped(&hash::hex(&hash.finalize()[..16]))
    }

    fn scoped(&self, principal: &str) -> String {
        if self.0.scope.is_empty() { principal.to_owned() } else { format!("{}:{principal}", self.0.scope) }
    }

    fn bell(&self, principal: &str, key: &str) -> &Notify {
        let mut hasher = DefaultHasher::new();
        (principal, key).hash(&mut hasher);
        let bells = u64::try_from(BELLS).unwrap_or(u64::MAX);
        let place = usize::try_from(hasher.finish() % bells).unwrap_or(0);
        &self.0.bells[place]
    }
}
