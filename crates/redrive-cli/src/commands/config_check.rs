//! `config check [FILE]` and `policy check FILE`: would this file load, and is anything odd in it?

use std::path::Path;

use redrive::engine::check_recovery_rule;
use redrive_policy::{AutoRedrive, Config, Lang, UserRule};

use super::config::routes;
use crate::Stage;
use crate::settings::{format_of, read_config_text};
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
    };
    match Config::parse(&text, format_of(&path, &text), &name) {
        Ok(config) => {
            view.warnings = ProblemView::all(&config.warnings, lang);
            view.policies = config.policies.keys().cloned().collect();
            view.rules = config.rules.iter().map(UserRule::id).map(ToOwned::to_owned).collect();
            view.recovery_rules = config.auto_redrive.iter().map(|rule| rule.name.clone()).collect();
            view.routes = routes(&config).collect();
            view.problems = recovery_problems(&config, lang);
            view.ok = view.problems.is_empty();
        }
        Err(error) => {
            view.ok = false;
            view.problems = ProblemView::all(&error.problems, lang);
        }
    }
    Ok(view)
}

/// Rules of automatic recovery that no worker could obey.
fn recovery_problems(config: &Config, lang: Lang) -> Vec<ProblemView> {
    let problem = |(at, rule): (usize, &AutoRedrive)| {
        let why = check_recovery_rule(rule).err()?;
        let (field, what, allowed) = crate::trouble::rule_in_words(&why, lang);
        Some(ProblemView { path: format!("auto_redrive[{at}].{field}"), what, allowed })
    };
    config.auto_redrive.iter().enumerate().filter_map(problem).collect()
}
