//! Changes to JSON as other programs write them: a merge patch (RFC 7396) and a JSON patch (RFC 6902). What they do not
//! touch stays as it was written.

use serde::Deserialize;
use serde_json::Value;

use super::document::{Document, is_key};

/// One operation of a JSON patch.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum Operation {
    /// Puts a value there; in a list, before what stands there.
    Add {
        /// Where.
        path: String,
        /// What.
        value: Value,
    },
    /// Takes away what is there.
    Remove {
        /// Where.
        path: String,
    },
    /// Puts a value in the place of another.
    Replace {
        /// Where.
        path: String,
        /// What.
        value: Value,
    },
    /// Takes a value from one place to another.
    Move {
        /// From where.
        from: String,
        /// To where.
        path: String,
    },
    /// The same, and it stays where it was, too.
    Copy {
        /// From where.
        from: String,
        /// To where.
        path: String,
    },
    /// Nothing is done unless this stands there.
    Test {
        /// Where.
        path: String,
        /// What.
        value: Value,
    },
}

/// Why a patch cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// A place is not written as one.
    #[error("operation {operation}: {path:?} is no JSON pointer; it begins with / or is empty")]
    BadPointer {
        /// Which operation, from 0.
        operation: usize,
        /// What was written.
        path: String,
    },
    /// There is nothing at a place.
    #[error("operation {operation}: there is nothing at {path:?}")]
    Missing {
        /// Which operation, from 0.
        operation: usize,
        /// Where.
        path: String,
    },
    /// Something else than was expected stands there.
    #[error("operation {operation}: something else stands at {path:?}")]
    Differs {
        /// Which operation, from 0.
        operation: usize,
        /// Where.
        path: String,
    },
    /// A value would be moved into itself.
    #[error("operation {operation}: {path:?} lies in what is moved")]
    IntoItself {
        /// Which operation, from 0.
        operation: usize,
        /// Where.
        path: String,
    },
}

impl Document {
    /// What a merge patch makes of it: members are replaced, those that are null go, everything else stays.
    ///
    /// ```
    /// use redrive::payload::Document;
    ///
    /// let mut document = Document::parse(r#"{"to": "a@example", "n": 1.0, "x": 1}"#).unwrap();
    /// document.merge(&serde_json::json!({"to": "b@example", "x": null}));
    /// assert_eq!(document.compact(), r#"{"to":"b@example","n":1.0}"#);
    /// ```
    pub fn merge(&mut self, patch: &Value) {
        let Value::Object(changes) = patch else {
            *self = Document::of_json(patch);
            return;
        };
        if !matches!(self, Document::Object(_)) {
            *self = Document::Object(Vec::new());
        }
        let Document::Object(members) = self else { return };
        for (key, change) in changes {
            if change.is_null() {
                members.retain(|(written, _)| !is_key(written, key));
                continue;
            }
            let place = members.iter().rposition(|(written, _)| is_key(written, key));
            let place = place.unwrap_or_else(|| {
                members.push((Value::from(key.as_str()).to_string(), Document::Scalar("null".to_owned())));
                members.len() - 1
            });
            members[place].1.merge(change);
        }
    }

    /// What a JSON patch makes of it; as it was, when one operation cannot be done.
    ///
    /// ```
    /// use redrive::payload::{Document, Operation};
    ///
    /// let document = Document::parse(r#"{"to":["a"]}"#).unwrap();
    /// let patch: Vec<Operation> = serde_json::from_str(r#"[{"op":"add","path":"/to/-","value":"b"}]"#).unwrap();
    /// assert_eq!(document.patched(&patch).unwrap().compact(), r#"{"to":["a","b"]}"#);
    /// ```
    pub fn patched(&self, operations: &[Operation]) -> Result<Document, PatchError> {
        let mut document = self.clone();
        for (number, operation) in operations.iter().enumerate() {
            document.apply(number, operation)?;
        }
        Ok(document)
    }

    fn apply(&mut self, operation: usize, what: &Operation) -> Result<(), PatchError> {
        let missing = |path: &str| PatchError::Missing { operation, path: path.to_owned() };
        let steps = |path: &str| {
            pointer(path).ok_or_else(|| PatchError::BadPointer { operation, path: path.to_owned() })
        };
        match what {
            Operation::Add { path, value } => {
                self.put(&steps(path)?, Document::of_json(value)).ok_or_else(|| missing(path))
            }
            Operation::Remove { path } => self.take(&steps(path)?).map(drop).ok_or_else(|| missing(path)),
            Operation::Replace { path, value } => {
                *self.at(&steps(path)?).ok_or_else(|| missing(path))? = Document::of_json(value);
                Ok(())
            }
            Operation::Move { from, path } => {
                let (source, target) = (steps(from)?, steps(path)?);
                if target.len() > source.len() && target.starts_with(&source) {
                    return Err(PatchError::IntoItself { operation, path: path.clone() });
                }
                let value = self.take(&source).ok_or_else(|| missing(from))?;
                self.put(&target, value).ok_or_else(|| missing(path))
            }
            Operation::Copy { from, path } => {
                let value = self.at(&steps(from)?).ok_or_else(|| missing(from))?.clone();
                self.put(&steps(path)?, value).ok_or_else(|| missing(path))
            }
            Operation::Test { path, value } => {
                let found = self.at(&steps(path)?).ok_or_else(|| missing(path))?;
                if found.value().as_ref() == Some(value) {
                    return Ok(());
                }
                Err(PatchError::Differs { operation, path: path.clone() })
            }
        }
    }

    /// What stands at a place.
    fn at(&mut self, steps: &[String]) -> Option<&mut Document> {
        steps.iter().try_fold(self, |here, step| match here {
            Document::Object(members) => {
                members.iter_mut().rfind(|(written, _)| is_key(written, step)).map(|(_, value)| value)
            }
            Document::Array(items) => items.get_mut(index(step)?),
            Document::Scalar(_) => None,
        })
    }

    fn put(&mut self, steps: &[String], value: Document) -> Option<()> {
        let Some((last, way)) = steps.split_last() else {
            *self = value;
            return Some(());
        };
        match self.at(way)? {
            Document::Object(members) => match members.iter_mut().rfind(|(written, _)| is_key(written, last))
            {
                Some((_, place)) => *place = value,
                None => members.push((Value::from(last.as_str()).to_string(), value)),
            },
            Document::Array(items) => {
                let place = if last == "-" { items.len() } else { index(last)? };
                if place > items.len() {
                    return None;
                }
                items.insert(place, value);
            }
            Document::Scalar(_) => return None,
        }
        Some(())
    }

    fn take(&mut self, steps: &[String]) -> Option<Document> {
        let Some((last, way)) = steps.split_last() else {
            return Some(std::mem::replace(self, Document::Scalar("null".to_owned())));
        };
        match self.at(way)? {
            Document::Object(members) => {
                let place = members.iter().rposition(|(written, _)| is_key(written, last))?;
                Some(members.remove(place).1)
            }
            Document::Array(items) => {
                let place = index(last).filter(|place| *place < items.len())?;
                Some(items.remove(place))
            }
            Document::Scalar(_) => None,
        }
    }
}

/// The steps of a JSON pointer (RFC 6901).
fn pointer(path: &str) -> Option<Vec<String>> {
    if path.is_empty() {
        return Some(Vec::new());
    }
    let step = |step: &str| step.replace("~1", "/").replace("~0", "~");
    Some(path.strip_prefix('/')?.split('/').map(step).collect())
}

/// A place in a list: digits without a zero before them.
fn index(step: &str) -> Option<usize> {
    let plain = step.bytes().all(|byte| byte.is_ascii_digit()) && (step == "0" || !step.starts_with('0'));
    if plain { step.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(document: &str, patch: Value, expected: Result<&str, &str>) {
        let operations: Vec<Operation> = serde_json::from_value(patch).unwrap();
        let patched = Document::parse(document).unwrap().patched(&operations);
        let told = patched.map(|patched| patched.compact()).map_err(|error| error.to_string());
        assert_eq!(told.as_deref().map_err(String::as_str), expected, "{operations:?}");
    }

    /// R-D8: a JSON patch does what it says, and keeps the digits and the order of the rest.
    #[test]
    fn a_json_patch_is_applied_as_a_whole_or_not_at_all() {
        let document = r#"{"b": 1.00, "a": [1, {"x/y": 2}], "~": null}"#;
        check(
            document,
            json!([{"op":"replace","path":"/a/0","value":7}]),
            Ok(r#"{"b":1.00,"a":[7,{"x/y":2}],"~":null}"#),
        );
        check(
            document,
            json!([{"op":"remove","path":"/~0"}, {"op":"move","from":"/a/1/x~1y","path":"/c"}]),
            Ok(r#"{"b":1.00,"a":[1,{}],"c":2}"#),
        );
        check(
            document,
            json!([{"op":"test","path":"/b","value":1.0}, {"op":"copy","from":"/b","path":"/a/-"}]),
            Ok(r#"{"b":1.00,"a":[1,{"x/y":2},1.00],"~":null}"#),
        );
        check(document, json!([{"op":"add","path":"","value":[]}]), Ok("[]"));
        check(
            document,
            json!([{"op":"remove","path":"/nope"}]),
            Err(r#"operation 0: there is nothing at "/nope""#),
        );
        check(
            document,
            json!([{"op":"test","path":"/b","value":2}]),
            Err(r#"operation 0: something else stands at "/b""#),
        );
        check(
            document,
            json!([{"op":"add","path":"/a/01","value":2}]),
            Err(r#"operation 0: there is nothing at "/a/01""#),
        );
        check(
            document,
            json!([{"op":"move","from":"/a","path":"/a/0"}]),
            Err(r#"operation 0: "/a/0" lies in what is moved"#),
        );
        let bad = r#"operation 0: "b" is no JSON pointer; it begins with / or is empty"#;
        check(document, json!([{"op":"remove","path":"b"}]), Err(bad));
    }

    /// R-D8: the examples of a merge patch: members come, change and go, and lists are replaced.
    #[test]
    fn a_merge_patch_changes_what_it_names() {
        for (document, patch, expected) in [
            (r#"{"a":"b"}"#, json!({"a":"c"}), r#"{"a":"c"}"#),
            (r#"{"a":"b","b":1}"#, json!({"a":null}), r#"{"b":1}"#),
            (r#"{"a":[{"b":"c"}]}"#, json!({"a":[1]}), r#"{"a":[1]}"#),
            (r#"{"a":"b"}"#, json!(["c"]), r#"["c"]"#),
            ("[1]", json!({"a":{"b":null,"c":1}}), r#"{"a":{"c":1}}"#),
            (r#"{"a":{"b":{"c":1.0}}}"#, json!({"a":{"d":2}}), r#"{"a":{"b":{"c":1.0},"d":2}}"#),
        ] {
            let mut merged = Document::parse(document).unwrap();
            merged.merge(&patch);
            assert_eq!(merged.compact(), expected, "{document} {patch}");
        }
    }
}
