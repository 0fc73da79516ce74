//! `config show` and `config schema`: what holds here, and what may be written into a file.

use redrive::redact;
use redrive_policy::{Config, UserRule, human_duration};

use super::config_parts::{Part, parts};
use crate::args::ColorChoice;
use crate::render::json;
use crate::settings::{Origin, Settings};
use crate::trouble::Trouble;
use crate::view::config::{ConfigView, SettingView};
use crate::{Exit, Stage};

pub(super) fn show(with_origin: bool, stage: &Stage<'_>) -> Result<ConfigView, Trouble> {
    let config = stage.settings.config()?;
    Ok(ConfigView {
        schema: "redrive/config.v1",
        file: stage.settings.config_path().map(|path| path.display().to_string()),
        settings: settings(&stage.settings, &config),
        policies: config.policies.keys().cloned().collect(),
        rules: config.rules.iter().map(UserRule::id).map(ToOwned::to_owned).collect(),
        with_origin,
    })
}

fn settings(settings: &Settings, config: &Config) -> Vec<SettingView> {
    let color = match settings.color_choice.value {
        ColorChoice::Auto => "auto",
        ColorChoice::Always => "always",
        ColorChoice::Never => "never",
    };
    // The parsed file no longer knows which of these it named; a value that differs from the built-in one
    // can only come from it.
    let from_file = |differs: bool| match settings.config_path() {
        Some(path) if differs => Origin::File(path.to_owned()),
        _ => Origin::BuiltIn,
    };
    let built_in = Config::default();
    let (recovery, usual) = (config.recovery, built_in.recovery);
    let (escalate, usually) = (&config.escalate, &built_in.escalate);
    let config_path = settings.config_path().map(|path| path.display().to_string());
    let (key_file, key_origin) = settings.key_source.shown();
    let mut shown = vec![
        SettingView::new("config", config_path, settings.config_origin().clone()),
        SettingView::store(&settings.store.value, settings.store.origin.clone()),
        SettingView::new("key_file", key_file, key_origin),
        SettingView::new("lang", settings.lang.name(), settings.lang_origin.clone()),
        SettingView::new("color", color, settings.color_choice.origin.clone()),
        SettingView::new("policy", settings.policy.value.clone(), settings.policy.origin.clone()),
        SettingView::new(
            "recovery.enable_snapshots",
            recovery.enable_snapshots,
            from_file(recovery.enable_snapshots != usual.enable_snapshots),
        ),
        SettingView::new(
            "recovery.snapshot_retention_hours",
            recovery.snapshot_retention_hours,
            from_file(recovery.snapshot_retention_hours != usual.snapshot_retention_hours),
        ),
        SettingView::new(
            "recovery.partial_commit_enabled",
            recovery.partial_commit_enabled,
            from_file(recovery.partial_commit_enabled != usual.partial_commit_enabled),
        ),
        SettingView::new(
            "escalate.notify_immediately",
            escalate.notify_immediately,
            from_file(escalate.notify_immediately != usually.notify_immediately),
        ),
        SettingView::new(
            "escalate.include_trace_link",
            escalate.include_trace_link,
            from_file(escalate.include_trace_link != usually.include_trace_link),
        ),
        SettingView::new(
            "escalate.max_message_length",
            escalate.max_message_length,
            from_file(escalate.max_message_length != usually.max_message_length),
        ),
    ];
    for Part { name, value, is_said } in parts(config) {
        shown.push(SettingView::new(name, value, from_file(is_said)));
    }
    let only_from_file = only_from_file(config).into_iter();
    shown.extend(only_from_file.map(|(name, value)| SettingView::new(name, value, from_file(true))));
    shown
}

/// The requests that the file guards, as they are written for people.
pub(super) fn routes(config: &Config) -> impl Iterator<Item = String> {
    config.idempotency.iter().flat_map(|guarded| &guarded.routes).map(|route| {
        let methods =
            if route.methods.is_empty() { "POST, PATCH".to_owned() } else { route.methods.join(", ") };
        format!("{methods} {}", route.path)
    })
}

/// What is shown only where the file says it: each guarded route, and what the proxy is told.
fn only_from_file(config: &Config) -> Vec<(&'static str, String)> {
    let routes = routes(config).map(|route| ("idempotency.route", route));
    let proxy = &config.proxy;
    let duration = |given: Option<std::time::Duration>| given.map(human_duration);
    let told = [
        ("proxy.upstream", proxy.upstream.as_deref().map(redact)),
        ("proxy.listen", proxy.listen.clone()),
        ("proxy.admin", proxy.admin.clone()),
        ("proxy.policy", proxy.policy.clone()),
        ("proxy.connect_timeout", duration(proxy.connect_timeout)),
        ("proxy.upstream_timeout", duration(proxy.upstream_timeout)),
        ("proxy.client_timeout", duration(proxy.client_timeout)),
        ("proxy.drain_for", duration(proxy.drain_for)),
        ("proxy.max_connections", proxy.max_connections.map(|most| most.to_string())),
    ];
    routes.chain(told.into_iter().filter_map(|(name, value)| Some((name, value?)))).collect()
}

/// A schema is JSON in every form.
pub(super) fn schema(stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let pretty = stage.settings.form != crate::settings::Form::Json || stage.settings.stdout_is_terminal;
    json::write(&Config::schema(), stage.stdout, pretty).map_err(|error| Trouble::Output(error.into()))?;
    stage.stdout.write_all(b"\n").map_err(Trouble::Output)?;
    Ok(Exit::Done)
}
