//! `serve`: where it listens, and how much it does itself.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::value;
use crate::log::Shape;

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ServeArgs {
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Vec<String>,
    #[arg(long, value_name = "N", value_parser = value::slots_or_none, allow_hyphen_values = true)]
    pub(crate) concurrency: Option<usize>,
    #[arg(long, value_name = "NAME", value_parser = value::name)]
    pub(crate) queue: Vec<String>,
    #[arg(long, value_name = "D", value_parser = value::duration, allow_hyphen_values = true)]
    pub(crate) drain_for: Option<Duration>,
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    #[arg(long)]
    pub(crate) insecure_http: bool,
    #[arg(long, value_name = "auto|text|json", value_parser = log_parser(), default_value = "auto")]
    pub(crate) log: LogChoice,
}

/// How the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogChoice {
    Auto,
    As(Shape),
}

fn log_parser() -> impl TypedValueParser<Value = LogChoice> {
    PossibleValuesParser::new(["auto", "text", "json"]).map(|name| match name.as_str() {
        "text" => LogChoice::As(Shape::Text),
        "json" => LogChoice::As(Shape::Json),
        _ => LogChoice::Auto,
    })
}
