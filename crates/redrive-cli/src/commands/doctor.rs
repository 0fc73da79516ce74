//! `doctor`: looks at everything that keeps work from being done, says what it means and which command mends it. It changes
//! nothing.

mod place;
mod work;

use std::fmt::Display;
use std::time::Duration;

use redrive_policy::Lang;

use super::probe::{Said, ask};
use super::serve::refuses::{Stumble, Weight, stumbles};
use super::{health, opened};
use crate::args::DoctorArgs;
use crate::text::{say, text};
use crate::trouble::Trouble;
use crate::view::doctor::{DoctorView, Finding, Verdict};
use crate::{Exit, Stage};

/// How long a store may take over all questions together.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn run(args: &DoctorArgs, stage: &mut Stage<'_>) -> (DoctorView, Exit) {
    let mut found = Findings { lang: stage.settings.lang, all: Vec::new() };
    configuration(&mut found, stage);
    let store = match stage.settings.store_place(&stage.cwd) {
        Ok(place) => {
            place::look(&place, &mut found);
            stored(&mut found, stage)
        }
        Err(trouble) => {
            found.trouble("store", &trouble);
            String::new()
        }
    };
    server(args, &mut found, stage);
    let store = if store.is_empty() { crate::secret::blanked(&stage.settings.store.value) } else { store };
    let view = DoctorView::new(store, found.all);
    let exit = match view.verdict() {
        Verdict::Ok => Exit::Done,
        Verdict::Warning => Exit::Partly,
        Verdict::Problem => Exit::Failed,
    };
    (view, exit)
}

/// What was found so far.
struct Findings {
    lang: Lang,
    all: Vec<Finding>,
}

type Values<'a> = &'a [(&'a str, &'a dyn Display)];

impl Findings {
    fn ok(&mut self, check: &'static str, key: &str, values: Values<'_>) {
        self.put(check, Verdict::Ok, key, values, None);
    }

    /// Something that is as it should be, and what comes next.
    fn next(&mut self, check: &'static str, key: &str, values: Values<'_>, then: &str) {
        self.put(check, Verdict::Ok, key, values, Some(then));
    }

    fn warn(&mut self, check: &'static str, key: &str, values: Values<'_>, fix: &str) {
        self.put(check, Verdict::Warning, key, values, Some(fix));
    }

    fn problem(&mut self, check: &'static str, key: &str, values: Values<'_>, fix: &str) {
        self.put(check, Verdict::Problem, key, values, Some(fix));
    }

    fn put(
        &mut self,
        check: &'static str,
        verdict: Verdict,
        key: &str,
        values: Values<'_>,
        fix: Option<&str>,
    ) {
        let what = text(self.lang, &format!("doctor.{key}"), values);
        self.all.push(Finding { check, verdict, what, fix: fix.map(ToOwned::to_owned) });
    }

    /// Something that would have stopped another command, in the same words.
    fn trouble(&mut self, check: &'static str, trouble: &Trouble) {
        self.trouble_as(check, Verdict::Problem, trouble);
    }

    fn trouble_as(&mut self, check: &'static str, verdict: Verdict, trouble: &Trouble) {
        for what in trouble.messages(self.lang) {
            self.all.push(Finding { check, verdict, what, fix: trouble.hint(self.lang) });
        }
    }
}

fn configuration(found: &mut Findings, stage: &Stage<'_>) {
    let lang = found.lang;
    match stage.settings.config() {
        Ok(config) => {
            match stage.settings.config_path() {
                Some(path) => found.ok("config", "config.fine", &[("file", &path.display())]),
                None => found.ok("config", "config.none", &[]),
            }
            for warning in &config.warnings {
                found.warn(
                    "config",
                    "config.warning",
                    &[("what", &warning.describe(lang))],
                    "redrive config check",
                );
            }
            for Stumble { trouble, weight, .. } in stumbles(&config, stage) {
                let perhaps = weight == Weight::Perhaps;
                let verdict = if perhaps { Verdict::Warning } else { Verdict::Problem };
                found.trouble_as("config", verdict, &trouble);
            }
            if let Err(trouble) = stage.settings.policy(&config, None) {
                found.trouble("config", &trouble);
            }
        }
        Err(trouble) => found.trouble("config", &trouble),
    }
}

/// Everything that needs the store; answers where it is.
fn stored(found: &mut Findings, stage: &mut Stage<'_>) -> String {
    let opened = match opened::to_read(stage) {
        Ok(opened) => opened,
        Err(Trouble::NoStore { path }) => {
            // As on every machine on the first day.
            found.next("store", "store.missing", &[("path", &path.display())], "redrive enqueue --exec true");
            return String::new();
        }
        Err(trouble) => {
            found.trouble("store", &trouble);
            return String::new();
        }
    };
    let store = opened.store.location();
    found.ok("store", "store.opens", &[("store", &store)]);
    let looked = opened.runtime.block_on(async {
        tokio::time::timeout(PATIENCE, async {
            work::look(&opened, found).await?;
            work::look_further(&opened.looker()?, opened.now, found).await?;
            Ok::<(), Trouble>(())
        })
        .await
    });
    match looked {
        Ok(Ok(())) => {}
        Ok(Err(trouble)) => found.trouble("store", &trouble),
        Err(_) => {
            let fix = say(found.lang, "doctor.store.slow-fix");
            found.problem("store", "store.slow", &[("store", &store)], &fix);
        }
    }
    // Nothing was written: how it closes does not matter.
    let _ = opened.wait(opened.store.close());
    store
}

fn server(args: &DoctorArgs, found: &mut Findings, stage: &Stage<'_>) {
    let url = match &args.server {
        Some(url) => url.clone(),
        None => match health::server_url(stage) {
            Ok(url) => url,
            // What is wrong with the configuration was said.
            Err(_) => return,
        },
    };
    let fix = format!("redrive health {url}");
    match ask(&url, "/readyz") {
        Said::Answered(200, _) => found.ok("server", "server.ready", &[("url", &url)]),
        Said::Nobody if args.server.is_none() => found.ok("server", "server.none", &[("url", &url)]),
        Said::Nobody => found.problem("server", "server.nobody", &[("url", &url)], "redrive serve"),
        Said::Answered(status, body) => {
            let values: Values<'_> = &[("url", &url), ("status", &status), ("body", &body)];
            found.problem("server", "server.not-ready", values, &fix);
        }
        Said::NoAddress => found.problem(
            "server",
            "server.no-address",
            &[("url", &url)],
            "redrive doctor --server http://127.0.0.1:7411",
        ),
        Said::Trouble(why) => {
            found.problem("server", "server.trouble", &[("url", &url), ("why", &why)], &fix);
        }
    }
}
