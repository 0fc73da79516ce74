//! `doctor` and `health`: looking after a server.

#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct HealthArgs {
    #[arg(value_name = "URL")]
    pub(crate) url: Option<String>,
}
