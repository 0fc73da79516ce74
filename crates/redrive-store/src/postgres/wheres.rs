//! The conditions of a query with a filter. Their texts are ours; what people say goes in as values only.

use std::rc::Rc;

use tokio_postgres::types::{ToSql, Type};

use super::line::{Arg, Typed};
use super::texts::adapt;

#[derive(Default)]
pub(super) struct Wheres {
    texts: Vec<String>,
    values: Vec<(Rc<dyn ToSql + Sync>, Type)>,
}

impl Wheres {
    /// One more condition, without a value.
    pub(super) fn must(&mut self, text: &str) {
        self.texts.push(text.to_owned());
    }

    /// One more condition; its value goes where it says `{}`.
    pub(super) fn must_with<T: Typed + 'static>(&mut self, text: &str, value: T) {
        let at = self.value(value);
        self.texts.push(text.replace("{}", &format!("${at}")));
    }

    /// One more value, without a condition; answers its number.
    pub(super) fn value<T: Typed + 'static>(&mut self, value: T) -> usize {
        self.values.push((Rc::new(value), T::TYPE));
        self.values.len()
    }

    /// The same conditions, to which more are added.
    pub(super) fn share(&self) -> Wheres {
        Wheres { texts: self.texts.clone(), values: self.values.clone() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// One more condition about a text. No text of ours has a NUL in it, so nothing is like one that has.
    pub(super) fn must_be(&mut self, text: &str, value: &str) {
        if value.contains('\0') {
            self.must("false");
        } else {
            self.must_with(text, value.to_owned());
        }
    }

    /// The whole query for this schema: `before`, the conditions, `behind`.
    pub(super) fn query(&self, schema: &str, before: &str, behind: &str) -> String {
        let conditions = if self.texts.is_empty() {
            String::new()
        } else {
            format!(" WHERE {}", self.texts.join(" AND "))
        };
        adapt(&format!("{}{conditions} {behind}", before.trim_end()), schema)
    }

    /// The values, in their order.
    pub(super) fn args(&self) -> Vec<Arg<'_>> {
        self.values.iter().map(|(value, of)| (&**value, of.clone())).collect()
    }
}
