//! Letters as JSON Lines, out and in. An export is written as it is read, a few letters at a time; an import is one body.

use axum::Json;
use axum::body::Body as Stream;
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http_body_util::channel::Channel;
use redrive::engine::ImportOptions;
use redrive_store::LetterFilter;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Server;
use crate::act::act;
use crate::body;
use crate::caller::{Caller, Scope};
use crate::problem::Problem;
use crate::query::Query;
use crate::route::Route;

/// The media type of JSON Lines.
const JSON_LINES: &str = "application/x-ndjson";
/// How many pieces of an export wait for a client that reads slowly.
const AHEAD: usize = 2;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get(
            "/v1/dead-letters/export",
            Scope::Read,
            "export_dead_letters",
            "Letters as JSON Lines, the oldest first.",
            export,
        )
        .asks::<Asked>()
        .answers_text(
            200,
            JSON_LINES,
            "A letter on each line. An export that broke off has no line at its end.",
        ),
        Route::post(
            "/v1/dead-letters/import",
            Scope::Operate,
            "import_dead_letters",
            "Takes in letters from JSON Lines: an export, or what other systems wrote.",
            import,
        )
        .takes_text(JSON_LINES)
        .answers::<Imported>(200, "What came in."),
    ]
}

/// Which letters, and how much of them.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Asked {
    /// Those that match this filter.
    #[serde(rename = "where")]
    filter: Option<String>,
    /// Those of this group: its fingerprint, or the beginning of it.
    group: Option<String>,
    /// With all that it takes to run them elsewhere, for tokens that may see payloads.
    #[serde(default)]
    with_payload: bool,
}

/// What an import brought in.
#[derive(Debug, Serialize, JsonSchema)]
struct Imported {
    /// Letters that are new here.
    added: u64,
    /// Letters and events that were here already.
    known: u64,
    /// Letters that nobody could run, since they have no kind or no payload: kept as events.
    as_events: u64,
    /// Lines that could not be read, and are kept as they were.
    kept_aside: u64,
    /// The first of these.
    bad_lines: Vec<BadLine>,
}

/// A line that could not be read.
#[derive(Debug, Serialize, JsonSchema)]
struct BadLine {
    /// Its number, from 1.
    line: u64,
    /// Why.
    why: String,
}

async fn export(
    State(server): State<Server>,
    caller: Caller,
    Query(query): Query<Asked>,
) -> Result<Response, Problem> {
    super::may_show(&caller, query.with_payload)?;
    let asked = super::asked(query.filter.as_deref(), query.group.as_deref())?;
    let engine = server.engine().clone();
    let now = engine.now();
    // What dies meanwhile is not among them.
    let among = LetterFilter {
        before: Some(now.after(std::time::Duration::from_millis(1))),
        oldest_first: true,
        ..LetterFilter::default()
    };
    let mut filter = caller.letters(among, asked, now);
    let with_payload = query.with_payload;
    // The first piece is read here: what cannot be done at all is told as a problem.
    let mut piece = engine.letter_lines(filter.clone(), with_payload).await?;
    let (mut to, body) = Channel::<Bytes, std::io::Error>::new(AHEAD);
    tokio::spawn(async move {
        loop {
            let mut text = Vec::new();
            for line in &piece.0 {
                // What was read from JSON can be written as JSON.
                if serde_json::to_writer(&mut text, line).is_ok() {
                    text.push(b'\n');
                }
            }
            // A client that went away wants no more.
            if to.send_data(Bytes::from(text)).await.is_err() {
                return;
            }
            let Some(next) = piece.1 else { return };
            filter.after = Some(next);
            piece = match engine.letter_lines(filter.clone(), with_payload).await {
                Ok(piece) => piece,
                Err(error) => {
                    tracing::warn!(%error, "an export breaks off");
                    to.abort(std::io::Error::other("the store cannot be read"));
                    return;
                }
            };
        }
    });
    let mut response = Response::new(Stream::new(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON_LINES));
    Ok(response)
}

async fn import(
    State(server): State<Server>,
    caller: Caller,
    request: Request,
) -> Result<Json<Imported>, Problem> {
    // A line names its own queue.
    caller.must_reach_all()?;
    let lines = body::read(request, server.settings().max_body).await?;
    act(&server, &caller, "letter.import", format!("{} bytes", lines.len()), None).await?;
    let options = ImportOptions { origin: "api".to_owned(), from_api: true, ..ImportOptions::default() };
    let imported = server.engine().import_letters(&mut lines.as_ref(), &options).await?;
    let bad = imported.bad_lines.into_iter().map(|bad| BadLine { line: bad.line, why: bad.why });
    Ok(Json(Imported {
        added: imported.added,
        known: imported.known,
        as_events: imported.as_events,
        kept_aside: imported.bad,
        bad_lines: bad.collect(),
    }))
}
