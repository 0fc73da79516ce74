//! An object in a body that is read later, or not at all: nothing is built of it before its length is known.

use serde::de::{Deserialize, Deserializer, Error, Unexpected};
use serde_json::value::RawValue;

use crate::heavy::short_enough;
use crate::problem::Problem;

/// A JSON object as it was sent.
#[derive(Debug, Clone)]
pub(crate) struct Object(Box<str>);

impl Object {
    /// Its text, if that is not too long to be read for somebody else.
    pub(crate) fn text(&self, most: usize, field: &'static str) -> Result<&str, Problem> {
        short_enough(&self.0, most, field)?;
        Ok(&self.0)
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(read: D) -> Result<Object, D::Error> {
        let text = Box::<str>::from(Box::<RawValue>::deserialize(read)?);
        if text.starts_with('{') {
            return Ok(Object(text));
        }
        Err(D::Error::invalid_type(Unexpected::Other("another value"), &"a map"))
    }
}
