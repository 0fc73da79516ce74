//! Whether the server lives, and whether it can do its work.

use axum::extract::State;
use http::{Method, StatusCode};

use crate::Server;
use crate::route::{Need, Route};

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/livez", Need::Nothing, "livez", "Whether the process lives.", live),
        Route::new(Method::GET, "/readyz", Need::Nothing, "readyz", "Whether it takes work.", ready),
    ]
}

async fn live() -> &'static str {
    "ok\n"
}

async fn ready(State(server): State<Server>) -> (StatusCode, &'static str) {
    if server.shutdown().is_draining() {
        return (StatusCode::SERVICE_UNAVAILABLE, "draining\n");
    }
    (StatusCode::OK, "ok\n")
}
