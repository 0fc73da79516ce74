//! SIGHUP: the configuration is read again. Everything that can be exchanged while it runs is; what cannot is named. What cannot be
//! obeyed changes nothing, and the log and an event say what is wrong (reliability row 73).

use std::collections::HashMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use redrive::engine::Engine;
use redrive_policy::{Config, Lang};
use redrive_server::{Certificate, Server, Tls};
use redrive_store::{EventStatus, NewEvent};
use serde_json::{Value, json};

use super::changes::Changes;
use super::plan::Plan;
use crate::Stage;
use crate::args::ServeArgs;
use crate::log::Log;
use crate::settings::{Reread, Settings};
use crate::text::{say, text};
use crate::trouble::{ServeTrouble, Trouble};

/// Reads the configuration again.
pub(super) struct Reloads {
    engine: Engine,
    server: Server,
    tls: Option<Tls>,
    reread: Reread,
    args: ServeArgs,
    env: HashMap<OsString, OsString>,
    cwd: PathBuf,
    /// Where it listens.
    own: Vec<SocketAddr>,
    /// What it was started with: what cannot be exchanged is still that.
    began: (Config, Plan),
    /// What was taken last.
    held: Mutex<(Config, Plan)>,
}

/// A configuration that was taken.
struct Taken {
    changes: Changes,
    config: Config,
}

impl Reloads {
    pub(super) fn new(
        engine: &Engine,
        server: &Server,
        tls: Option<Tls>,
        own: Vec<SocketAddr>,
        (config, plan): (&Config, &Plan),
        args: &ServeArgs,
        stage: &Stage<'_>,
    ) -> Reloads {
        Reloads {
            engine: engine.clone(),
            server: server.clone(),
            tls,
            reread: Settings::reread(&stage.settings, &stage.env, &stage.cwd),
            args: args.clone(),
            env: stage.env.clone(),
            cwd: stage.cwd.clone(),
            own,
            began: (config.clone(), plan.clone()),
            held: Mutex::new((config.clone(), plan.clone())),
        }
    }

    /// Takes what the file says now, or keeps what holds; answers what came of it in a line.
    pub(super) async fn reload(&self, log: &Log, lang: Lang) -> String {
        let file = self.reread.path().map(|path: PathBuf| path.display().to_string());
        match self.take(lang) {
            Ok(Taken { changes, config }) => {
                let named = file.clone().unwrap_or_else(|| say(lang, "serve.no-file"));
                let told =
                    text(lang, "serve.reloaded", &[("file", &named), ("what", &in_words(&changes, lang))]);
                log.info(&told, &[]);
                for warning in config.warnings.iter().map(|warning| warning.describe(lang)) {
                    log.warn(&warning, &[]);
                }
                let data = json!({ "file": file, "changed": changes.at_once, "restart": changes.restart });
                self.record("config_reloaded", EventStatus::Success, data, log).await;
                told
            }
            Err(trouble) => {
                let told = text(lang, "serve.not-reloaded", &[("why", &first_of(&trouble, lang))]);
                log.warn(&told, &[]);
                let data = json!({ "file": file, "problems": trouble.messages(Lang::En) });
                // It waits for a person, and is no work that failed.
                self.record("config_refused", EventStatus::Pending, data, log).await;
                told
            }
        }
    }

    /// Whatever can fail comes first; then everything is exchanged.
    fn take(&self, lang: Lang) -> Result<Taken, Trouble> {
        let config = self.reread.read()?;
        let mut plan = Plan::new(&self.args, &config, lang, &self.env, &self.cwd)?;
        plan.never_calls(&self.own);
        let certificate = self.certificate(&plan)?;
        let reload = self.engine.prepare_reload(&config)?;
        self.server.reload(plan.settings.clone(), plan.push.clone())?;
        reload.hold();
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let new = (&config, &plan);
        let Changes { at_once, .. } = Changes::between((&held.0, &held.1), new);
        let Changes { restart, .. } = Changes::between((&self.began.0, &self.began.1), new);
        let mut changes = Changes { at_once, restart };
        if let Some((tls, certificate)) = self.tls.as_ref().zip(certificate) {
            if tls.shown() != certificate && !changes.at_once.contains(&"server.tls") {
                changes.at_once.push("server.tls");
            }
            tls.show(certificate);
        }
        *held = (config.clone(), plan);
        Ok(Taken { changes, config })
    }

    /// The certificate that the configuration names now, where one is shown at all.
    fn certificate(&self, plan: &Plan) -> Result<Option<Certificate>, Trouble> {
        let Some((cert, key)) = plan.tls.as_ref().filter(|_| self.tls.is_some()) else { return Ok(None) };
        let read = Certificate::read(cert, key);
        read.map(Some).map_err(|trouble| Trouble::Serve(ServeTrouble::Tls(trouble)))
    }

    async fn record(&self, event_type: &str, status: EventStatus, data: Value, log: &Log) {
        let event = NewEvent {
            event_type: event_type.to_owned(),
            source: "server".to_owned(),
            data,
            importance: Some(if status == EventStatus::Success { 2 } else { 4 }),
            status: Some(status),
            ..NewEvent::default()
        };
        if let Err(error) = self.engine.store().append(self.engine.now(), vec![event]).await {
            log.warn("what became of the reload could not be recorded", &[("error", &error)]);
        }
    }
}

/// What took effect, and what did not.
fn in_words(changes: &Changes, lang: Lang) -> String {
    let Changes { at_once, restart } = changes;
    let mut told = match (at_once.as_slice(), restart.as_slice()) {
        ([], []) => say(lang, "serve.nothing-changed"),
        ([], _) => say(lang, "serve.nothing-took-effect"),
        (names, _) => text(lang, "serve.took-effect", &[("names", &names.join(", "))]),
    };
    if !restart.is_empty() {
        told += &text(lang, "serve.needs-restart", &[("names", &restart.join(", "))]);
    }
    told
}

/// The first thing that is wrong, and how much else is.
fn first_of(trouble: &Trouble, lang: Lang) -> String {
    let mut problems = trouble.messages(lang).into_iter();
    let first = problems.next().unwrap_or_default();
    match problems.len() {
        0 => first,
        n => text(lang, "serve.and-more", &[("first", &first), ("n", &n)]),
    }
}
