//! `health`: whether a server takes work, as an exit code; for containers, which have no curl.

use super::probe::{Said, ask, url_of};
use crate::args::HealthArgs;
use crate::text::text;
use crate::trouble::Trouble;
use crate::{Exit, Stage};

/// Where a server listens when nobody says so: nobody else can reach that.
pub(super) const DEFAULT_LISTEN: &str = "127.0.0.1:7411";

pub(super) fn run(args: &HealthArgs, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let url = match &args.url {
        Some(url) => url.clone(),
        None => server_url(stage)?,
    };
    let lang = stage.settings.lang;
    let (exit, words) = match ask(&url, "/readyz") {
        Said::Answered(200, _) => (Exit::Done, text(lang, "health.ready", &[("url", &url)])),
        Said::Answered(status, body) => {
            let values: [(&str, &dyn std::fmt::Display); 3] =
                [("url", &url), ("status", &status), ("body", &body)];
            (Exit::Failed, text(lang, "health.not-ready", &values))
        }
        Said::Nobody => (Exit::Failed, text(lang, "health.nobody", &[("url", &url)])),
        Said::NoAddress => (Exit::Usage, text(lang, "health.no-address", &[("url", &url)])),
        Said::Trouble(why) => (Exit::Failed, text(lang, "health.trouble", &[("url", &url), ("why", &why)])),
    };
    match exit {
        Exit::Done => stage.talk.note(&words),
        _ => stage.talk.error(&words),
    }
    Ok(exit)
}

/// Where the server of this configuration is asked.
pub(super) fn server_url(stage: &Stage<'_>) -> Result<String, Trouble> {
    let config = stage.settings.config()?;
    let listen = config.server.listen.first().map_or(DEFAULT_LISTEN, String::as_str);
    Ok(url_of(listen, config.server.tls.is_some()))
}
