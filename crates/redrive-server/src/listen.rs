//! The listener: our own loop over hyper, so that every wait on a client has an end.

use std::convert::Infallible;

use axum::body::Body;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;

use crate::Server;
use crate::app::App;

/// How long a client may take over the head of a request.
const HEAD_WITHIN: std::time::Duration = std::time::Duration::from_secs(10);

pub(crate) async fn serve(server: &Server, listener: TcpListener) -> std::io::Result<()> {
    let app = App::new(server);
    loop {
        let (stream, _) = tokio::select! {
            accepted = listener.accept() => accepted?,
            () = server.shutdown().draining() => return Ok(()),
        };
        let _ = stream.set_nodelay(true);
        let app = app.clone();
        let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
            let app = app.clone();
            async move { Ok::<_, Infallible>(app.answer(request.map(Body::new)).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_WITHIN)
            .serve_connection(TokioIo::new(stream), service);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended badly");
            }
        });
    }
}
