//! `token`: who may do what over the API.

use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use redrive::engine::Scope;

use super::value;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum TokenCommand {
    Create(TokenCreateArgs),
    List,
    Revoke {
        #[arg(value_name = "ID", value_parser = value::name)]
        id: String,
        #[arg(long, value_name = "TEXT")]
        why: Option<String>,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct TokenCreateArgs {
    #[arg(value_name = "NAME", value_parser = value::name)]
    pub(crate) name: String,
    #[arg(long, value_name = "SCOPE", value_delimiter = ',', required = true, value_parser = scopes())]
    pub(crate) scope: Vec<Scope>,
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    pub(crate) queue: Vec<String>,
    #[arg(long, value_name = "D", value_parser = value::duration, allow_hyphen_values = true)]
    pub(crate) expires: Option<Duration>,
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: Option<String>,
}

fn scopes() -> impl TypedValueParser<Value = Scope> {
    // The names that are possible are those of the scopes.
    PossibleValuesParser::new(Scope::ALL.map(Scope::name)).map(|name| name.parse().unwrap_or(Scope::Read))
}
