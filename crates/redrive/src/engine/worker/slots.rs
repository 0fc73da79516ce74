//! The slots of a worker: what runs in each, so that heartbeats can name every lease and each attempt can be stopped.

use redrive_store::LeaseToken;
use tokio::task::AbortHandle;

use super::super::executor::Running;

/// What runs in a slot.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) running: Running,
    /// The task that it runs in, which it may share with the other items of a batch.
    pub(super) task: Option<AbortHandle>,
    /// Items of a batch are not stopped one by one.
    pub(super) shared: bool,
    /// The lease is lost: whatever it comes to does not count.
    pub(super) lost: bool,
}

/// All slots, by number.
#[derive(Debug, Default)]
pub(super) struct Slots {
    taken: Vec<Option<Slot>>,
    free: Vec<usize>,
    count: usize,
}

impl Slots {
    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn take(&mut self, slot: Slot) -> usize {
        self.count += 1;
        if let Some(number) = self.free.pop() {
            self.taken[number] = Some(slot);
            return number;
        }
        self.taken.push(Some(slot));
        self.taken.len() - 1
    }

    pub(super) fn get_mut(&mut self, number: usize) -> Option<&mut Slot> {
        self.taken.get_mut(number).and_then(Option::as_mut)
    }

    /// Frees a slot; nothing when it was freed before.
    pub(super) fn free(&mut self, number: usize) -> Option<Slot> {
        let slot = self.taken.get_mut(number).and_then(Option::take)?;
        self.count -= 1;
        self.free.push(number);
        Some(slot)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Slot)> {
        self.taken.iter().enumerate().filter_map(|(number, slot)| Some((number, slot.as_ref()?)))
    }

    /// The tasks of batches of which every item has lost its lease: nothing that they do counts any more.
    pub(super) fn batches_without_a_lease(&self) -> Vec<AbortHandle> {
        let shared = || self.iter().filter(|(_, slot)| slot.shared);
        let is = |slot: &Slot, task: &AbortHandle| slot.task.as_ref().is_some_and(|of| of.id() == task.id());
        let mut tasks: Vec<AbortHandle> =
            shared().filter(|(_, slot)| slot.lost).filter_map(|(_, slot)| slot.task.clone()).collect();
        tasks.retain(|task| shared().filter(|(_, slot)| is(slot, task)).all(|(_, slot)| slot.lost));
        tasks
    }

    /// The leases that are to be kept, with their slots.
    pub(super) fn tokens(&self) -> (Vec<(usize, LeaseToken)>, Vec<LeaseToken>) {
        let held = self.iter().filter(|(_, slot)| !slot.lost);
        held.map(|(number, slot)| ((number, slot.running.token), slot.running.token)).unzip()
    }
}

/// A worker that is dropped takes its work with it: the leases lapse, and the attempts must not go on without them.
impl Drop for Slots {
    fn drop(&mut self) {
        for task in self.iter().filter_map(|(_, slot)| slot.task.as_ref()) {
            task.abort();
        }
    }
}
