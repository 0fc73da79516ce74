//! `outbox`: calls that wait for the network.

use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use redrive_idempotency::client::Key;
use redrive_idempotency::outbox::ItemId;
use redrive_store::ItemState;

use super::value::{self, BadValue, Header};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum OutboxCommand {
    Add(Box<OutboxAddArgs>),
    Flush(OutboxFlushArgs),
    List(OutboxListArgs),
    Show {
        #[arg(value_name = "ID", value_parser = item)]
        id: ItemId,
        #[arg(long)]
        with_payload: bool,
    },
    Retry {
        #[arg(value_name = "ID", value_parser = item, required_unless_present = "all")]
        ids: Vec<ItemId>,
        #[arg(long, conflicts_with = "ids")]
        all: bool,
    },
    Discard {
        #[arg(value_name = "ID", value_parser = item, required = true)]
        ids: Vec<ItemId>,
        #[arg(long, short)]
        yes: bool,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct OutboxAddArgs {
    #[arg(long, short = 'X', value_name = "METHOD", default_value = "POST")]
    pub(crate) method: String,
    #[arg(long, short = 'H', value_name = "'K: V'", value_parser = value::header)]
    pub(crate) header: Vec<Header>,
    #[arg(long, short = 'd', value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    pub(crate) data: Option<String>,
    #[arg(long, value_name = "KEY", value_parser = value::key, conflicts_with = "save")]
    pub(crate) key: Option<Key>,
    #[arg(long, value_name = "NAME", value_parser = value::name)]
    pub(crate) save: Option<String>,
    #[arg(long, value_name = "LANE", value_parser = value::name)]
    pub(crate) lane: Option<String>,
    #[arg(value_name = "URL")]
    pub(crate) url: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct OutboxFlushArgs {
    #[arg(long)]
    pub(crate) watch: bool,
    #[arg(long, value_name = "LANE", value_parser = value::name)]
    pub(crate) lane: Option<String>,
    #[arg(long, value_name = "N", value_parser = value::limit, allow_hyphen_values = true, default_value = "3")]
    pub(crate) max_sends: u32,
    #[arg(long, value_name = "NAME")]
    pub(crate) policy: Option<String>,
    #[arg(long, value_name = "D", value_parser = value::wait, allow_hyphen_values = true, default_value = "30s")]
    pub(crate) timeout: Duration,
    #[arg(long, value_name = "D", value_parser = value::duration, allow_hyphen_values = true, default_value = "30s")]
    #[arg(conflicts_with = "watch")]
    pub(crate) wait: Duration,
}

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct OutboxListArgs {
    #[arg(long, value_name = "STATE", value_parser = state_parser())]
    pub(crate) state: Option<ItemState>,
    #[arg(long, value_name = "LANE", value_parser = value::name)]
    pub(crate) lane: Option<String>,
    #[arg(long, value_name = "N", value_parser = value::limit, allow_hyphen_values = true)]
    pub(crate) limit: Option<u32>,
    #[arg(long, value_name = "ID", value_parser = item)]
    pub(crate) after: Option<ItemId>,
}

fn state_parser() -> impl TypedValueParser<Value = ItemState> {
    PossibleValuesParser::new(ItemState::ALL.map(ItemState::name)).map(|name| {
        // clap lets no other name pass.
        ItemState::ALL.into_iter().find(|state| state.name() == name).unwrap_or(ItemState::Pending)
    })
}

fn item(text: &str) -> Result<ItemId, BadValue> {
    text.trim().parse().map_err(|_| BadValue::ItemId)
}
