//! The conditions of a query with a filter. Their texts are ours; what people say goes in as values only.

use rusqlite::types::Value;

#[derive(Default)]
pub(super) struct Wheres {
    texts: Vec<String>,
    values: Vec<Value>,
}

impl Wheres {
    /// One more condition, with a value for each of its question marks.
    pub(super) fn must(&mut self, text: &str, values: impl IntoIterator<Item = Value>) {
        self.texts.push(text.to_owned());
        self.values.extend(values);
    }

    /// One of these values.
    pub(super) fn one_of(&mut self, column: &str, values: impl ExactSizeIterator<Item = Value>) {
        let marks = vec!["?"; values.len()].join(", ");
        self.must(&format!("{column} IN ({marks})"), values);
    }

    /// The text that follows the table, and the values in it.
    pub(super) fn finish(self) -> (String, Vec<Value>) {
        let text = if self.texts.is_empty() {
            String::new()
        } else {
            format!(" WHERE {}", self.texts.join(" AND "))
        };
        (text, self.values)
    }
}
