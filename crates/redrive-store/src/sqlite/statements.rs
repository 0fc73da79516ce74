//! Statements that are prepared once and found again by where their text stands, which is cheaper than by what it says.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::{Deref, DerefMut};

use rusqlite::{Connection, Statement};

use crate::error::StoreError;
use crate::seal::Keeper;

/// The statements of one connection, and the keys of the store behind it.
pub(super) struct Statements<'c> {
    connection: &'c Connection,
    keeper: &'c Keeper,
    resting: RefCell<HashMap<(usize, usize), Statement<'c>, BuildHasherDefault<Address>>>,
}

impl<'c> Statements<'c> {
    pub(super) fn new(connection: &'c Connection, keeper: &'c Keeper) -> Statements<'c> {
        Statements { connection, keeper, resting: RefCell::default() }
    }

    pub(super) fn connection(&self) -> &'c Connection {
        self.connection
    }

    pub(super) fn keeper(&self) -> &'c Keeper {
        self.keeper
    }

    /// The statement of this text, which goes back to rest when it is dropped.
    pub(super) fn get<'s>(&'s self, sql: &'static str) -> Result<Prepared<'s, 'c>, StoreError> {
        let key = (sql.as_ptr().addr(), sql.len());
        let resting = self.resting.borrow_mut().remove(&key);
        let statement = match resting {
            Some(statement) => statement,
            None => self.connection.prepare(sql)?,
        };
        Ok(Prepared { home: self, key, statement: Some(statement) })
    }
}

/// A statement in use.
pub(super) struct Prepared<'s, 'c> {
    home: &'s Statements<'c>,
    key: (usize, usize),
    statement: Option<Statement<'c>>,
}

impl<'c> Deref for Prepared<'_, 'c> {
    type Target = Statement<'c>;

    #[allow(clippy::expect_used)]
    fn deref(&self) -> &Statement<'c> {
        self.statement.as_ref().expect("taken only by drop")
    }
}

impl<'c> DerefMut for Prepared<'_, 'c> {
    #[allow(clippy::expect_used)]
    fn deref_mut(&mut self) -> &mut Statement<'c> {
        self.statement.as_mut().expect("taken only by drop")
    }
}

impl Drop for Prepared<'_, '_> {
    fn drop(&mut self) {
        if let Some(statement) = self.statement.take() {
            self.home.resting.borrow_mut().insert(self.key, statement);
        }
    }
}

/// Addresses of texts differ enough as they are.
#[derive(Default)]
pub(super) struct Address(u64);

impl Hasher for Address {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 << 8) | u64::from(*byte);
        }
    }

    fn write_usize(&mut self, address: usize) {
        // Texts lie side by side; the table looks at the top bits and at the low ones.
        self.0 = (self.0 ^ address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
