//! A copy of the whole store into a new file, which is a store by itself: consistent while others write, for its owner's
//! eyes only, and on the disk when the answer goes out.

use std::path::Path;

use super::open::Address;
use crate::error::StoreError;

#[cfg(feature = "sqlite")]
pub(super) fn copy(address: &Address, to: &Path) -> Result<(), StoreError> {
    crate::sqlite::whole(to, &|partial| write(address.clone(), partial))
}

#[cfg(feature = "sqlite")]
fn write(address: Address, to: &Path) -> Result<(), StoreError> {
    use super::copy::PostgresEnd;
    use crate::copy::{End, transfer};
    use crate::sqlite::SqliteEnd;

    let mut source = PostgresEnd::connect(address, false)?;
    let mut target = SqliteEnd::open(to, true)?;
    source.freeze(false)?;
    transfer(&mut source, &mut target, None, &mut |_| {})?;
    source.thaw()?;
    target.close()?;
    crate::sqlite::sync(to)
}

#[cfg(not(feature = "sqlite"))]
pub(super) fn copy(_: &Address, to: &Path) -> Result<(), StoreError> {
    let why = "a backup is an SQLite file, and this program was built without SQLite".to_owned();
    Err(crate::error::Trouble::Open { path: to.to_owned(), why }.into())
}
