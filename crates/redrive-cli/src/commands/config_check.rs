//! `config check [FILE]` and `policy check FILE`: would this file load, and is anything odd in it?

use std::path::Path;

use redrive::engine::{PushEndpoint, check_recovery_rule};
use redrive_policy::{AutoRedrive, Config, Lang, PushConfig, UserRule};

use super::config::routes;
use super::serve::refuses::{Stumble, Weight, stumbles};
use crate::Stage;
use crate::settings::{format_of, read_config_text};
use crate::text::say;
use crate::trouble::Trouble;
use crate::view::config_check::{ConfigCheckView, ProblemView};

pub(super) fn run(file: Option<&Path>, stage: &mut Stage<'_>) -> Result<ConfigCheckView, Trouble> {
    let path = file.or_else(|| stage.settings.config_path()).ok_or(Trouble::NoConfig)?.to_owned();
    let lang = stage.settings.lang;
    let text = read_config_text(&stage.cwd.join(&path))
        .map_err(|source| Trouble::Unreadable { path: path.clone(), source })?;
    let name = path.display().to_string();
    if text.trim().is_empty() {
        stage.talk.note(&crate::text::text(lang, "note.empty-file", &[("file", &name)]));
    }
    let mut view = ConfigCheckView {
        schema: "redrive/config_check.v1",
        file: name.clone(),
        ok: true,
        problems: Vec::new(),
        warnings: Vec::new(),
        policies: Vec::new(),
        rules: Vec::new(),
        recovery_rules: Vec::new(),
        routes: Vec::new(),
        targets: Vec::new(),
        receivers: Vec::new(),
        push: Vec::new(),
    };
    match Config::parse_placed(&text, format_of(&path, &text), &name) {
        Ok(config) => {
            view.warnings = ProblemView::all(&config.warnings, lang);
            view.policies = config.policies.keys().cloned().collect();
            view.rules = config.rules.iter().map(UserRule::id).map(ToOwned::to_owned).collect();
            view.recovery_rules = config.auto_redrive.iter().map(|rule| rule.name.clone()).collect();
            view.routes = routes(&config).collect();
            view.targets = config.targets.named.keys().cloned().collect();
            view.receivers = config.alerts.receivers.iter().map(|receiver| receiver.name.clone()).collect();
            view.push = config.push.iter().map(|service| service.name.clone()).collect();
            view.problems = recovery_problems(&config, lang);
            view.problems.extend(push_problems(&config, lang));
            for Stumble { path, trouble, weight } in stumbles(&config, stage) {
                let what = trouble.messages(lang).join("; ");
                let allowed = trouble.hint(lang).unwrap_or_else(|| "-".to_owned());
                // The file may be meant for another machine.
                let everywhere = weight == Weight::Everywhere;
                let into = if everywhere { &mut view.problems } else { &mut view.warnings };
                into.push(ProblemView { path, line: None, what, allowed });
            }
            view.ok = view.problems.is_empty();
        }
        Err(error) => {
            view.ok = false;
            view.problems = ProblemView::all(&error.problems, lang);
        }
    }
    Ok(view)
}

/// Services that no server could call.
fn push_problems(config: &Config, lang: Lang) -> Vec<ProblemView> {
    let problem = |(at, service): (usize, &PushConfig)| {
        let usual = PushEndpoint::new(&service.name, &service.queue, &service.url).ok()?;
        let endpoint = PushEndpoint {
            kinds: service.kinds.clone(),
            concurrency: service.concurrency.unwrap_or(usual.concurrency),
            batch: service.batch.unwrap_or(usual.batch),
            timeout: service.timeout.unwrap_or(usual.timeout),
            ..usual
        };
        let bad = endpoint.check().err()?;
        // Whatever else may be wrong the shape of the file has found.
        let (what, allowed) = match bad.field {
            "kinds" => (say(lang, "config-check.push.kinds"), say(lang, "config-check.push.kinds-allowed")),
            _ => (bad.why, "-".to_owned()),
        };
        Some(ProblemView { path: format!("push[{at}].{}", bad.field), line: None, what, allowed })
    };
    config.push.iter().enumerate().filter_map(problem).collect()
}

/// Rules of automatic recovery that no worker could obey.
fn recovery_problems(config: &Config, lang: Lang) -> Vec<ProblemView> {
    let problem = |(at, rule): (usize, &AutoRedrive)| {
        let why = check_recovery_rule(rule).err()?;
        let (field, what, allowed) = crate::trouble::rule_in_words(&why, lang);
        Some(ProblemView { path: format!("auto_redrive[{at}].{field}"), line: None, what, allowed })
    };
    config.auto_redrive.iter().enumerate().filter_map(problem).collect()
}
