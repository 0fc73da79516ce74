//! The texts of queries, with the schema that the store lives in. The files name the default one.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// Where the tables are unless somebody says otherwise; what the files say.
pub(super) const DEFAULT_SCHEMA: &str = "redrive";

/// The text of a query, from the file named after it.
macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/postgres/sql/", $name, ".sql"))
    };
}
pub(super) use sql;

/// Texts for one schema.
#[derive(Debug)]
pub(super) struct Texts {
    schema: String,
    adapted: RefCell<HashMap<&'static str, Rc<str>>>,
}

impl Texts {
    pub(super) fn new(schema: &str) -> Texts {
        Texts { schema: schema.to_owned(), adapted: RefCell::default() }
    }

    pub(super) fn schema(&self) -> &str {
        &self.schema
    }

    /// The text of a file, for this schema.
    pub(super) fn of(&self, text: &'static str) -> Rc<str> {
        let mut adapted = self.adapted.borrow_mut();
        Rc::clone(adapted.entry(text).or_insert_with(|| adapt(text, &self.schema).into()))
    }
}

/// The same text for another schema. Nothing but our own names has the default schema's name before a dot.
pub(super) fn adapt(text: &str, schema: &str) -> String {
    if schema == DEFAULT_SCHEMA {
        return text.to_owned();
    }
    // In 'redrive.job_number', the name of a sequence in quotation marks, the same holds: "s".job_number is a name, too.
    text.replace("redrive.", &format!("{}.", quoted(schema)))
}

/// A name as SQL writes it, whatever is in it.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as the database can hold it: it has no NUL.
pub(super) fn storable(text: &str) -> String {
    text.replace('\0', "␀")
}
