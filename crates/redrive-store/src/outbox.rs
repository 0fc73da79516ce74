//! The outbox (R-I7): calls that wait for the network, in their order, each with one key however often it is sent.
//!
//! A lane is what keeps an order among its items: usually one per far side. Items of a lane are sent one after the other; one that
//! waits for another try holds back those behind it, one that failed for good does not. Whoever flushes a lane holds it for a
//! while, so two of them never send the same item at the same time.

// Without a back end nothing is kept.
#[cfg_attr(not(any(feature = "sqlite", feature = "postgres")), allow(dead_code))]
pub(crate) mod record;

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use crate::Answer;
use crate::time::Timestamp;

/// Something to be sent.
#[derive(Debug, Clone, PartialEq)]
pub struct NewItem {
    /// Which items it is in order with.
    pub lane: String,
    /// The key that it is sent with, whenever it is. Unique in its lane: what is added with the same key is the same item.
    pub key: String,
    /// What is sent, as JSON; sealed where there is a key.
    pub call: Value,
    /// A hash of the call, by which the same key for something else is noticed.
    pub call_hash: String,
}

/// Where an item stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemState {
    /// It waits to be sent.
    Pending,
    /// It was sent, and answered well.
    Sent,
    /// It was not, and waits for a person.
    Failed,
}

impl ItemState {
    /// Every state.
    pub const ALL: [ItemState; 3] = [ItemState::Pending, ItemState::Sent, ItemState::Failed];

    /// Its name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            ItemState::Pending => "pending",
            ItemState::Sent => "sent",
            ItemState::Failed => "failed",
        }
    }

    /// Its number in the store.
    pub const fn number(self) -> i64 {
        match self {
            ItemState::Pending => 0,
            ItemState::Sent => 1,
            ItemState::Failed => 2,
        }
    }

    /// The state of that number.
    pub(crate) fn from_number(number: i64) -> ItemState {
        ItemState::ALL.into_iter().find(|state| state.number() == number).unwrap_or(ItemState::Failed)
    }
}

/// An item.
#[derive(Debug, Clone, PartialEq)]
pub struct OutboxItem {
    /// Its number; the order of a lane is the order of these.
    pub id: i64,
    /// Its lane.
    pub lane: String,
    /// Its key.
    pub key: String,
    /// What is sent.
    pub call: Value,
    /// Where it stands.
    pub state: ItemState,
    /// How often it was sent, begun sends included.
    pub sends: u32,
    /// When it was added.
    pub created_at: Timestamp,
    /// Not before this time.
    pub not_before: Timestamp,
    /// When it was sent last.
    pub sent_at: Option<Timestamp>,
    /// When it was over.
    pub ended_at: Option<Timestamp>,
    /// What became of the last send, for people; sealed where there is a key.
    pub last: Option<String>,
    /// The status of the last answer.
    pub last_status: Option<u16>,
}

/// What adding did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Added {
    /// It is new.
    New(i64),
    /// The same was there already.
    Known(i64, ItemState),
    /// The key is there with something else.
    Other(i64),
}

/// How a send ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SendEnd {
    /// Well.
    Sent,
    /// It is sent again, not before this time.
    Again(Timestamp),
    /// The far side was never reached: this send does not count.
    NeverLeft(Timestamp),
    /// It is not sent again by itself.
    Failed,
}

/// Which items, in the order of their numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ItemQuery {
    /// Only in this state.
    pub state: Option<ItemState>,
    /// Only of this lane.
    pub lane: Option<String>,
    /// Only behind this number.
    pub after: Option<i64>,
    /// At most so many.
    pub limit: u32,
}

/// Adding, sending, looking.
pub trait Outbox: Send + Sync {
    /// Adds an item, with an `outbox_added` event; unless it is there.
    fn add_item(&self, now: Timestamp, item: NewItem) -> Answer<'_, Added>;

    /// The lanes in which something is pending, by name.
    fn pending_lanes(&self) -> Answer<'_, Vec<String>>;

    /// Holds a lane, so that nobody else sends from it for a while; asked again by the same holder it is held longer. Whether it is ours.
    fn hold_lane(&self, now: Timestamp, lane: String, holder: i64, hold_for: Duration) -> Answer<'_, bool>;

    /// Lets a lane go, if it is ours.
    fn leave_lane(&self, lane: String, holder: i64) -> Answer<'_, ()>;

    /// The first pending item of a lane that is ours, whose send is counted with this very step, so that a crash does not send it
    /// for ever. Nothing when there is none, when it is too early for it (then with the time), or when the lane is not ours.
    fn begin_send(&self, now: Timestamp, lane: String, holder: i64) -> Answer<'_, NextSend>;

    /// How the send ended, for whom the lane belongs to: with an `outbox_sent` or `outbox_failed` event when that is the end. Whether
    /// it was ours to say.
    fn end_send(
        &self,
        now: Timestamp,
        item: i64,
        holder: i64,
        end: SendEnd,
        last: Option<String>,
        last_status: Option<u16>,
    ) -> Answer<'_, bool>;

    /// Puts failed items back, with no sends counted, at their old places; with an `outbox_retried` event each. All failed ones when none is
    /// named. Answers which.
    fn retry_items(&self, now: Timestamp, items: Vec<i64>) -> Answer<'_, Vec<i64>>;

    /// Takes an item out that is not sent, with an `outbox_discarded` event. Whether it was there.
    fn discard_item(&self, now: Timestamp, item: i64) -> Answer<'_, bool>;

    /// Items in their order.
    fn items(&self, query: ItemQuery) -> Answer<'_, Vec<OutboxItem>>;

    /// One item.
    fn item(&self, item: i64) -> Answer<'_, Option<OutboxItem>>;

    /// Forgets items that were sent before a time, and keys of logical saves that were made before it and that no item has: no more
    /// than `limit` together. Answers how many.
    fn sweep_items(&self, sent_before: Timestamp, limit: u32) -> Answer<'_, u64>;

    /// The key of a logical save: the one that was kept under this name, else this one, which is kept from now on.
    fn saved_key(&self, now: Timestamp, name: String, fresh: String) -> Answer<'_, String>;

    /// Forgets the key of a logical save, if it is still this one: the next one of that name is another. Whether it was. Of two who find a
    /// save over, one forgets its key, and the other does not forget what was saved since.
    fn forget_saved_key(&self, name: String, key: String) -> Answer<'_, bool>;
}

/// What is sent next.
#[derive(Debug, Clone, PartialEq)]
pub enum NextSend {
    /// This one.
    Item(Box<OutboxItem>),
    /// One that waits until then; those behind it wait, too.
    NotBefore(Timestamp),
    /// Nothing is pending.
    Empty,
    /// The lane is not ours.
    NotOurs,
}
