//! SIGHUP: the configuration is read again. What cannot be obeyed changes nothing, and the log and an event say what is wrong
//! (reliability row 73).

use std::path::PathBuf;

use redrive::engine::{Engine, EngineError, check_recovery_rule};
use redrive_policy::{Config, Lang};
use redrive_server::Tls;
use redrive_store::{EventStatus, NewEvent};
use serde_json::{Value, json};

use crate::Stage;
use crate::log::Log;
use crate::settings::{Reread, Settings};
use crate::text::{say, text};
use crate::trouble::{ServeTrouble, Trouble};

/// Reads the configuration again.
pub(super) struct Reloads {
    engine: Engine,
    tls: Option<Tls>,
    reread: Reread,
}

impl Reloads {
    pub(super) fn new(engine: &Engine, tls: Option<Tls>, stage: &Stage<'_>) -> Reloads {
        Reloads {
            engine: engine.clone(),
            tls,
            reread: Settings::reread(&stage.settings, &stage.env, &stage.cwd),
        }
    }

    /// Takes what the file says now, or keeps what holds.
    pub(super) async fn reload(&self, log: &Log, lang: Lang) {
        let file = self.reread.path().map(|path: PathBuf| path.display().to_string());
        let named = file.clone().unwrap_or_else(|| say(lang, "serve.no-file"));
        match self.read().and_then(|config| self.reload_tls().map(|()| config)) {
            Ok(config) => {
                self.engine.reload(&config);
                log.info(&text(lang, "serve.reloaded", &[("file", &named)]), &[]);
                let warnings: Vec<String> =
                    config.warnings.iter().map(|warning| warning.describe(lang)).collect();
                for warning in &warnings {
                    log.warn(warning, &[]);
                }
                self.record("config_reloaded", EventStatus::Success, json!({ "file": file }), log).await;
            }
            Err(trouble) => {
                log.warn(&text(lang, "serve.not-reloaded", &[("file", &named)]), &[]);
                for problem in trouble.messages(lang) {
                    log.warn(&problem, &[]);
                }
                let problems = trouble.messages(Lang::En);
                let data = json!({ "file": file, "problems": problems });
                self.record("config_refused", EventStatus::Failed, data, log).await;
            }
        }
    }

    /// Before anything else is exchanged: a certificate that cannot be shown keeps the old configuration as a whole.
    fn reload_tls(&self) -> Result<(), Trouble> {
        match &self.tls {
            Some(tls) => tls.reload().map_err(|trouble| Trouble::Serve(ServeTrouble::Tls(trouble))),
            None => Ok(()),
        }
    }

    /// A configuration that can be obeyed as a whole.
    fn read(&self) -> Result<Config, Trouble> {
        let config = self.reread.read()?;
        let default = self.engine.default_policy().name.clone();
        if config.policy(&default).is_none() {
            return Err(Trouble::UnknownPolicy { written: default, known: config.policy_names() });
        }
        for rule in &config.auto_redrive {
            check_recovery_rule(rule).map_err(|why| {
                Trouble::from(EngineError::BadRecoveryRule { rule: rule.name.clone(), why })
            })?;
        }
        Ok(config)
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
