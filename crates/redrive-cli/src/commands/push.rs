//! `push list|show|set|remove`: services that are called for jobs. What is typed here may lead to any address, as the configuration may;
//! what came over the API may not.

use std::ffi::OsStr;

use redrive::engine::{EngineError, PushSecret, PushWish};
use redrive_policy::Config;
use redrive_store::Origin;

use super::{act, opened, shown};
use crate::args::{PushCommand, PushSetArgs};
use crate::settings::Form;
use crate::text::text;
use crate::trouble::{PushTrouble, Trouble};
use crate::view::push::{PushItem, PushRemovedView, PushView, PushesView};
use crate::{Exit, Stage};

pub(super) fn run(command: Option<PushCommand>, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    match command.unwrap_or(PushCommand::List) {
        PushCommand::List => list(stage).and_then(|view| shown(&view, Exit::Done, stage)),
        PushCommand::Show { name, with_url } => {
            show(&name, with_url, stage).and_then(|view| shown(&view, Exit::Done, stage))
        }
        PushCommand::Set(args) => set(&args, stage),
        PushCommand::Remove { name, why } => {
            remove(name, why.as_deref(), stage).and_then(|view| shown(&view, Exit::Done, stage))
        }
    }
}

/// Those of the store, and those of the configuration that holds here. A name that both have is the configuration's.
fn list(stage: &mut Stage<'_>) -> Result<PushesView, Trouble> {
    let config = stage.settings.config()?;
    let stored = match opened::if_there(stage)? {
        Some(opened) => opened.runtime.block_on(opened.looker()?.push_endpoints())?,
        None => Vec::new(),
    };
    let mut items: Vec<PushItem> = stored
        .into_iter()
        .filter(|endpoint| !is_configured(&endpoint.name, &config))
        .map(|endpoint| PushItem::stored(endpoint, false))
        .chain(config.push.iter().map(|service| PushItem::configured(service, false)))
        .collect();
    items.sort_by(|one, other| one.name().cmp(other.name()));
    Ok(PushesView::new(items))
}

fn show(name: &str, with_url: bool, stage: &Stage<'_>) -> Result<PushView, Trouble> {
    let config = stage.settings.config()?;
    if let Some(service) = config.push.iter().find(|service| service.name == name) {
        return Ok(PushView::new(PushItem::configured(service, with_url), None));
    }
    let opened = opened::to_read(stage)?;
    let endpoint = opened.runtime.block_on(opened.looker()?.push_endpoint(name))?;
    let (name, store) = (name.to_owned(), opened.store.location());
    let endpoint = endpoint.ok_or(Trouble::Push(PushTrouble::Unknown { name, store }))?;
    Ok(PushView::new(PushItem::stored(endpoint, with_url), None))
}

/// Makes the store when there is none: a service may be named before there is work for it.
fn set(args: &PushSetArgs, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let name = args.name.clone();
    let config = stage.settings.config()?;
    let wish = wish(args, stage)?;
    let is_whole = wish.queue.is_some() && wish.url.is_some();
    let incomplete = |name: String| {
        let there = is_configured(&name, &config);
        Trouble::Push(if there { PushTrouble::Configured { name } } else { PushTrouble::Incomplete { name } })
    };
    // No store is made for what is refused.
    let opened = if is_whole {
        wish.check_new(&name)?;
        opened::to_write(stage)?
    } else {
        opened::to_read(stage).map_err(|trouble| match trouble {
            Trouble::NoStore { .. } => incomplete(name.clone()),
            other => other,
        })?
    };
    let engine = opened.looker()?;
    let is_new = opened.runtime.block_on(engine.push_endpoint(&name))?.is_none();
    if is_new && !is_whole {
        return Err(incomplete(name));
    }
    opened.runtime.block_on(engine.check_push_endpoint(&name, &wish))?;
    let act = match args {
        _ if is_new => "push.add",
        PushSetArgs { rotate: true, .. } => "push.rotate",
        PushSetArgs { enable: true, .. } => "push.enable",
        PushSetArgs { disable: true, .. } => "push.disable",
        _ => "push.change",
    };
    act::record(&opened, &engine, act, format!("push {name}"), args.why.as_deref(), stage)?;
    let (endpoint, made) = opened.runtime.block_on(engine.set_push_endpoint(&name, &wish))?;
    opened.wait(opened.store.close())?;
    let lang = stage.settings.lang;
    if is_configured(&name, &config) {
        stage.talk.note(&text(lang, "push.shadowed", &[("name", &name)]));
    }
    let item = PushItem::stored(endpoint, false);
    let Some(secret) = made else { return shown(&PushView::new(item, None), Exit::Done, stage) };
    if stage.settings.form == Form::Json {
        return shown(&PushView::new(item, Some(secret.reveal())), Exit::Done, stage);
    }
    let key = if is_new { "push.made" } else { "push.rotated" };
    let values: [(&str, &dyn std::fmt::Display); 3] =
        [("name", &name), ("url", &item.url()), ("queue", &item.queue())];
    stage.talk.note(&text(lang, key, &values));
    // Alone, so that it can be piped to where it is kept.
    let line = format!("{}\n", secret.reveal());
    stage.stdout.write_all(line.as_bytes()).and_then(|()| stage.stdout.flush()).map_err(Trouble::Output)?;
    Ok(Exit::Done)
}

fn remove(name: String, why: Option<&str>, stage: &Stage<'_>) -> Result<PushRemovedView, Trouble> {
    let config = stage.settings.config()?;
    let opened = opened::to_read(stage)?;
    let engine = opened.looker()?;
    if opened.runtime.block_on(engine.push_endpoint(&name))?.is_none() {
        return Err(Trouble::Push(if is_configured(&name, &config) {
            PushTrouble::Configured { name }
        } else {
            PushTrouble::Unknown { name, store: opened.store.location() }
        }));
    }
    act::record(&opened, &engine, "push.remove", format!("push {name}"), why, stage)?;
    let gone = engine.change_push_endpoint(&name, |_| Ok::<_, EngineError>(None));
    opened.runtime.block_on(gone)?;
    opened.wait(opened.store.close())?;
    Ok(PushRemovedView::new(name))
}

fn is_configured(name: &str, config: &Config) -> bool {
    config.push.iter().any(|service| service.name == name)
}

fn wish(args: &PushSetArgs, stage: &Stage<'_>) -> Result<PushWish, Trouble> {
    let secret = |variable: &String| {
        let value = stage.env.get(OsStr::new(variable)).and_then(|value| value.to_str());
        let unset = || Trouble::Push(PushTrouble::Secret { variable: variable.clone() });
        PushSecret::try_from(value.ok_or_else(unset)?.to_owned()).map_err(|_| unset())
    };
    let secrets: Vec<PushSecret> = args.secret_env.iter().map(secret).collect::<Result<_, _>>()?;
    let whole = |number: Option<u32>| number.map(|number| usize::try_from(number).unwrap_or(usize::MAX));
    Ok(PushWish {
        queue: args.queue.clone(),
        url: args.url.clone(),
        kinds: (args.all_kinds || !args.kind.is_empty()).then(|| args.kind.clone()),
        secrets: (!secrets.is_empty()).then_some(secrets),
        rotate: args.rotate,
        concurrency: whole(args.concurrency),
        batch: whole(args.batch),
        timeout: args.timeout,
        enabled: (args.enable || args.disable).then_some(args.enable),
        origin: Origin::Local,
    })
}
