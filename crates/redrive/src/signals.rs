//! Typed signals in other people's errors, a file per crate they come from, each behind a feature of its name.
//!
//! A file answers two questions about one link of a chain: what does it know ([`note`]), and does it prove that
//! the request never left ([`never_sent`]).

mod io;

#[cfg(feature = "anyhow")]
mod anyhow;
#[cfg(feature = "http")]
pub(crate) mod http;
#[cfg(feature = "hyper")]
mod hyper;
#[cfg(feature = "hyper-util")]
mod hyper_util;
#[cfg(feature = "tokio-postgres")]
mod postgres;
#[cfg(feature = "reqwest")]
pub(crate) mod reqwest;
#[cfg(feature = "serde_json")]
mod serde_json;
#[cfg(feature = "rusqlite")]
mod sqlite;
#[cfg(feature = "toml")]
mod toml;

use std::borrow::Cow;
use std::error::Error;

use redrive_policy::Report;

/// Enters what this link knows and no outer link has said.
pub(crate) fn note<'a>(link: &'a (dyn Error + 'static), report: &mut Report<'a>) {
    io::note(link, report);
    #[cfg(feature = "http")]
    http::note(link, report);
    #[cfg(feature = "hyper")]
    hyper::note(link, report);
    #[cfg(feature = "tokio-postgres")]
    postgres::note(link, report);
    #[cfg(feature = "reqwest")]
    reqwest::note(link, report);
    #[cfg(feature = "serde_json")]
    serde_json::note(link, report);
    #[cfg(feature = "rusqlite")]
    sqlite::note(link, report);
    #[cfg(feature = "toml")]
    toml::note(link, report);
}

/// Whether this link proves that the request never left: no connection came about, or it went away before.
pub(crate) fn never_sent(link: &(dyn Error + 'static)) -> bool {
    let proof = io::never_sent(link);
    #[cfg(feature = "hyper")]
    let proof = proof || hyper::never_sent(link);
    #[cfg(feature = "hyper-util")]
    let proof = proof || hyper_util::never_sent(link);
    #[cfg(feature = "reqwest")]
    let proof = proof || reqwest::never_sent(link);
    proof
}

/// Enters a code that no outer link has said.
fn note_code<'a>(report: &mut Report<'a>, code: impl Into<Cow<'a, str>>) {
    if report.code.is_none() {
        report.code = Some(code.into());
    }
}
