//! Mending a letter: its payload replaced as a whole or in places, the one before kept, and what changed told (R-D8).

use axum::Json;
use axum::extract::State;
use redrive::engine::check_payload;
use redrive::payload::{Document, Hunk, MAX_OPERATIONS, Operation, PatchError, changes, readable};
use redrive_store::{DeadLetter, Edited as Outcome, MAX_PAYLOAD_BYTES, NewJob, Origin, Redriven};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Server;
use crate::act::act;
use crate::api::jobs::check_origin;
use crate::body::Body;
use crate::caller::{Caller, Scope};
use crate::heavy::heavy;
use crate::path::Path;
use crate::problem::{Code, Problem};
use crate::reach;
use crate::route::Route;
use crate::shape;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post(
            "/v1/dead-letters/{id}/edit",
            Scope::Operate,
            "edit_dead_letter",
            "Mends the payload of a letter; the one before is kept. In places (merge, patch) only with the scope read:payload.",
            edit,
        )
        .takes::<Edit>()
        .answers::<Edited>(200, "What changed.")
        .problems(&[Code::NotFound, Code::Conflict]),
    ]
}

/// How a payload is mended: exactly one of `payload`, `text`, `merge` and `patch`. The last two keep what is not seen here, and need
/// the scope `read:payload` as well.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Edit {
    /// The new payload.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "shape::Json")]
    payload: Option<Value>,
    /// The new payload byte for byte, for what is no JSON or must keep its digits.
    text: Option<String>,
    /// A merge patch (RFC 7396).
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "shape::Json")]
    merge: Option<Value>,
    /// A JSON patch (RFC 6902).
    #[schemars(with = "Option<Vec<PatchOperation>>", length(max = 1000))]
    patch: Option<Vec<Operation>>,
    /// How often it had been edited when the payload was seen: `payload_version`. Was it edited since, nothing is done.
    seen_version: Option<u32>,
    /// Puts the letter back as well.
    #[serde(default)]
    redrive: bool,
    /// Changes nothing, and tells what would change.
    #[serde(default)]
    dry_run: bool,
    /// Why, for the record.
    why: Option<String>,
}

/// Also null is a value.
fn given<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// What an operation of a JSON patch looks like.
struct PatchOperation;

impl JsonSchema for PatchOperation {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PatchOperation".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let pointer = || json_schema!({ "type": "string", "pattern": "^(/.*)?$" });
        let with = |names: &[&str], needed: &str| {
            let mut members = serde_json::Map::new();
            members.insert("op".into(), serde_json::json!({ "enum": names }));
            members.insert("path".into(), pointer().to_value());
            let is = if needed == "from" { pointer().to_value() } else { Value::Bool(true) };
            let mut required = vec!["op", "path"];
            if !needed.is_empty() {
                members.insert(needed.to_owned(), is);
                required.push(needed);
            }
            serde_json::json!({ "type": "object", "properties": members, "required": required })
        };
        json_schema!({ "oneOf": [
            with(&["add", "replace", "test"], "value"),
            with(&["remove"], ""),
            with(&["move", "copy"], "from"),
        ] })
    }
}

/// What became of an edit.
#[derive(Debug, Serialize, JsonSchema)]
struct Edited {
    /// The letter.
    id: String,
    /// Whether the payload is another one, or would be. What would be is told to tokens that may see payloads.
    #[serde(skip_serializing_if = "Option::is_none")]
    changed: Option<bool>,
    /// Whether nothing was done, only told.
    dry_run: bool,
    /// The number under which the payload before is kept.
    version: Option<u32>,
    /// How often the payload has been edited now: the next `seen_version`.
    payload_version: u32,
    /// The lines that changed, for tokens that may see payloads.
    diff: Option<Vec<Changed>>,
    /// What became of putting it back, if that was asked for: `redriven`, `duplicate` or `not_dead`.
    redrive: Option<&'static str>,
}

/// Lines that changed in one place.
#[derive(Debug, Serialize, JsonSchema)]
struct Changed {
    /// Where, as patches write it: `@@ -3,2 +3 @@`.
    at: String,
    /// What went.
    removed: Vec<String>,
    /// What came.
    added: Vec<String>,
}

impl From<Hunk> for Changed {
    fn from(hunk: Hunk) -> Changed {
        let at = hunk.heading();
        let (removed, added): (Vec<_>, Vec<_>) =
            hunk.lines.into_iter().partition(|(change, _)| *change == redrive::payload::Change::Removed);
        let lines = |lines: Vec<(redrive::payload::Change, String)>| {
            lines.into_iter().map(|(_, line)| line).collect()
        };
        Changed { at, removed: lines(removed), added: lines(added) }
    }
}

async fn edit(
    State(server): State<Server>,
    caller: Caller,
    Path(id): Path<String>,
    Body(wish): Body<Edit>,
) -> Result<Json<Edited>, Problem> {
    // What is kept of a payload is sent to whom the rest of it names, and its places can be asked for one by one: whoever changes it in
    // places reads it (ADR 0055).
    super::may_show(&caller, wish.merge.is_some() || wish.patch.is_some())?;
    let letter = caller.letter(&server, reach::id(&id)?).await?;
    let engine = server.engine();
    let edits = engine.payload_versions(letter.id).await?.len();
    let edits = u32::try_from(edits).unwrap_or(u32::MAX);
    let meanwhile =
        |edits: u32| Problem::new(Code::Conflict, "letters.edited").with("version", edits).at("seen_version");
    if wish.seen_version.is_some_and(|seen| seen != edits) {
        return Err(meanwhile(edits));
    }
    let (wish, letter, new) = heavy(move || {
        let new = new_payload(&wish, &letter);
        (wish, letter, new)
    })
    .await?;
    let new = new?;
    check(&server, &letter, &new).await?;
    let told = letter.id.to_string();
    let changed = new != letter.payload;
    let id = letter.id;
    let shows = caller.may(Scope::ReadPayload);
    let (new, diff) = heavy(move || {
        let lines = || changes(&readable(&letter.payload), &readable(&new)).into_iter().map(Changed::from);
        let diff = shows.then(|| lines().collect());
        (new, diff)
    })
    .await?;
    let as_it_is = Edited {
        id: told.clone(),
        // Who may not see a payload must not guess it, either: a guess that is right changes nothing.
        changed: (!wish.dry_run || shows).then_some(changed),
        dry_run: wish.dry_run,
        version: None,
        payload_version: edits,
        diff,
        redrive: None,
    };
    if wish.dry_run || !(changed || wish.redrive) {
        return Ok(Json(as_it_is));
    }
    act(&server, &caller, "letter.edit", told.clone(), wish.why).await?;
    let (version, payload_version) = if changed {
        match engine.edit_letter(id, edits, new, caller.who.clone()).await? {
            Outcome::Done { version } => (Some(version), version),
            Outcome::NotDead => return Err(reach::unknown(told)),
            Outcome::Changed { edits } => return Err(meanwhile(edits)),
        }
    } else {
        (None, edits)
    };
    let redrive = if wish.redrive {
        Some(match engine.redrive(vec![id]).await?.first() {
            Some(Redriven::Ready) => "redriven",
            Some(Redriven::Duplicate { .. }) => "duplicate",
            Some(Redriven::NotDead) | None => "not_dead",
        })
    } else {
        None
    };
    Ok(Json(Edited { version, payload_version, redrive, ..as_it_is }))
}

/// The payload that a wish makes of a letter's.
fn new_payload(wish: &Edit, letter: &DeadLetter) -> Result<Vec<u8>, Problem> {
    let given = [wish.payload.is_some(), wish.text.is_some(), wish.merge.is_some(), wish.patch.is_some()];
    if given.into_iter().filter(|given| *given).count() != 1 {
        return Err(Problem::new(Code::Invalid, "letters.one_way"));
    }
    if let Some(payload) = &wish.payload {
        return Ok(payload.to_string().into_bytes());
    }
    if let Some(text) = &wish.text {
        return Ok(text.clone().into_bytes());
    }
    let mut document = std::str::from_utf8(&letter.payload)
        .ok()
        .and_then(|text| Document::parse(text).ok())
        .ok_or_else(|| Problem::new(Code::Conflict, "letters.no_json").with("id", letter.id))?;
    if let Some(merge) = &wish.merge {
        document.merge(merge);
    }
    if let Some(patch) = &wish.patch {
        document = document.patched(patch).map_err(|error| unpatched(&error))?;
    }
    Ok(document.compact().into_bytes())
}

/// Why a patch was not applied.
fn unpatched(error: &PatchError) -> Problem {
    match error {
        PatchError::TooMany { count } => Problem::new(Code::Invalid, "letters.operations")
            .with("count", count)
            .with("most", MAX_OPERATIONS),
        PatchError::TooLarge { bytes, .. } => too_large(*bytes),
        PatchError::TooMuchCopied { .. } => Problem::new(Code::TooLarge, "letters.patch").with("why", error),
        PatchError::BadPointer { .. }
        | PatchError::Missing { .. }
        | PatchError::Differs { .. }
        | PatchError::IntoItself { .. }
        | PatchError::TooDeep { .. } => Problem::new(Code::Conflict, "letters.patch").with("why", error),
    }
    .at("patch")
}

fn too_large(bytes: usize) -> Problem {
    Problem::new(Code::TooLarge, "refused.payload").with("bytes", bytes).with("most", MAX_PAYLOAD_BYTES)
}

/// Whether this payload may stand in this letter.
async fn check(server: &Server, letter: &DeadLetter, new: &[u8]) -> Result<(), Problem> {
    if new.len() > MAX_PAYLOAD_BYTES {
        return Err(too_large(new.len()).at("payload"));
    }
    // A job of this machine's own user may run any command and reach any address: what it does is not for the API to say.
    if matches!(letter.kind.as_str(), "exec" | "http") {
        let record = server.engine().store().job(letter.id).await?;
        let origin = record.and_then(|record| record.job).map(|job| job.origin);
        if origin != Some(Origin::Api) {
            return Err(Problem::new(Code::Forbidden, "letters.local").with("id", letter.id));
        }
    }
    let job = NewJob { origin: Origin::Api, ..NewJob::new(letter.kind.clone(), new.to_vec()) };
    check_origin(server, &job)?;
    check_payload(&letter.kind, new).map_err(|error| {
        let problem = Problem::new(Code::Invalid, "letters.unfit").with("kind", &letter.kind);
        problem.with("why", error).at("payload")
    })
}
