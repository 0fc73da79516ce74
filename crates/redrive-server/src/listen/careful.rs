//! A handler that panics costs its request, and nothing else.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use axum::response::{IntoResponse, Response};
use redrive_policy::Lang;

use crate::problem::{Code, Problem, worded};

/// The answer, or the problem that stands for one when making it panicked. What the panic said stays here: it may hold anything.
pub(super) async fn careful(answering: impl Future<Output = Response>) -> Response {
    let mut answering = pin!(answering);
    let answered =
        std::future::poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| answering.as_mut().poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(answer)) => Poll::Ready(Ok(answer)),
            Err(panic) => Poll::Ready(Err(panic)),
        })
        .await;
    answered.unwrap_or_else(|panic: Box<dyn Any + Send>| {
        // Dropping it may panic once more.
        std::mem::forget(panic);
        tracing::error!("a handler panicked; its request was answered with 500");
        worded(Problem::of(Code::Internal).into_response(), Lang::En, None)
    })
}
