//! `token create NAME --scope …`, `token list`, `token revoke ID`: who may do what over the API.

use redrive::engine::NewToken;

use super::act::who;
use super::{opened, shown};
use crate::args::{TokenCommand, TokenCreateArgs};
use crate::settings::Form;
use crate::text::{say, text};
use crate::trouble::{DeskTrouble, Trouble};
use crate::view::token::{TokenCreatedView, TokenItem, TokenRevokedView, TokensView};
use crate::{Exit, Stage};

pub(super) fn run(command: Option<TokenCommand>, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    match command.unwrap_or(TokenCommand::List) {
        TokenCommand::Create(args) => create(args, stage),
        TokenCommand::List => list(stage).and_then(|view| shown(&view, Exit::Done, stage)),
        TokenCommand::Revoke { id, why } => {
            revoke(id, why, stage).and_then(|view| shown(&view, Exit::Done, stage))
        }
    }
}

/// Makes the store when there is none: a server that listens beyond this machine wants a token first.
fn create(args: TokenCreateArgs, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let opened = opened::to_write(stage)?;
    let engine = opened.looker()?;
    let TokenCreateArgs { name, scope, queue, expires, why } = args;
    let expires_at = expires.map(|length| opened.now.after(length));
    let first = !opened.runtime.block_on(engine.has_tokens())?;
    let new = NewToken { name, scopes: scope, queues: queue, expires_at };
    let (token, secret) = opened.runtime.block_on(engine.create_token(new, &who(stage), why))?;
    opened.wait(opened.store.close())?;
    let lang = stage.settings.lang;
    let scopes: Vec<&str> = token.scopes.iter().map(|scope| scope.name()).collect();
    let values: [(&str, &dyn std::fmt::Display); 3] =
        [("id", &token.id), ("name", &token.name), ("scopes", &scopes.join(", "))];
    stage.talk.note(&text(lang, "token.created", &values));
    // Whoever makes it for others shuts the door for everybody else: a program is told that, too.
    if first {
        stage.talk.note(&say(lang, "token.first"));
    }
    if stage.settings.form == Form::Json {
        let view = TokenCreatedView::new(TokenItem::new(token, opened.now), secret.reveal().to_owned());
        return shown(&view, Exit::Done, stage);
    }
    // Alone, so that it can be piped to where it is kept.
    let line = format!("{}\n", secret.reveal());
    stage.stdout.write_all(line.as_bytes()).and_then(|()| stage.stdout.flush()).map_err(Trouble::Output)?;
    Ok(Exit::Done)
}

fn list(stage: &mut Stage<'_>) -> Result<TokensView, Trouble> {
    let now = redrive_store::Timestamp::from_system(stage.now);
    let Some(opened) = opened::if_there(stage)? else { return Ok(TokensView::new(Vec::new(), now)) };
    let tokens = opened.runtime.block_on(opened.looker()?.tokens())?;
    Ok(TokensView::new(tokens.into_iter().map(|token| TokenItem::new(token, now)).collect(), now))
}

fn revoke(id: String, why: Option<String>, stage: &Stage<'_>) -> Result<TokenRevokedView, Trouble> {
    let opened = opened::to_read(stage)?;
    let engine = opened.looker()?;
    let revoked = opened.runtime.block_on(engine.revoke_token(&id, &who(stage), why))?;
    let Some(token) = revoked else {
        return Err(Trouble::Desk(DeskTrouble::NoToken { id, store: opened.store.location() }));
    };
    opened.wait(opened.store.close())?;
    Ok(TokenRevokedView::new(TokenItem::new(token, opened.now)))
}
