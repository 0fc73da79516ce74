//! Who is let in: a look at the head of every request, before its route is known.

use axum::extract::Request;

use crate::Server;
use crate::caller::Caller;
use crate::problem::Problem;

/// Who asks, or why nobody is let in. Asked of every request, those about health included.
pub(crate) async fn admit(_server: &Server, _request: &mut Request) -> Result<Caller, Problem> {
    Ok(Caller::local())
}
