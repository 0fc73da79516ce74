//! `idempotency`: keys by their number (`key-12`), by themselves, or by their beginning.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use redrive_store::KeyState;

use super::value::{self, BadValue};

/// The key that a person means, as it was written; what it stands for is found out in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyArg(pub(crate) String);

impl KeyArg {
    /// The number, where it is one: `key-12`.
    pub(crate) fn record(&self) -> Option<i64> {
        key_id(&self.0).ok()
    }
}

fn key(text: &str) -> Result<KeyArg, BadValue> {
    let text = text.trim();
    if text.is_empty() { Err(BadValue::KeyOrId) } else { Ok(KeyArg(text.to_owned())) }
}

fn key_id(text: &str) -> Result<i64, BadValue> {
    let digits = text.trim().strip_prefix("key-").ok_or(BadValue::KeyId)?;
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok()).flatten().ok_or(BadValue::KeyId)
}

fn state() -> impl TypedValueParser<Value = KeyState> {
    PossibleValuesParser::new(KeyState::ALL.map(KeyState::name)).map(|name| {
        let named = KeyState::ALL.into_iter().find(|state| state.name() == name);
        named.unwrap_or(KeyState::UnknownOutcome)
    })
}

/// Which keys to list. These flags stand behind `idempotency` as well as behind `idempotency list`.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct KeysArgs {
    #[arg(long, value_name = "STATE", value_parser = state())]
    pub(crate) state: Option<KeyState>,
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    #[arg(long, value_name = "N", value_parser = value::limit, allow_hyphen_values = true)]
    pub(crate) limit: Option<u32>,
    #[arg(long, value_name = "ID", value_parser = key_id)]
    pub(crate) after: Option<i64>,
}

impl KeysArgs {
    /// What was said here, or else there.
    pub(crate) fn or(self, other: KeysArgs) -> KeysArgs {
        KeysArgs {
            state: self.state.or(other.state),
            key: self.key.or(other.key),
            limit: self.limit.or(other.limit),
            after: self.after.or(other.after),
        }
    }
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum IdempotencyCommand {
    List(KeysArgs),
    Show {
        #[arg(value_name = "KEY|ID", value_parser = key)]
        key: KeyArg,
        #[arg(long)]
        body: bool,
    },
    Reset {
        #[arg(value_name = "KEY|ID", value_parser = key)]
        key: KeyArg,
        #[arg(long, value_name = "TEXT")]
        why: Option<String>,
        #[arg(long)]
        yes: bool,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-C1: a number is told from a key that only looks like one.
    #[test]
    fn numbers_are_told_from_keys() {
        for (text, record) in
            [("key-12", Some(12)), (" key-0 ", Some(0)), ("key-", None), ("key--1", None), ("12", None)]
        {
            assert_eq!(key(text).unwrap().record(), record, "{text}");
        }
        assert_eq!(key("  "), Err(BadValue::KeyOrId));
        assert_eq!(key_id("key-99999999999999999999"), Err(BadValue::KeyId));
    }
}
