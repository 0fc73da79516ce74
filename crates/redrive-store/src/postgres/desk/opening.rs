//! How a store is opened: connected to, brought up to date, and what never changes is read.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use tokio::sync::Notify;

use super::super::fault::Fault;
use super::super::line::{args, column};
use super::super::memory::{EVENT_TYPES, Memory, Need, learn, learn_lanes};
use super::super::migrate;
use super::super::open::Address;
use super::super::patience::Patience;
use super::super::pool::Pool;
use super::super::texts::{Texts, sql};
use super::{Opening, Room, Shared};
use crate::error::{StoreError, Trouble};
use crate::seal::Keeper;

/// Connects, brings the schema up to date, and reads what never changes.
pub(super) async fn open(opening: Opening, shared: Shared) -> Result<Room, StoreError> {
    let texts = Rc::new(Texts::new(opening.address.schema()));
    let memory = Rc::new(RefCell::new(Memory::default()));
    let mut patience = Patience::within(opening.within);
    let (line, store_id, keeper) = loop {
        let trial = async {
            let line = opening.address.connect(&texts).await?;
            migrate::run(&line, &opening.address, opening.create).await?;
            let row = line.first(sql!("store_read"), args![]).await?;
            let row = row.ok_or_else(|| Fault::corrupt("the store's own row is missing"))?;
            let store_id: i64 = column(&row, 0)?;
            let types: Vec<Need> = EVENT_TYPES.iter().map(|name| Need::Name((*name).to_owned())).collect();
            learn(&line, &memory, &types).await?;
            learn_lanes(&line, &memory).await?;
            let keeper = Keeper::new(opening.keys.clone(), store_id.cast_unsigned());
            super::super::reseal::take_keys(&line, &keeper, opening.encrypt).await?;
            super::super::timeline::greet(&line).await?;
            Ok::<_, Fault>((line, store_id, keeper))
        };
        match trial.await {
            Ok(opened) => break opened,
            Err(fault) => match patience.after(&fault) {
                Some(delay) => tokio::time::sleep(delay).await,
                None => return Err(refused(&opening.address, fault)),
            },
        }
    };
    Ok(Room {
        memory,
        keeper,
        clock: opening.clock,
        lanes_are_stale: Cell::new(false),
        pool: Pool::new(opening.address, texts, opening.connections, line, shared.answers),
        last: RefCell::default(),
        doubts: Cell::new(false),
        store_id,
        hot: RefCell::default(),
        looks: RefCell::default(),
        followers: RefCell::default(),
        parked: RefCell::default(),
        idle: RefCell::default(),
        heard: Cell::new(0),
        next_due: Cell::new(None),
        answered: Cell::new((None, 0)),
        wake_writer: Notify::new(),
        wake_looker: Notify::new(),
        wake_follower: Notify::new(),
        wake_watch: Notify::new(),
        wake_herald: Notify::new(),
        news: Cell::new(false),
        alone_until: Cell::new(None),
        look_soon: Cell::new(false),
        to_fold: Cell::new(false),
        busy: Cell::new(0),
        done: Notify::new(),
        closing: Cell::new(false),
        waiting: shared.waiting,
        workers: shared.workers,
        counted: shared.counted,
        itself: std::rc::Weak::new(),
    })
}

/// Why a store cannot be opened: what the database says about us is said with where it is.
fn refused(address: &Address, fault: Fault) -> StoreError {
    let error = fault.into_error();
    match error.trouble() {
        Trouble::Database(why) => Trouble::Denied { location: address.location(), why: why.clone() }.into(),
        Trouble::Unreachable(why) => Trouble::Unreachable(format!("{}: {why}", address.location())).into(),
        _ => error,
    }
}
