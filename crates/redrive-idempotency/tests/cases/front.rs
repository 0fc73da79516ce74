//! What stands before a service and guards it.

use std::net::TcpListener;

use axum::Router;
use redrive::engine::Engine;
use redrive_idempotency::IdempotencyLayer;
use redrive_idempotency::rules::Guarded;

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
