//! All numbers for Prometheus and whoever reads OpenMetrics (R-C4): those that `redrive prometheus` prints, and the server's own.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE, VARY};
use redrive::engine::{Exposition, TextForm};

use crate::Server;
use crate::caller::{Caller, Scope};
use crate::problem::{Code, Problem};
use crate::route::Route;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/metrics", Scope::Read, "exposition", "All numbers, for Prometheus.", exposition)
            .answers_text(
                200,
                "text/plain",
                "The text that Prometheus reads, or OpenMetrics if that is accepted.",
            ),
    ]
}

async fn exposition(
    State(server): State<Server>,
    caller: Caller,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if !caller.queues.is_empty() {
        return Err(Problem::new(Code::Forbidden, "limited.whole"));
    }
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|accept| accept.to_str().ok());
    let open =
        accepted.flat_map(|accept| accept.split(',')).any(|one| one.contains("application/openmetrics-text"));
    let form = if open { TextForm::OpenMetrics } else { TextForm::Prometheus };
    let mut text = Exposition::new(form);
    server.engine().expose(&mut text).await?;
    server.meter().expose(&mut text, server.connections());
    Ok(([(CONTENT_TYPE, form.media_type()), (VARY, "Accept")], text.into_text()).into_response())
}
