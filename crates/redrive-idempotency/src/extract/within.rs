//! Completing a request in the transaction that has its effect.

use redrive_store::StoreError;

/// Why a request could not be completed in a transaction. Roll it back: its effect must not be there without its record.
#[derive(Debug, thiserror::Error)]
pub enum CompleteError {
    /// The engine keeps its keys in another kind of store than this transaction is of.
    #[error("the keys are not kept in the database of this transaction")]
    OtherStore,
    /// Another holder has the key by now, or somebody reset it.
    #[error("the key was lost to another holder, or reset")]
    Lost,
    /// The answer's body is not in memory.
    #[error("the answer's body is not in memory yet, so it cannot be recorded")]
    NotReady,
    /// The answer's body broke off.
    #[error("the answer's body broke off")]
    Broken,
    /// The store has trouble.
    #[error(transparent)]
    Store(#[from] StoreError),
}
