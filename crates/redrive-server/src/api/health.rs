//! Whether the server lives, whether it can do its work, and what it can be asked.

use std::sync::LazyLock;

use axum::extract::State;
use http::header::CONTENT_TYPE;
use http::{HeaderName, Method, StatusCode};

use crate::Server;
use crate::route::{Need, Route};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/livez", Need::Nothing, "livez", "Whether the process lives.", live)
            .answers_text(200, "text/plain", "It lives."),
        Route::new(Method::GET, "/readyz", Need::Nothing, "readyz", "Whether it takes work.", ready)
            .answers_text(200, "text/plain", "It takes work.")
            .answers_text(503, "text/plain", "It does not: why is told in a word."),
        Route::new(Method::GET, "/openapi.json", Need::Nothing, "openapi", "This document.", async || {
            document()
        })
        .answers::<crate::shape::Object>(200, "The API, as OpenAPI 3.1."),
    ]
}

async fn live() -> &'static str {
    "ok\n"
}

async fn ready(State(server): State<Server>) -> (StatusCode, &'static str) {
    if server.shutdown().is_draining() {
        return (StatusCode::SERVICE_UNAVAILABLE, "draining\n");
    }
    if !server.engine().store().answers() {
        return (StatusCode::SERVICE_UNAVAILABLE, "store\n");
    }
    (StatusCode::OK, "ok\n")
}

fn document() -> ([(HeaderName, &'static str); 1], &'static str) {
    static DOCUMENT: LazyLock<String> = LazyLock::new(|| Server::openapi().to_string());
    ([(CONTENT_TYPE, "application/json")], &DOCUMENT)
}
