//! The outbox (R-I7): calls that are kept on disk and sent when the network is there, in order, each with one key however often
//! it is sent.
//!
//! An item is added and is safe from then on. A flush sends what is pending, lane by lane: the items of a lane one after the other,
//! the lanes beside each other. What an answer means is said by the classifier and the policy: done, again later (at most three
//! sends), or failed, with its reason, for a person. A far side that is not reached uses up nothing; its lane waits for the next flush.
//!
//! A send is written down before it is made. Who dies in between leaves an item that is sent again, with the same key: a far side that
//! knows keys, such as one behind redrive's layer or proxy, does it once. Who sends holds the lane, so two flushes never send
//! one item at the same time.
//!
//! ```
//! use redrive::engine::Engine;
//! use redrive_idempotency::outbox::{Call, Outbox};
//!
//! # let dir = tempfile::tempdir().unwrap();
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
//! let engine = Engine::open(dir.path().join("redrive.db"))?;
//! let outbox = Outbox::new(&engine)?;
//! let call = || Call::post("http://127.0.0.1:9/v1/bookmarks").json(&serde_json::json!({"url": "https://example.com/"}));
//! let queued = outbox.add(call()).await?;
//! assert_eq!(queued.id, outbox.add(call()).await?.id, "the same wish is the same item");
//!
//! let flushed = outbox.flush().await?; // Nobody listens there: it waits.
//! assert_eq!((flushed.sent, flushed.failed, flushed.left.len()), (0, 0, 1));
//! # Ok::<(), redrive_idempotency::outbox::OutboxError>(())
//! # }).unwrap();
//! ```

mod answer;
mod call;
mod flush;
mod hold;
mod id;
mod lane;
mod watch;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redrive::engine::{Engine, EngineError};
use redrive::{BadCall, DEFAULT_CALL_TIMEOUT, HttpSpec, Policy, PolicySpec, http_client};
use redrive_store::{Added, ItemQuery, ItemState, OutboxItem, StoreError};
use serde::Serialize;

use crate::client::{KeyError, SavedKeys};
pub use call::Call;
pub use flush::{Flushed, Left, LeftWhy};
pub use id::{BadItemId, ItemId};
pub use lane::{SendReport, SendResult};

/// How often an item is sent before it waits for a person.
pub const DEFAULT_MAX_SENDS: u32 = 3;

/// How long a flush waits for an item whose time has not come, unless told otherwise.
pub const DEFAULT_PATIENCE: Duration = Duration::from_secs(30);

/// How long connecting may take. What takes longer was not reached.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// A connection that nobody used for so long may lead nowhere by now, and a send into it would count.
const KEEP_CONNECTION: Duration = Duration::from_secs(2);

/// What goes wrong with the outbox itself. What goes wrong with a send is told of its item.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutboxError {
    /// The store cannot do it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The engine cannot do it.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// This cannot be sent.
    #[error(transparent)]
    Call(#[from] BadCall),
    /// This cannot be a key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The key belongs to another call.
    #[error(
        "{item} has the key {key} already, with another call; a key is for one call, however often it is sent"
    )]
    KeyTaken {
        /// The item that has it.
        item: ItemId,
        /// The key.
        key: String,
    },
}

/// What adding came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Queued {
    /// The item.
    pub id: ItemId,
    /// Where it stands.
    pub state: ItemState,
    /// Whether it was there already.
    pub existing: bool,
    /// The key that it is sent with.
    pub key: String,
    /// Its lane.
    pub lane: String,
}

/// Who is told of each send.
type Observer = Arc<dyn Fn(&SendReport) + Send + Sync>;

/// The outbox of an engine's store. Cheap to clone.
#[derive(Clone)]
pub struct Outbox {
    engine: Engine,
    client: reqwest::Client,
    policy: Policy,
    max_sends: u32,
    patience: Duration,
    timeout: Duration,
    hold_for: Duration,
    lane: Option<String>,
    observer: Option<Observer>,
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").field("engine", &self.engine).finish_non_exhaustive()
    }
}

impl Outbox {
    /// The outbox of this engine, under its default policy.
    pub fn new(engine: &Engine) -> Result<Outbox, OutboxError> {
        let client = http_client().connect_timeout(CONNECT_WITHIN).pool_idle_timeout(KEEP_CONNECTION);
        let client = client.build().map_err(EngineError::HttpClient)?;
        Ok(Outbox {
            engine: engine.clone(),
            client,
            policy: engine.default_policy(),
            max_sends: DEFAULT_MAX_SENDS,
            patience: DEFAULT_PATIENCE,
            timeout: DEFAULT_CALL_TIMEOUT,
            hold_for: hold::HOLD_FOR,
            lane: None,
            observer: None,
        })
    }

    /// Sends with this client, which should come from [`redrive::http_client`].
    #[must_use]
    pub fn client(self, client: reqwest::Client) -> Outbox {
        Outbox { client, ..self }
    }

    /// Decides by this policy what is worth another send, and when. How many there are is for [`max_sends`](Outbox::max_sends) to say.
    #[must_use]
    pub fn policy(self, policy: impl Into<Policy>) -> Outbox {
        Outbox { policy: policy.into(), ..self }
    }

    /// Sends an item at most so often; at least once.
    #[must_use]
    pub fn max_sends(self, max_sends: u32) -> Outbox {
        Outbox { max_sends: max_sends.max(1), ..self }
    }

    /// How long a flush waits for an item whose time has not come, and in sum for a far side that is still at an earlier send.
    #[must_use]
    pub fn patience(self, patience: Duration) -> Outbox {
        Outbox { patience, ..self }
    }

    /// How long a send may take.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Outbox {
        Outbox { timeout, ..self }
    }

    /// For how long a lane is held at a time. Who dies while sending keeps the others waiting for so long.
    #[must_use]
    pub fn hold_for(self, hold_for: Duration) -> Outbox {
        Outbox { hold_for, ..self }
    }

    /// Sends from this lane alone.
    #[must_use]
    pub fn only_lane(self, lane: impl Into<String>) -> Outbox {
        Outbox { lane: Some(lane.into()), ..self }
    }

    /// Tells of each send, as it ends.
    #[must_use]
    pub fn observe(self, observer: impl Fn(&SendReport) + Send + Sync + 'static) -> Outbox {
        Outbox { observer: Some(Arc::new(observer)), ..self }
    }

    /// Adds a call. When this answers, it is on disk. The same call again is the same item.
    pub async fn add(&self, call: Call) -> Result<Queued, OutboxError> {
        self.add_item(call, None).await
    }

    /// Adds a call as the logical save of that name: with its kept key (see [`SavedKeys`]), so that adding it again after a crash is
    /// the same item, whatever else the call says. The save is over when it was sent and something else is saved under its
    /// name; before that, something else under its name is refused.
    pub async fn save(&self, name: &str, call: Call) -> Result<Queued, OutboxError> {
        let keys = SavedKeys::new(&self.engine);
        loop {
            let key = keys.key_of(name).await?;
            match self.add_item(call.clone().key(key.clone()), Some(name)).await {
                // Of several who find it over, one forgets the key, and all go on with the next one. Nobody comes here twice unless
                // that was used and sent by another in the meantime.
                Err(OutboxError::KeyTaken { item, .. }) if self.is_sent(item).await? => {
                    keys.over(name, &key).await?;
                }
                added => return added,
            }
        }
    }

    async fn add_item(&self, call: Call, save: Option<&str>) -> Result<Queued, OutboxError> {
        let item = call.into_item(save)?;
        let (key, lane) = (item.key.clone(), item.lane.clone());
        let (id, state, existing) = match self.engine.store().add_item(self.engine.now(), item).await? {
            Added::New(id) => (ItemId(id), ItemState::Pending, false),
            Added::Known(id, state) => (ItemId(id), state, true),
            Added::Other(id) => return Err(OutboxError::KeyTaken { item: ItemId(id), key }),
        };
        Ok(Queued { id, state, existing, key, lane })
    }

    async fn is_sent(&self, id: ItemId) -> Result<bool, OutboxError> {
        Ok(self.item(id).await?.is_some_and(|item| item.state == ItemState::Sent))
    }

    /// Items in their order.
    pub async fn items(&self, query: ItemQuery) -> Result<Vec<OutboxItem>, OutboxError> {
        Ok(self.engine.store().items(query).await?)
    }

    /// One item.
    pub async fn item(&self, id: ItemId) -> Result<Option<OutboxItem>, OutboxError> {
        Ok(self.engine.store().item(id.0).await?)
    }

    /// Puts failed items back at their old places, with all sends before them; all failed ones when none is named. Answers which.
    pub async fn retry(&self, ids: &[ItemId]) -> Result<Vec<ItemId>, OutboxError> {
        let ids = ids.iter().map(|id| id.0).collect();
        let back = self.engine.store().retry_items(self.engine.now(), ids).await?;
        Ok(back.into_iter().map(ItemId).collect())
    }

    /// Takes an item out that was not sent. Whether there was one. A logical save that it was for is over.
    pub async fn discard(&self, id: ItemId) -> Result<bool, OutboxError> {
        let item = self.item(id).await?;
        if !self.engine.store().discard_item(self.engine.now(), id.0).await? {
            return Ok(false);
        }
        if let Some(item) = &item
            && let Some(save) = call::save_of(&item.call)
        {
            self.engine.store().forget_saved_key(save.to_owned(), item.key.clone()).await?;
        }
        Ok(true)
    }

    /// The policy, with as many retries as there are sends behind the first.
    fn sending_policy(&self) -> Policy {
        let spec = PolicySpec { forced_max_retries: Some(self.max_sends - 1), ..(*self.policy).clone() };
        Policy::from(spec)
    }
}

/// The call that an item keeps, for whoever shows it.
pub fn call_of(item: &OutboxItem) -> Result<HttpSpec, OutboxError> {
    call::call_of(&item.call)
}

/// The logical save that an item is for, if it is for one.
pub fn save_of(item: &OutboxItem) -> Option<&str> {
    call::save_of(&item.call)
}

/// A number for whoever holds a lane, which nobody else has.
fn holder() -> Result<i64, OutboxError> {
    let number = getrandom::u64().map_err(KeyError::NoChance)?;
    // Positive: both stores keep it as a signed number, and people may see it.
    Ok((number >> 1).cast_signed())
}
