//! Changes to JSON as other programs write them: a merge patch (RFC 7396) and a JSON patch (RFC 6902). What they do not
//! touch stays as it was written.
//!
//! A patch is bounded while it is applied, not afterwards: a `copy` of the whole into itself doubles it, and a few dozen of them
//! would fill any memory.

use std::collections::{HashMap, HashSet};

use redrive_store::MAX_PAYLOAD_BYTES;
use serde::Deserialize;
use serde_json::Value;

use super::document::{Document, is_key, key_of};

/// The most operations of a patch.
pub const MAX_OPERATIONS: usize = 1_000;
/// How deep a patch may make a payload nest: no reader is asked for more.
const MAX_DEPTH: usize = 64;
/// How much the copies of a patch may be long all together, also those that are replaced again.
const MAX_COPIED: usize = 8 * MAX_PAYLOAD_BYTES;

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
    /// There are too many operations.
    #[error("the patch has {count} operations; at most {MAX_OPERATIONS} are applied")]
    TooMany {
        /// How many.
        count: usize,
    },
    /// The payload would become too long.
    #[error("operation {operation}: the payload would have {bytes} bytes; it may have {MAX_PAYLOAD_BYTES}")]
    TooLarge {
        /// Which operation, from 0.
        operation: usize,
        /// How long.
        bytes: usize,
    },
    /// The payload would nest too deep.
    #[error("operation {operation}: the payload would nest deeper than {MAX_DEPTH} levels")]
    TooDeep {
        /// Which operation, from 0.
        operation: usize,
    },
    /// All its copies together are too much.
    #[error("operation {operation}: the copies of this patch are longer than {MAX_COPIED} bytes together")]
    TooMuchCopied {
        /// Which operation, from 0.
        operation: usize,
    },
}

/// How long a payload is while it is patched.
struct Growth {
    /// It has at most so many bytes.
    bytes: usize,
    /// So many were copied.
    copied: usize,
}

impl Growth {
    /// Counts what is about to be put there, before anything is built of it.
    fn comes(&mut self, operation: usize, what: &Document, target: &[String]) -> Result<(), PatchError> {
        let (bytes, depth) = what.extent();
        if target.len() + depth > MAX_DEPTH {
            return Err(PatchError::TooDeep { operation });
        }
        // Its key, quoted and escaped at the worst, a colon and a comma.
        let key = target.last().map_or(0, |key| key.len().saturating_mul(6) + 4);
        self.bytes = self.bytes.saturating_add(bytes).saturating_add(key);
        Ok(())
    }

    fn copies(&mut self, operation: usize, what: &Document) -> Result<(), PatchError> {
        self.copied = self.copied.saturating_add(what.extent().0);
        if self.copied > MAX_COPIED { Err(PatchError::TooMuchCopied { operation }) } else { Ok(()) }
    }

    /// Looks at what it has become. It is counted anew only where it may be too long: something may have gone for what came.
    fn fits(&mut self, operation: usize, document: &Document) -> Result<(), PatchError> {
        if self.bytes > MAX_PAYLOAD_BYTES {
            self.bytes = document.extent().0;
        }
        if self.bytes > MAX_PAYLOAD_BYTES {
            return Err(PatchError::TooLarge { operation, bytes: self.bytes });
        }
        Ok(())
    }
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
        // Where each member stands, the last of a name; looked for once, since both may have very many.
        let mut places: HashMap<String, usize> = HashMap::with_capacity(members.len());
        places.extend(members.iter().enumerate().map(|(place, (written, _))| (key_of(written), place)));
        let mut gone = HashSet::new();
        for (key, change) in changes {
            if change.is_null() {
                gone.insert(key.as_str());
                continue;
            }
            let place = places.get(key).copied().unwrap_or_else(|| {
                members.push((Value::from(key.as_str()).to_string(), Document::Scalar("null".to_owned())));
                members.len() - 1
            });
            members[place].1.merge(change);
        }
        if !gone.is_empty() {
            members.retain(|(written, _)| !gone.contains(key_of(written).as_str()));
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
        if operations.len() > MAX_OPERATIONS {
            return Err(PatchError::TooMany { count: operations.len() });
        }
        let mut document = self.clone();
        let mut growth = Growth { bytes: document.extent().0, copied: 0 };
        for (number, operation) in operations.iter().enumerate() {
            document.apply(number, operation, &mut growth)?;
            growth.fits(number, &document)?;
        }
        Ok(document)
    }

    fn apply(&mut self, operation: usize, what: &Operation, growth: &mut Growth) -> Result<(), PatchError> {
        let missing = |path: &str| PatchError::Missing { operation, path: path.to_owned() };
        let steps = |path: &str| {
            pointer(path).ok_or_else(|| PatchError::BadPointer { operation, path: path.to_owned() })
        };
        match what {
            Operation::Add { path, value } => {
                let (target, value) = (steps(path)?, Document::of_json(value));
                growth.comes(operation, &value, &target)?;
                self.put(&target, value).ok_or_else(|| missing(path))
            }
            Operation::Remove { path } => self.take(&steps(path)?).map(drop).ok_or_else(|| missing(path)),
            Operation::Replace { path, value } => {
                let (target, value) = (steps(path)?, Document::of_json(value));
                growth.comes(operation, &value, &target)?;
                *self.at(&target).ok_or_else(|| missing(path))? = value;
                Ok(())
            }
            Operation::Move { from, path } => {
                let (source, target) = (steps(from)?, steps(path)?);
                if target.len() > source.len() && target.starts_with(&source) {
                    return Err(PatchError::IntoItself { operation, path: path.clone() });
                }
                let value = self.take(&source).ok_or_else(|| missing(from))?;
                growth.comes(operation, &value, &target)?;
                self.put(&target, value).ok_or_else(|| missing(path))
            }
            Operation::Copy { from, path } => {
                let target = steps(path)?;
                let value = self.at(&steps(from)?).ok_or_else(|| missing(from))?;
                growth.copies(operation, value)?;
                growth.comes(operation, value, &target)?;
                let value = value.clone();
                self.put(&target, value).ok_or_else(|| missing(path))
            }
            Operation::Test { path, value } => {
                let found = self.at(&steps(path)?).ok_or_else(|| missing(path))?;
                growth.copies(operation, found)?;
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

    fn refused(document: &str, operations: &[Operation]) -> PatchError {
        Document::parse(document).unwrap().patched(operations).unwrap_err()
    }

    fn copy(from: &str, path: &str) -> Operation {
        Operation::Copy { from: from.to_owned(), path: path.to_owned() }
    }

    /// Issue 8, limits: each copy of the whole doubles it. What becomes too long is refused by the operation that makes it so, and
    /// nothing is built of those that follow: this patch would make 2^200 of one.
    #[test]
    fn a_patch_that_doubles_is_ended_by_the_operation_that_is_too_much() {
        let doubling: Vec<Operation> = (0..200).map(|n| copy("", &format!("/k{n}"))).collect();
        let error = refused(r#"{"x":1}"#, &doubling);
        let PatchError::TooLarge { operation, bytes } = error else { panic!("{error}") };
        assert!(operation < 20 && bytes < 3 * MAX_PAYLOAD_BYTES, "{operation} {bytes}");
    }

    /// Issue 8, limits: it does not nest deeper than anybody reads, neither by one level at a time nor by doubling.
    #[test]
    fn a_patch_does_not_nest_without_end() {
        let one_by_one = vec![copy("", "/a"); 900];
        assert_eq!(refused(r#"{"a":1}"#, &one_by_one), PatchError::TooDeep { operation: 63 });
        let doubling: Vec<Operation> = (0..17).map(|n| copy("", &"/a".repeat(1 << n))).collect();
        assert_eq!(refused(r#"{"a":1}"#, &doubling), PatchError::TooDeep { operation: 6 });
    }

    /// Issue 8, limits: also what takes the place of itself costs; neither many operations nor long copies go on for ever.
    #[test]
    fn a_patch_has_few_operations_and_copies_little() {
        let most = vec![copy("/a", "/b"); MAX_OPERATIONS];
        assert!(Document::parse(r#"{"a":1}"#).unwrap().patched(&most).is_ok());
        let more = vec![copy("/a", "/b"); MAX_OPERATIONS + 1];
        assert_eq!(refused(r#"{"a":1}"#, &more), PatchError::TooMany { count: MAX_OPERATIONS + 1 });
        let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(400 << 10));
        assert_eq!(refused(&long, &most), PatchError::TooMuchCopied { operation: 20 });
    }

    /// R-D8: what goes makes room for what comes: only what is left counts.
    #[test]
    fn what_was_taken_away_makes_room() {
        let long = Value::from("x".repeat(700 << 10));
        let mut operations = Vec::new();
        for _ in 0..20 {
            operations.push(Operation::Add { path: "/long".to_owned(), value: long.clone() });
            operations.push(Operation::Remove { path: "/long".to_owned() });
        }
        let patched = Document::parse(r#"{"a":1}"#).unwrap().patched(&operations).unwrap();
        assert_eq!(patched.compact(), r#"{"a":1}"#);
    }

    /// R-D8: of two members of one name the last counts, however their names are written; a merge of very many ends.
    #[test]
    fn members_are_found_by_what_their_names_say() {
        let mut document = Document::parse(r#"{"a":1,"\u0061":2,"b":3,"\u0062":4}"#).unwrap();
        document.merge(&json!({"a": 7, "b": null, "c": 9}));
        assert_eq!(document.compact(), r#"{"a":1,"\u0061":7,"c":9}"#);
        let many: serde_json::Map<String, Value> =
            (0..200_000).map(|n| (format!("k{n}"), Value::from(n))).collect();
        let mut document = Document::of_json(&Value::Object(many.clone()));
        document.merge(&Value::Object(many.clone()));
        assert_eq!(document.value(), Some(Value::Object(many)));
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
