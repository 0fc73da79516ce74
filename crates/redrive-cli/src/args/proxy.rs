//! `proxy`: what stands in front of a service.

use std::time::Duration;

use super::value;

#[derive(Debug, clap::Args)]
pub(crate) struct ProxyArgs {
    #[arg(long, value_name = "URL")]
    pub(crate) upstream: Option<String>,
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<String>,
    #[arg(long, value_name = "ADDR")]
    pub(crate) admin: Option<String>,
    #[arg(long, value_name = "NAME")]
    pub(crate) policy: Option<String>,
    #[arg(long, value_name = "D", value_parser = value::duration, allow_hyphen_values = true)]
    pub(crate) upstream_timeout: Option<Duration>,
    #[arg(long, value_name = "D", value_parser = value::duration, allow_hyphen_values = true)]
    pub(crate) client_timeout: Option<Duration>,
    #[arg(long, value_name = "D", value_parser = value::duration, allow_hyphen_values = true)]
    pub(crate) drain_for: Option<Duration>,
    #[arg(long, value_name = "N", value_parser = value::at_least_one, allow_hyphen_values = true)]
    pub(crate) max_connections: Option<u64>,
}
