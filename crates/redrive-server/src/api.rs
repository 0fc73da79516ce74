//! The API: a file for each noun, which holds its routes, the shapes that it takes and answers, and its handlers.

mod health;
mod jobs;
mod leases;

use axum::Router;

use crate::Server;
use crate::route::Route;

/// Every route.
pub(crate) fn routes() -> Vec<Route> {
    let mut routes = Vec::new();
    routes.extend(health::routes());
    routes.extend(jobs::routes());
    routes.extend(leases::routes());
    routes
}

/// The router over all of them.
pub(crate) fn router(server: &Server) -> Router {
    let mut router = Router::new();
    for route in routes() {
        router = router.route(route.path, route.handler);
    }
    router.with_state(server.clone())
}
