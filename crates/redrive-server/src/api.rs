//! The API: a file for each noun, which holds its routes, the shapes that it takes and answers, and its handlers.

mod alerts;
mod dead_letters;
mod escalations;
mod events;
mod exposition;
mod groups;
mod health;
mod idempotency;
mod jobs;
mod leases;
mod metrics;
mod policies;
mod push;
mod queues;
mod redrives;
mod schedules;
mod targets;
mod tasks;
mod tokens;

use axum::Router;

use crate::Server;
use crate::gate::GateLayer;
use crate::problem::{Code, Problem};
use crate::route::Route;

/// Every route.
pub(crate) fn routes() -> Vec<Route> {
    let mut routes = Vec::new();
    routes.extend(alerts::routes());
    routes.extend(events::routes());
    routes.extend(exposition::routes());
    routes.extend(dead_letters::routes());
    routes.extend(escalations::routes());
    routes.extend(groups::routes());
    routes.extend(health::routes());
    routes.extend(idempotency::routes());
    routes.extend(jobs::routes());
    routes.extend(leases::routes());
    routes.extend(push::routes());
    routes.extend(metrics::routes());
    routes.extend(queues::routes());
    routes.extend(tokens::routes());
    routes.extend(policies::routes());
    routes.extend(redrives::routes());
    routes.extend(targets::routes());
    routes.extend(schedules::routes());
    routes.extend(tasks::routes());
    routes
}

/// The router over all of them, each behind its gate.
pub(crate) fn router(server: &Server) -> Router {
    let all = routes();
    let names = all.iter().map(|route| (route.method.to_string(), route.path.to_owned()));
    let meters = server.meter().meters(names);
    let mut router = Router::new();
    for (route, meter) in all.into_iter().zip(meters) {
        let keys = route.guarded.then(|| server.keys().clone());
        let gate = GateLayer { need: route.need, keys, meter };
        router = router.route(route.path, route.handler.layer(gate));
    }
    router
        .method_not_allowed_fallback(async || Problem::of(Code::MethodNotAllowed))
        .fallback(async || Problem::of(Code::NotFound))
        .with_state(server.clone())
}
