//! Help and usage errors in the user's language.
//!
//! clap knows the shape of the command line; every word it shows is put in here by key, and its errors are
//! said again in our words. Bare `redrive`, like a bare group such as `redrive policy`, shows its help and
//! exits 0.

use std::fmt::Write as _;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command};
use redrive_policy::{Lang, nearest};

use crate::args::{BadFilter, BadValue, GLOBAL_FLAGS, POLICY_FLAGS};

use crate::escape::pad;
use crate::render::style;
use crate::render::wrap::hang;
use crate::secret;
use crate::settings::Form;
use crate::text::{find, say, text};
use crate::trouble::Trouble;
use crate::view::Tone;
use crate::{Exit, Stage, render, topics};

/// The tree with every text in that language.
pub(crate) fn put_texts(tree: Command, lang: Lang) -> Command {
    put(tree, lang, "help")
}

fn put(command: Command, lang: Lang, path: &str) -> Command {
    let usage = say(lang, "help.headings.usage");
    let template = format!("{{about-with-newline}}\n{usage}: {{usage}}\n\n{{all-args}}{{after-help}}");
    let mut command = command
        .about(say(lang, &format!("{path}.about")))
        .long_about(None::<&str>)
        .help_template(template)
        .subcommand_help_heading(find(lang, "help.headings.commands").unwrap_or_default())
        .mut_args(|arg| put_arg(arg, lang, path))
        .mut_subcommands(|sub| {
            let path = format!("{path}.{}", sub.get_name());
            put(sub, lang, &path)
        });
    if let Some(examples) = find(lang, &format!("{path}.examples")) {
        command = command.after_help(format!("{}:\n{examples}", say(lang, "help.headings.examples")));
    }
    command
}

fn put_arg(arg: Arg, lang: Lang, path: &str) -> Arg {
    let id = arg.get_id().as_str().to_owned();
    let heading = match id.as_str() {
        id if GLOBAL_FLAGS.contains(&id) => "global",
        id if POLICY_FLAGS.contains(&id) => "policy",
        _ if arg.is_positional() => "arguments",
        _ => "options",
    };
    let takes_value = !matches!(
        arg.get_action(),
        ArgAction::SetTrue | ArgAction::Help | ArgAction::Version | ArgAction::Count
    );
    arg.help(arg_text(lang, path, &id).unwrap_or_default())
        .long_help(None::<&str>)
        .help_heading(find(lang, &format!("help.headings.{heading}")).unwrap_or_default())
        .hide_possible_values(takes_value)
        .hide_default_value(takes_value)
}

/// The text of a flag: the command's own, or the one that all commands share.
fn arg_text(lang: Lang, path: &str, id: &str) -> Option<&'static str> {
    find(lang, &format!("{path}.args.{id}")).or_else(|| find(lang, &format!("help.args.{id}")))
}

/// The help of the command under these names, and of the topic of that name.
pub(crate) fn show(names: &[String], stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let lang = stage.settings.lang;
    let topic = match names {
        [name] => topics::find(name, lang),
        _ => None,
    };
    let is_command =
        names.first().is_some_and(|name| crate::args::tree(lang).find_subcommand(name).is_some());
    match topic {
        Some(topic) if stage.settings.form == Form::Json || !is_command => {
            render::show(&topic, stage)?;
            Ok(Exit::Done)
        }
        Some(topic) => {
            usage_of(names, stage)?;
            stage.stdout.write_all(b"\n").map_err(Trouble::Output)?;
            render::show(&topic, stage)?;
            Ok(Exit::Done)
        }
        None => {
            usage_of(names, stage)?;
            if names.is_empty() {
                list_topics(stage)?;
            }
            Ok(Exit::Done)
        }
    }
}

/// The topics with their titles, as the commands stand in the help.
fn list_topics(stage: &mut Stage<'_>) -> Result<(), Trouble> {
    let lang = stage.settings.lang;
    let mut page = format!("\n{}:\n", say(lang, "help.headings.topics"));
    let widest = topics::all(lang).map(|(name, _)| name.len()).max().unwrap_or_default();
    for (name, title) in topics::all(lang) {
        let _ = writeln!(page, "  {}  {title}", pad(name, widest));
    }
    let _ = writeln!(page, "\n{}", say(lang, "help.topics"));
    write_help(&page, stage).map(|_| ())
}

/// What clap says of a command.
fn usage_of(names: &[String], stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let lang = stage.settings.lang;
    let mut tree = crate::args::tree(lang);
    tree.build();
    let mut command = &mut tree;
    for name in names {
        let commands = command.get_subcommands().filter(|sub| !sub.is_hide_set()).map(Command::get_name);
        let known: Vec<String> =
            commands.chain(topics::all(lang).map(|(name, _)| name)).map(ToOwned::to_owned).collect();
        command = command
            .find_subcommand_mut(name)
            .ok_or_else(|| Trouble::UnknownCommand { written: name.clone(), known })?;
    }
    let page = command.render_help().to_string();
    write_help(&page, stage)
}

fn write_help(page: &str, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let lang = stage.settings.lang;
    let headings: Vec<String> =
        ["usage", "commands", "arguments", "options", "policy", "global", "examples", "topics"]
            .iter()
            .map(|heading| format!("{}:", say(lang, &format!("help.headings.{heading}"))))
            .collect();
    let mut out = String::with_capacity(page.len() + 64);
    // What is piped on stays as it is; a terminal gets lines that fit.
    let columns = if stage.settings.form == Form::Rich { stage.settings.width } else { usize::MAX };
    let page = localised_usage(page, lang);
    for line in page.trim_end().lines().flat_map(|line| hang(line, columns)) {
        let heading = headings.iter().find(|heading| line.starts_with(heading.as_str()));
        match heading {
            Some(heading) if stage.settings.colour => {
                out.push_str(&style::paint(heading, Tone::Heading));
                out.push_str(&line[heading.len()..]);
            }
            _ => out.push_str(&line),
        }
        out.push('\n');
    }
    stage.stdout.write_all(out.as_bytes()).map_err(Trouble::Output)?;
    Ok(Exit::Done)
}

/// clap writes these two words itself.
fn localised_usage(page: &str, lang: Lang) -> String {
    page.replacen("[OPTIONS]", &say(lang, "help.usage.options"), 1).replacen(
        "[COMMAND]",
        &say(lang, "help.usage.command"),
        1,
    )
}

/// What to do when clap stopped: help and version are answers, everything else is a usage error.
pub(crate) fn stop(error: &clap::Error, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            write_help(&error.render().to_string(), stage)
        }
        ErrorKind::DisplayVersion => {
            writeln!(stage.stdout, "redrive {}", env!("CARGO_PKG_VERSION")).map_err(Trouble::Output)?;
            Ok(Exit::Done)
        }
        _ => Err(usage(error, stage.settings.lang)),
    }
}

/// clap's error in our words.
fn usage(error: &clap::Error, lang: Lang) -> Trouble {
    let source = std::error::Error::source(error);
    if let Some(bad) = source.and_then(|source| source.downcast_ref::<BadFilter>()) {
        return Trouble::Filter(bad.clone());
    }
    // A store's URL may have slipped into the wrong place; what is quoted shows no password.
    let context = |kind| error.get(kind).map(|value| secret::blanked(&first(value))).unwrap_or_default();
    let arg = context(ContextKind::InvalidArg);
    let value = context(ContextKind::InvalidValue);
    let suggested = |kind| {
        // clap guesses boldly, and sometimes several: what is nearest by our measure is suggested, if it is near at all.
        let names: Vec<String> = match error.get(kind) {
            Some(ContextValue::Strings(several)) => several.clone(),
            _ => vec![context(kind)],
        };
        let written = match kind {
            ContextKind::SuggestedSubcommand => context(ContextKind::InvalidSubcommand),
            _ => context(kind),
        };
        let near = nearest(&written, names.iter().map(String::as_str)).filter(|name| !name.is_empty());
        near.map(|name| text(lang, "usage.did-you-mean", &[("name", &name)]))
    };
    let see_help = || say(lang, "usage.see-help");
    let (message, hint) = match error.kind() {
        // `run ls` wants its command behind `--`.
        ErrorKind::UnknownArgument if !arg.starts_with('-') && takes_command(error) => (
            text(lang, "usage.unexpected", &[("arg", &arg)]),
            text(lang, "trouble.hint.dashes-before-command", &[("arg", &arg)]),
        ),
        ErrorKind::UnknownArgument => {
            let key = if arg.starts_with('-') { "usage.unknown-flag" } else { "usage.unexpected" };
            (
                text(lang, key, &[("arg", &arg)]),
                suggested(ContextKind::SuggestedArg).unwrap_or_else(|| {
                    if arg.starts_with('-') { say(lang, "usage.dashes") } else { see_help() }
                }),
            )
        }
        ErrorKind::InvalidSubcommand => (
            text(lang, "usage.unknown-command", &[("command", &context(ContextKind::InvalidSubcommand))]),
            suggested(ContextKind::SuggestedSubcommand).unwrap_or_else(see_help),
        ),
        ErrorKind::InvalidValue if value.is_empty() => {
            (text(lang, "usage.no-value", &[("arg", &arg)]), see_help())
        }
        ErrorKind::InvalidValue => {
            let names = error.get(ContextKind::ValidValue).map(all).unwrap_or_default();
            let allowed = text(lang, "allowed.one-of", &[("names", &names)]);
            (
                text(lang, "usage.bad-value", &[("arg", &arg), ("value", &value), ("allowed", &allowed)]),
                suggested(ContextKind::SuggestedValue).unwrap_or_else(see_help),
            )
        }
        ErrorKind::ValueValidation => {
            let bad = std::error::Error::source(error).and_then(|source| source.downcast_ref::<BadValue>());
            let allowed = bad.map(|bad| bad.allowed(lang)).unwrap_or_default();
            (
                text(lang, "usage.bad-value", &[("arg", &arg), ("value", &value), ("allowed", &allowed)]),
                bad.and_then(BadValue::meant)
                    .map_or_else(see_help, |name| text(lang, "usage.did-you-mean", &[("name", &name)])),
            )
        }
        ErrorKind::MissingRequiredArgument => {
            let missing = error.get(ContextKind::InvalidArg).map(all).unwrap_or_default();
            // Letters can be named in other ways, too, and whoever has typed nothing knows of none.
            let usage = error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
            let by_ids_alone = missing == "<ID>..." && usage.contains("redrive redrive");
            let missing = if by_ids_alone { "<ID>...|--group|--where|--all".to_owned() } else { missing };
            let missing = one_of(&missing, lang);
            (text(lang, "usage.missing", &[("arg", &missing)]), see_help())
        }
        ErrorKind::ArgumentConflict if arg == context(ContextKind::PriorArg) => {
            (text(lang, "usage.twice", &[("arg", &arg)]), see_help())
        }
        ErrorKind::ArgumentConflict => {
            let prior = error.get(ContextKind::PriorArg).map(all).unwrap_or_default();
            (text(lang, "usage.conflict", &[("arg", &arg), ("other", &prior)]), see_help())
        }
        ErrorKind::WrongNumberOfValues | ErrorKind::TooFewValues => {
            let count = |kind| error.get(kind).map(first).unwrap_or_default();
            let expected = count(ContextKind::ExpectedNumValues);
            let given = count(ContextKind::ActualNumValues);
            (text(lang, "usage.values", &[("arg", &arg), ("n", &expected), ("given", &given)]), see_help())
        }
        ErrorKind::InvalidUtf8 => (say(lang, "usage.not-utf8"), see_help()),
        _ => {
            let rendered = error.render().to_string();
            let line = rendered.lines().next().unwrap_or_default();
            (secret::blanked(line.trim_start_matches("error: ")), see_help())
        }
    };
    Trouble::Usage { message, hint: Some(hint) }
}

/// Whether the command that was used wrongly takes somebody else's command.
fn takes_command(error: &clap::Error) -> bool {
    error.get(ContextKind::Usage).is_some_and(|usage| usage.to_string().contains(" -- <CMD>"))
}

/// clap writes `<--http <METHOD> <URL>|--exec <CMD>...>` for what one of must be there; a person reads names.
fn one_of(missing: &str, lang: Lang) -> String {
    let inner =
        missing.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')).filter(|_| missing.contains('|'));
    let listed = inner.filter(|inner| inner.starts_with("--")).unwrap_or(missing);
    if !listed.split('|').any(|one| one.starts_with("--")) || !listed.contains('|') {
        return missing.to_owned();
    }
    let names: Vec<&str> = listed.split('|').map(|one| one.split(' ').next().unwrap_or(one)).collect();
    match names.split_last() {
        Some((last, rest)) => {
            text(lang, "usage.one-of-these", &[("names", &rest.join(", ")), ("last", last)])
        }
        None => missing.to_owned(),
    }
}

fn first(value: &ContextValue) -> String {
    match value {
        ContextValue::String(text) => bare(text),
        ContextValue::Strings(texts) => texts.first().map(|text| bare(text)).unwrap_or_default(),
        ContextValue::StyledStr(text) => text.to_string(),
        other => other.to_string(),
    }
}

/// clap writes `--count <N>`; the name of the flag says enough.
fn bare(text: &str) -> String {
    match text.split_once(" <") {
        Some((flag, rest)) if flag.starts_with("--") && rest.ends_with('>') => flag.to_owned(),
        _ => text.to_owned(),
    }
}

fn all(value: &ContextValue) -> String {
    match value {
        ContextValue::Strings(texts) => texts.iter().map(|text| bare(text)).collect::<Vec<_>>().join(", "),
        other => first(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(command: &Command, path: &str, lang: Lang, into: &mut Vec<String>) {
        if find(lang, &format!("{path}.about")).is_none() {
            into.push(format!("{lang}: {path}.about"));
        }
        for arg in command.get_arguments() {
            let id = arg.get_id().as_str();
            if arg_text(lang, path, id).is_none() {
                into.push(format!("{lang}: {path}.args.{id}"));
            }
        }
        for sub in command.get_subcommands() {
            missing(sub, &format!("{path}.{}", sub.get_name()), lang, into);
        }
    }

    /// R-C2: every command and every flag is explained in both languages.
    #[test]
    fn every_command_and_flag_has_its_help_in_both_languages() {
        let mut found = Vec::new();
        for lang in Lang::ALL {
            missing(&crate::args::tree(lang), "help", lang, &mut found);
        }
        assert_eq!(found, Vec::<String>::new());
    }

    /// Reliability (Security): whatever an operator does can be given a reason, which is kept.
    #[test]
    fn every_act_takes_a_reason() {
        let tree = crate::args::tree(Lang::En);
        for path in [
            "retry",
            "redrive",
            "purge",
            "dlq ack",
            "dlq resolve",
            "dlq reopen",
            "dlq edit",
            "dlq discard",
            "dlq purge",
            "dlq import",
            "queue pause",
            "queue resume",
            "targets limit",
            "targets reset",
            "escalations ack",
            "task resume",
            "task cancel",
            "idempotency reset",
            "token create",
            "token revoke",
            "alerts test",
            "alerts silence",
            "schedule add",
            "schedule remove",
            "schedule pause",
            "schedule resume",
            "schedule run",
            "push set",
            "push remove",
        ] {
            let command = path.split(' ').fold(&tree, |command, name| command.find_subcommand(name).unwrap());
            let takes = |arg: &clap::Arg| {
                arg.get_long() == Some("why")
                    || arg.get_all_aliases().is_some_and(|other| other.contains(&"why"))
            };
            assert!(command.get_arguments().any(takes), "redrive {path} takes no --why");
        }
    }

    #[test]
    fn the_tree_is_sound() {
        for lang in Lang::ALL {
            crate::args::tree(lang).debug_assert();
        }
    }
}
