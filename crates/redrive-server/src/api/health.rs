//! Whether the server lives, whether it can do its work, and what it can be asked.

use std::sync::LazyLock;

use axum::extract::State;
use http::header::CONTENT_TYPE;
use http::{HeaderName, Method, StatusCode};

use schemars::JsonSchema;
use serde::Serialize;

use crate::Server;
use crate::caller::Scope;
use crate::route::{Need, Route};

/// How long the store may take before the server counts as not ready.
const STORE_WITHIN: std::time::Duration = std::time::Duration::from_secs(2);

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/livez", Need::Nothing, "livez", "Whether the process lives.", live)
            .answers_text(200, "text/plain", "It lives."),
        Route::new(Method::GET, "/readyz", Need::Nothing, "readyz", "Whether it takes work.", ready)
            .answers_text(200, "text/plain", "It takes work.")
            .answers_text(503, "text/plain", "It does not: what is missing is named."),
        Route::get("/version", Scope::Read, "version", "Which redrive this is.", version)
            .answers::<Version>(200, "Its versions."),
        Route::get("/openapi.json", Scope::Read, "openapi", "This document.", async || document())
            .answers::<crate::shape::Object>(200, "The API, as OpenAPI 3.1."),
    ]
}

async fn live() -> &'static str {
    "ok\n"
}

/// Ready is who is not on the way out, and whose store answers in time. What is missing is named.
async fn ready(State(server): State<Server>) -> (StatusCode, &'static str) {
    let missing = if server.shutdown().is_draining() {
        "draining\n"
    } else if !server.engine().store().answers() {
        "store: it does not answer\n"
    } else {
        // Anything that needs the store, and as little of it as there is.
        let asked = server.engine().store().notice("server".to_owned(), "ready".to_owned());
        match tokio::time::timeout(STORE_WITHIN, asked).await {
            Ok(Ok(_)) => return (StatusCode::OK, "ok\n"),
            Ok(Err(_)) => "store: it is in trouble; the log says why\n",
            Err(_) => "store: it takes too long to answer\n",
        }
    };
    (StatusCode::SERVICE_UNAVAILABLE, missing)
}

/// Which redrive this is.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Version {
    /// The version of the program.
    version: &'static str,
    /// The version of the API: the first part of its paths.
    api: &'static str,
}

async fn version() -> axum::Json<Version> {
    axum::Json(Version { version: env!("CARGO_PKG_VERSION"), api: "v1" })
}

fn document() -> ([(HeaderName, &'static str); 1], &'static str) {
    static DOCUMENT: LazyLock<String> = LazyLock::new(|| Server::openapi().to_string());
    ([(CONTENT_TYPE, "application/json")], &DOCUMENT)
}
