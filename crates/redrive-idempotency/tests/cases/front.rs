//! What stands before a service and guards it.

use std::net::TcpListener;

use axum::Router;
use redrive::engine::{Engine, Shutdown};
use redrive_idempotency::proxy::{Proxy, ProxyOptions};
use redrive_idempotency::rules::Guarded;
use redrive_idempotency::{Guard, IdempotencyLayer};

/// Something that guards an app and serves it on a socket, until it is dropped.
pub(crate) trait Front: 'static {
    fn serve(
        listener: TcpListener,
        engine: Engine,
        guarded: Guarded,
        app: Router,
    ) -> impl Future<Output = ()> + Send + 'static;
}

/// The layer around the app itself.
pub(crate) struct Layer;

impl Front for Layer {
    async fn serve(listener: TcpListener, engine: Engine, guarded: Guarded, app: Router) {
        let app = app.layer(IdempotencyLayer::new(&engine).guarding(guarded));
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        axum::serve(listener, app).await.unwrap();
    }
}

/// The proxy before the app, which listens on a socket of its own.
pub(crate) struct BehindProxy;

impl Front for BehindProxy {
    async fn serve(listener: TcpListener, engine: Engine, guarded: Guarded, app: Router) {
        let behind = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let upstream = format!("http://{}", behind.local_addr().unwrap()).parse().unwrap();
        tokio::spawn(async move { axum::serve(behind, app).await.unwrap() });
        // These cases count what one request does. The first wait of this policy is longer than a service may take to answer, so that
        // nothing is sent twice.
        let options = ProxyOptions { policy: "consumer".to_owned(), ..ProxyOptions::new(upstream) };
        let proxy = Proxy::new(Guard::of_proxy(&engine, guarded), options, |_| {}).unwrap();
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        proxy.serve(listener, None, &Shutdown::new()).await.unwrap();
    }
}
