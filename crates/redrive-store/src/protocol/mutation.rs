//! Rules taken away on purpose, for the whole process, so that tests can show that they notice. For tests alone.

use std::sync::atomic::{AtomicBool, Ordering};

static WITHOUT_FENCE: AtomicBool = AtomicBool::new(false);

/// While it lives, every fence is good enough.
#[derive(Debug)]
pub struct WithoutFence(());

impl WithoutFence {
    /// Takes the fence away.
    pub fn begin() -> WithoutFence {
        WITHOUT_FENCE.store(true, Ordering::Relaxed);
        WithoutFence(())
    }
}

impl Drop for WithoutFence {
    fn drop(&mut self) {
        WITHOUT_FENCE.store(false, Ordering::Relaxed);
    }
}

pub(super) fn is_without_fence() -> bool {
    WITHOUT_FENCE.load(Ordering::Relaxed)
}
