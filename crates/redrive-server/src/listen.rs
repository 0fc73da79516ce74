//! The listener: our own loop over hyper, so that every wait on a client has an end.

use axum::extract::Request;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tower::ServiceExt;

use crate::caller::Caller;
use crate::{Server, api};

/// How long a client may take over the head of a request.
const HEAD_WITHIN: std::time::Duration = std::time::Duration::from_secs(10);

pub(crate) async fn serve(server: &Server, listener: TcpListener) -> std::io::Result<()> {
    let router = api::router(server);
    loop {
        let (stream, _) = tokio::select! {
            accepted = listener.accept() => accepted?,
            () = server.shutdown().draining() => return Ok(()),
        };
        let _ = stream.set_nodelay(true);
        let service = router.clone().map_request(|mut request: Request<hyper::body::Incoming>| {
            request.extensions_mut().insert(Caller::local());
            request
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_WITHIN)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended badly");
            }
        });
    }
}
