//! Looking for letters and events: what an index can serve is asked of the store, the rest is judged page by page, so that
//! memory stays bounded however much there is (R-C1, R-E3).

use std::time::Duration;

use redrive_policy::Cause;
use redrive_store::filter::{EventField, Filter};
use redrive_store::{
    DeadLetter, Event, EventFilter, EventSeq, Group, GroupQuery, GroupState, JobId, LetterFilter, LetterHead,
    Order, Timestamp,
};

use super::{Engine, EngineError};

/// How many events are looked at in one go.
const PAGE: u32 = 1_000;
/// How many letters are looked at in one go by a test that no index serves, and how many whole ones are read.
const HEADS_LOOKED_AT: u32 = 10_000;
const LETTERS_AT_A_TIME: usize = 500;
/// How many are read at once where only a part of each is kept.
const FEW: usize = 32;
/// How many pages of events from elsewhere are passed over in search of one of our own.
const PASSED_OVER: u32 = 32;
/// How many that a beginning could mean are named.
const NAMED: usize = 5;
/// How many letters are let go in one go.
const PURGED_AT_A_TIME: u32 = 1_000;

/// What a written id, or its beginning, stands for.
#[derive(Debug, Clone, PartialEq)]
pub enum Named<T> {
    /// This one.
    One(Box<T>),
    /// Several; these are the first few.
    Several(Vec<String>),
    /// Nothing that is known.
    Nothing,
}

/// Some letters, and where the next ones begin.
#[derive(Debug, Clone, Default)]
pub struct LetterPage {
    /// The letters.
    pub letters: Vec<DeadLetter>,
    /// Where the last one stands, if there are more behind it.
    pub next: Option<(Timestamp, JobId)>,
}

/// What a purge did, or would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Purged {
    /// Letters that went.
    pub purged: u64,
    /// Letters that are left.
    pub kept: u64,
}

impl Engine {
    /// Letters that match, at most `limit`, and whether there are more. With a test that few letters pass it looks at as
    /// many as it takes, a page at a time.
    pub async fn find_letters(&self, filter: LetterFilter, limit: u32) -> Result<LetterPage, EngineError> {
        let wanted = usize::try_from(limit).unwrap_or(usize::MAX);
        // One more than is wanted tells whether there are more.
        let one_more = limit.saturating_add(1);
        let mut letters = if filter.only.is_some() {
            self.tested_letters(filter, one_more).await?
        } else {
            self.store().letters(filter, one_more).await?
        };
        let more = letters.len() > wanted;
        letters.truncate(wanted);
        let next = letters.last().filter(|_| more).map(|letter| (letter.died_at, letter.id));
        Ok(LetterPage { letters, next })
    }

    /// What `shown` makes of letters that match, at most `limit`. No more than some thousands are looked at: a page may hold
    /// fewer than there are, and then says where to look on. What it costs does not grow with the store, and payloads are not
    /// held longer than it takes to look at them.
    pub async fn letter_page<T>(
        &self,
        filter: LetterFilter,
        limit: u32,
        shown: impl Fn(&DeadLetter) -> T,
    ) -> Result<(Vec<T>, Option<(Timestamp, JobId)>), EngineError> {
        let page = self.store().letter_heads(filter.clone(), limit, HEADS_LOOKED_AT).await?;
        let ids: Vec<JobId> = page.heads.iter().map(|head| head.id).collect();
        let mut items = Vec::with_capacity(ids.len());
        for some in ids.chunks(FEW) {
            let letters = self.whole_letters(some, filter.oldest_first).await?;
            items.extend(letters.iter().map(&shown));
        }
        Ok((items, page.next))
    }

    /// The oldest letters that match, at most `limit`: what is shown before something is done to all of them.
    pub async fn sample_letters(
        &self,
        filter: LetterFilter,
        limit: u32,
    ) -> Result<Vec<LetterHead>, EngineError> {
        let mut looking = LetterFilter { oldest_first: true, ..filter };
        loop {
            let page = self.store().letter_heads(looking.clone(), limit, HEADS_LOOKED_AT).await?;
            match page.next {
                // A test that few pass is asked until some have.
                Some(next) if page.heads.is_empty() => looking.after = Some(next),
                _ => return Ok(page.heads),
            }
        }
    }

    /// Letters that pass a test: their heads first, and then those whole that did.
    async fn tested_letters(&self, filter: LetterFilter, limit: u32) -> Result<Vec<DeadLetter>, EngineError> {
        let mut ids: Vec<JobId> = Vec::new();
        let mut from = filter.clone();
        loop {
            let found = u32::try_from(ids.len()).unwrap_or(u32::MAX);
            let page =
                self.store().letter_heads(from.clone(), limit.saturating_sub(found), HEADS_LOOKED_AT).await?;
            ids.extend(page.heads.iter().map(|head| head.id));
            match page.next {
                Some(next) if ids.len() < limit as usize => from.after = Some(next),
                _ => break,
            }
        }
        self.whole_letters(&ids, filter.oldest_first).await
    }

    async fn whole_letters(&self, ids: &[JobId], oldest_first: bool) -> Result<Vec<DeadLetter>, EngineError> {
        let mut letters = Vec::with_capacity(ids.len());
        for some in ids.chunks(LETTERS_AT_A_TIME) {
            let these = LetterFilter { ids: Some(some.to_vec()), oldest_first, ..LetterFilter::default() };
            letters.extend(self.store().letters(these, u32::try_from(some.len()).unwrap_or(u32::MAX)).await?);
        }
        Ok(letters)
    }

    /// Events that match both, page by page.
    pub fn search_events(&self, mut filter: EventFilter, also: Option<Filter<EventField>>) -> EventSearch {
        let now = self.now();
        let judge = also.filter(|also| !also.narrow(&mut filter, now));
        EventSearch { engine: self.clone(), filter, judge, now, over: false }
    }

    /// The event known by this id, or by the beginning of one that no other shares. A beginning finds events that were
    /// written here; what came from elsewhere is found by its whole id, and where very much of that stands in between, so is
    /// the rest.
    pub async fn event_named(&self, written: &str) -> Result<Named<Event>, EngineError> {
        if let Some(event) = self.store().event(written.to_owned()).await? {
            return Ok(Named::One(Box::new(event)));
        }
        if !written.starts_with("EVT-") {
            return Ok(Named::Nothing);
        }
        let mut after = self.place_before(written).await?;
        let mut found: Vec<Event> = Vec::new();
        for _ in 0..PASSED_OVER {
            let events = self.oldest_after(after, PAGE).await?;
            let Some(last) = events.last() else { break };
            after = last.seq;
            let mut beyond = false;
            for event in events {
                beyond |=
                    is_own(&event) && !event.event_id.starts_with(written) && *event.event_id > *written;
                if event.event_id.starts_with(written) {
                    found.push(event);
                }
            }
            if beyond || found.len() > NAMED {
                break;
            }
        }
        Ok(match found.len() {
            0 => Named::Nothing,
            1 => found.pop().map_or(Named::Nothing, |event| Named::One(Box::new(event))),
            _ => Named::Several(found.into_iter().take(NAMED).map(|event| event.event_id).collect()),
        })
    }

    /// The last place before the first event whose id is not less than this. Ids begin with their time, and times follow
    /// the sequence, so halving finds it. What was imported has ids and times of its own and is passed over.
    async fn place_before(&self, written: &str) -> Result<EventSeq, EngineError> {
        let newest = self.store().events(EventFilter::default(), 1).await?;
        let (mut low, mut high) = (0, newest.first().map_or(0, |event| event.seq.0));
        let mut patience = PASSED_OVER;
        while low < high {
            let middle = low + (high - low) / 2;
            match self.own_after(EventSeq(middle), EventSeq(high), &mut patience).await? {
                // Everything from the middle up to there is less, too.
                Some(event) if *event.event_id < *written => low = event.seq.0,
                _ => high = middle,
            }
        }
        Ok(EventSeq(low))
    }

    /// The first event of our own behind this place and up to that one.
    async fn own_after(
        &self,
        after: EventSeq,
        up_to: EventSeq,
        patience: &mut u32,
    ) -> Result<Option<Event>, EngineError> {
        let mut after = after;
        let mut page = 1;
        loop {
            let events = self.oldest_after(after, page).await?;
            let Some(last) = events.last() else { return Ok(None) };
            after = last.seq;
            if let Some(own) = events.into_iter().find(is_own) {
                return Ok(Some(own).filter(|own| own.seq <= up_to));
            }
            if after >= up_to || *patience == 0 {
                return Ok(None);
            }
            *patience -= 1;
            page = PAGE;
        }
    }

    async fn oldest_after(&self, after: EventSeq, limit: u32) -> Result<Vec<Event>, EngineError> {
        let filter = EventFilter { after: Some(after), order: Order::OldestFirst, ..EventFilter::default() };
        Ok(self.store().events(filter, limit).await?)
    }

    /// The group of this fingerprint, or of the beginning of one that no other shares.
    pub async fn group_named(&self, written: &str) -> Result<Named<Group>, EngineError> {
        if written.is_empty() {
            return Ok(Named::Nothing);
        }
        let query = GroupQuery { prefix: Some(written.to_owned()), ..GroupQuery::default() };
        let mut groups = self.store().groups(query, PAGE).await?;
        if let Some(exact) = groups.iter().position(|group| group.fingerprint == written) {
            return Ok(Named::One(Box::new(groups.swap_remove(exact))));
        }
        Ok(match groups.len() {
            0 => Named::Nothing,
            1 => groups.pop().map_or(Named::Nothing, |group| Named::One(Box::new(group))),
            _ => Named::Several(groups.into_iter().take(NAMED).map(|group| group.fingerprint).collect()),
        })
    }

    /// Groups in one of these states, or in any, the largest first and those that are resolved last, at most `limit`; and
    /// whether there are more.
    pub async fn list_groups(
        &self,
        states: &[GroupState],
        cause: Option<Cause>,
        limit: u32,
    ) -> Result<(Vec<Group>, bool), EngineError> {
        let wanted = |state: &GroupState| states.is_empty() || states.contains(state);
        let ask = |states: Vec<GroupState>, limit: u32| {
            self.store().groups(GroupQuery { states, cause, prefix: None }, limit)
        };
        // One more than is shown tells whether there are more. What is resolved stands last, however many letters it has.
        let one_more = limit.saturating_add(1);
        let unresolved = GroupState::ALL.into_iter().filter(|state| *state != GroupState::Resolved);
        let unresolved: Vec<GroupState> = unresolved.filter(wanted).collect();
        let mut found = if unresolved.is_empty() { Vec::new() } else { ask(unresolved, one_more).await? };
        let left = one_more.saturating_sub(u32::try_from(found.len()).unwrap_or(u32::MAX));
        if left > 0 && wanted(&GroupState::Resolved) {
            found.extend(ask(vec![GroupState::Resolved], left).await?);
        }
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let more = found.len() > limit;
        found.truncate(limit);
        Ok((found, more))
    }

    /// How many letters [`Engine::purge_letters`] would let go, and how many it would leave.
    pub async fn would_purge(&self, older_than: Duration) -> Result<Purged, EngineError> {
        let old = LetterFilter { before: Some(self.now().before(older_than)), ..LetterFilter::default() };
        let purged = self.store().count_letters(old).await?;
        let all = self.store().status(self.now()).await?.dead_letters;
        Ok(Purged { purged, kept: all.saturating_sub(purged) })
    }

    /// Lets go of letters that have been dead for longer, each with an event that tells of it. Events stay.
    pub async fn purge_letters(&self, older_than: Duration) -> Result<Purged, EngineError> {
        let now = self.now();
        let mut purged = 0;
        loop {
            let no_events = Timestamp::from_millis(i64::MIN);
            let round = self.store().prune(now, no_events, now.before(older_than), PURGED_AT_A_TIME).await?;
            purged += round.letters;
            if round.letters == 0 {
                break;
            }
        }
        Ok(Purged { purged, kept: self.store().status(now).await?.dead_letters })
    }
}

/// Whether an event's id was made here.
fn is_own(event: &Event) -> bool {
    event.seq.event_id(event.timestamp) == event.event_id
}

/// Events that are looked for page by page.
#[derive(Debug)]
pub struct EventSearch {
    engine: Engine,
    filter: EventFilter,
    judge: Option<Filter<EventField>>,
    now: Timestamp,
    over: bool,
}

impl EventSearch {
    /// Looks at so many events of the stream and no more, and answers those that match, maybe none: [`EventSearch::is_over`] says whether
    /// that was all.
    pub async fn look_at(&mut self, count: u32) -> Result<Vec<Event>, EngineError> {
        if self.over {
            return Ok(Vec::new());
        }
        let count = count.clamp(1, PAGE);
        let mut events = self.engine.store().events(self.filter.clone(), count).await?;
        self.over = events.len() < count as usize;
        if let Some(last) = events.last() {
            self.stands_at(last.seq);
        }
        events.retain(|event| self.judge.as_ref().is_none_or(|judge| judge.matches(event, self.now)));
        Ok(events)
    }

    /// Whether everything was looked at.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// The last event that was looked at, or where it began.
    pub fn place(&self) -> Option<EventSeq> {
        match self.filter.order {
            Order::NewestFirst => self.filter.before,
            Order::OldestFirst => self.filter.after,
        }
    }

    fn stands_at(&mut self, seq: EventSeq) {
        match self.filter.order {
            Order::NewestFirst => self.filter.before = Some(seq),
            Order::OldestFirst => self.filter.after = Some(seq),
        }
    }

    /// The next events that match, at most `limit`; none at the end.
    pub async fn next(&mut self, limit: u32) -> Result<Vec<Event>, EngineError> {
        let wanted = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut found = Vec::new();
        while !self.over && found.len() < wanted {
            let left = u32::try_from(wanted - found.len()).unwrap_or(u32::MAX);
            // Without a judge everything that comes is wanted.
            let page = if self.judge.is_some() { PAGE } else { left.min(PAGE) };
            let events = self.engine.store().events(self.filter.clone(), page).await?;
            self.over = events.len() < page as usize;
            for event in events {
                self.stands_at(event.seq);
                if self.judge.as_ref().is_none_or(|judge| judge.matches(&event, self.now)) {
                    found.push(event);
                }
                if found.len() == wanted {
                    // The rest of this page is read again by the next call.
                    self.over = false;
                    break;
                }
            }
        }
        Ok(found)
    }
}
