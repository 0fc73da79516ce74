//! Tokens: who may do what over the API. Never what they are known by.

use redrive::engine::{Scope, Token};
use redrive_store::Timestamp;
use serde::Serialize;

use super::block::{Column, Listing};
use super::moment::{coming, when};
use super::{Block, Page, Reader, Span, Tone};
use crate::text::{say, text};

/// A token, as it may be shown.
#[derive(Debug, Serialize)]
pub(crate) struct TokenItem {
    id: String,
    name: String,
    scopes: Vec<Scope>,
    queues: Vec<String>,
    /// Whether it still allows anything.
    holds: bool,
    created_at: Timestamp,
    created_by: String,
    expires_at: Option<Timestamp>,
    revoked_at: Option<Timestamp>,
    last_used_at: Option<Timestamp>,
}

impl TokenItem {
    pub(crate) fn new(token: Token, now: Timestamp) -> TokenItem {
        TokenItem {
            holds: token.holds(now),
            id: token.id,
            name: token.name,
            scopes: token.scopes,
            queues: token.queues,
            created_at: token.created_at,
            created_by: token.created_by,
            expires_at: token.expires_at,
            revoked_at: token.revoked_at,
            last_used_at: token.last_used_at,
        }
    }

    /// How it stands, in a word.
    fn state(&self, reader: Reader) -> Span {
        let (key, tone) = match (self.holds, self.revoked_at) {
            (true, _) => ("token.holds", Tone::Good),
            (false, Some(_)) => ("token.revoked", Tone::Bad),
            (false, None) => ("token.expired", Tone::Warn),
        };
        Span::new(say(reader.lang, key), tone)
    }
}

/// JSON: `redrive/tokens.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct TokensView {
    schema: &'static str,
    items: Vec<TokenItem>,
    #[serde(skip)]
    now: Timestamp,
}

impl TokensView {
    pub(crate) fn new(items: Vec<TokenItem>, now: Timestamp) -> TokensView {
        TokensView { schema: "redrive/tokens.v1", items, now }
    }
}

impl Page for TokensView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        if self.items.is_empty() {
            return vec![Block::Text(vec![Span::plain(say(lang, "token.none"))])];
        }
        let word = |key: &str| say(lang, &format!("token.{key}"));
        let columns = vec![
            Column::left("ID".to_owned()),
            Column::left(word("name")),
            Column::left(word("scopes")),
            Column::left(word("queues")).rank(1),
            Column::left(word("state")),
            Column::left(word("expires")).rank(2),
            Column::left(word("used")).rank(3),
        ];
        let at = |at: Option<Timestamp>| at.map_or_else(|| "-".to_owned(), |at| when(at, self.now, reader));
        let expires = |end: Option<Timestamp>| match end {
            Some(end) if end > self.now => coming(end, self.now, reader),
            past => at(past),
        };
        let row = |item: &TokenItem| {
            let scopes: Vec<&str> = item.scopes.iter().map(|scope| scope.name()).collect();
            let queues = if item.queues.is_empty() { "*".to_owned() } else { item.queues.join(" ") };
            vec![
                Span::new(item.id.clone(), Tone::Strong),
                Span::plain(item.name.clone()),
                Span::plain(scopes.join(" ")),
                Span::plain(queues),
                item.state(reader),
                Span::plain(expires(item.expires_at)),
                Span::plain(at(item.last_used_at)),
            ]
        };
        vec![Block::Listing(Listing { columns, rows: self.items.iter().map(row).collect() })]
    }
}

/// A token that was just made, with its text. JSON: `redrive/token_created.v1`.
#[derive(Serialize)]
pub(crate) struct TokenCreatedView {
    schema: &'static str,
    #[serde(flatten)]
    item: TokenItem,
    token: String,
}

impl TokenCreatedView {
    pub(crate) fn new(item: TokenItem, token: String) -> TokenCreatedView {
        TokenCreatedView { schema: "redrive/token_created.v1", item, token }
    }
}

impl Page for TokenCreatedView {
    fn blocks(&self, _reader: Reader) -> Vec<Block> {
        vec![Block::Text(vec![Span::plain(self.token.clone())])]
    }
}

/// A token that holds no more. JSON: `redrive/token_revoked.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct TokenRevokedView {
    schema: &'static str,
    #[serde(flatten)]
    item: TokenItem,
}

impl TokenRevokedView {
    pub(crate) fn new(item: TokenItem) -> TokenRevokedView {
        TokenRevokedView { schema: "redrive/token_revoked.v1", item }
    }
}

impl Page for TokenRevokedView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let values: [(&str, &dyn std::fmt::Display); 2] = [("id", &self.item.id), ("name", &self.item.name)];
        let line = text(reader.lang, "token.now-revoked", &values);
        vec![Block::Text(vec![Span::new(line, Tone::Good)])]
    }
}
