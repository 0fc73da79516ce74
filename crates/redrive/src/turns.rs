//! How long a retry without waits may keep the executor to itself.
//!
//! An attempt that fails at once and a delay of zero never return to the executor; every driver of futures counts
//! them here and gives the others their turn now and then.

/// So many zero delays in a row, and the executor gets a turn.
pub(crate) const TURNS: u32 = 32;

/// The zero delays so far.
#[cfg(any(feature = "tower", feature = "reqwest-middleware"))]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Turns(u32);

#[cfg(any(feature = "tower", feature = "reqwest-middleware"))]
impl Turns {
    /// One more zero delay: whether it is somebody else's turn now.
    pub(crate) fn is_over(&mut self) -> bool {
        self.0 = self.0.wrapping_add(1);
        self.0.is_multiple_of(TURNS)
    }

    /// One more zero delay; ready at once, or after the others had their turn.
    #[cfg(feature = "reqwest-middleware")]
    pub(crate) async fn take(&mut self) {
        let mut waits = self.is_over();
        std::future::poll_fn(|cx| {
            if std::mem::take(&mut waits) {
                cx.waker().wake_by_ref();
                return std::task::Poll::Pending;
            }
            std::task::Poll::Ready(())
        })
        .await;
    }
}
