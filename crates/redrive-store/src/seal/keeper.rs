//! Who knows which key seals. That is the store's to say, not a process's: the newest row of `seal_key` holds for
//! everybody, and `store.key_epoch` tells them when to look again.
//!
//! So a rotation takes hold everywhere with one commit, and a process that has not been given the key serves nothing from
//! then on, instead of writing what others must not read.

use std::sync::{Arc, PoisonError, RwLock};

use super::{Cell, KeyRing, Seals, damaged, missing};
use crate::error::{StoreError, Trouble};

/// What a proof says while plain cells may be left, and when none is.
const MIXED: &str = "redrive: some values may be plain";
const WHOLE: &str = "redrive: every value is sealed";

/// A row of `seal_key`.
#[derive(Debug, Clone)]
pub(crate) struct KeyRow {
    /// The key's id.
    pub(crate) key_id: String,
    /// A known text, sealed.
    pub(crate) proof: String,
}

/// The keys that this process has for one store.
#[derive(Debug)]
pub(crate) struct Keeper {
    ring: Option<KeyRing>,
    store_id: u64,
    known: RwLock<(i64, Arc<Seals>)>,
}

impl Keeper {
    /// Knows nothing of the store but its id yet.
    pub(crate) fn new(ring: Option<KeyRing>, store_id: u64) -> Keeper {
        Keeper { ring, store_id, known: RwLock::new((-1, Arc::new(Seals::none(store_id)))) }
    }

    /// Whose keys they are.
    pub(crate) fn store_id(&self) -> u64 {
        self.store_id
    }

    /// The key that a store is to be sealed with, if it is to be sealed at all.
    pub(crate) fn first(&self) -> Option<&str> {
        self.ring.as_ref().and_then(|ring| ring.id(0))
    }

    /// The seals that hold in this epoch, if we have looked since it began.
    pub(crate) fn known(&self, epoch: i64) -> Option<Arc<Seals>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        (known.0 == epoch).then(|| Arc::clone(&known.1))
    }

    /// The seals that hold while `seal_key` has these rows, the oldest first, and that they do from now on. Refuses a
    /// store whose keys we do not have, or have wrong.
    pub(crate) fn learn(&self, epoch: i64, rows: &[KeyRow]) -> Result<Arc<Seals>, StoreError> {
        let seals = Arc::new(self.seals(rows)?);
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = (epoch, Arc::clone(&seals));
        Ok(seals)
    }

    /// The seals that hold while `seal_key` has these rows, the oldest first.
    pub(crate) fn seals(&self, rows: &[KeyRow]) -> Result<Seals, StoreError> {
        let mut seals = Seals { ring: self.ring.clone(), ..Seals::none(self.store_id) };
        for row in rows {
            let ring = self.ring.as_ref();
            let at =
                ring.and_then(|ring| ring.find(&row.key_id)).ok_or_else(|| missing(&row.key_id, ring))?;
            let proof = seals.open_text(Cell::KeyProof, 0, row.proof.clone()).ok();
            seals.whole = match proof.as_deref() {
                Some(WHOLE) => true,
                Some(MIXED) => false,
                // The proof of a key opens with that key, or the key is another one of the same name.
                Some(_) => return Err(damaged(Cell::KeyProof, 0)),
                None => return Err(Trouble::WrongKey { key: row.key_id.clone() }.into()),
            };
            seals.current = Some(at);
        }
        Ok(seals)
    }

    /// The row for a key of ours, which says whether every cell is sealed.
    pub(crate) fn row(&self, key_id: &str, whole: bool) -> Result<KeyRow, StoreError> {
        let ring = self.ring.as_ref();
        let at = ring.and_then(|ring| ring.find(key_id)).ok_or_else(|| missing(key_id, ring))?;
        let seals = Seals { ring: self.ring.clone(), current: Some(at), ..Seals::none(self.store_id) };
        let proof = seals.seal_text(Cell::KeyProof, 0, if whole { WHOLE } else { MIXED })?;
        Ok(KeyRow { key_id: key_id.to_owned(), proof: proof.into_owned() })
    }
}
