//! The answer to a caller, which comes exactly once, even if the task that owes it panics or is cancelled.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use super::{Failure, Stage};

/// Takes the answer.
pub(super) type Done<T> = Box<dyn FnOnce(Result<T, Failure>) + Send>;

static PANICS: AtomicU64 = AtomicU64::new(0);

/// Return how many tasks have panicked.
pub(super) fn panics() -> u64 {
    PANICS.load(Ordering::Relaxed)
}

/// Return why a task ended without an answer, and count a panic; for the destructor of what owes the answer.
pub(super) fn abandoned(stage: Stage) -> Failure {
    if thread::panicking() {
        PANICS.fetch_add(1, Ordering::Relaxed);
        return Failure::new(stage, "internal error: the transport panicked");
    }
    let text = "cancelled, or the I/O thread has stopped";
    Failure::new(Stage::Cancelled, text)
}

/// Owed to a caller.
pub(super) struct Reply<T>(Option<Done<T>>);

impl<T: Send + 'static> Reply<T> {
    pub(super) fn new(done: Done<T>) -> Self {
        Self(Some(done))
    }

    /// Return an answer, and what waits for it.
    pub(super) fn awaited() -> (Self, mpsc::Receiver<Result<T, Failure>>) {
        let (sender, receiver) = mpsc::sync_channel(1);
        // Nobody waits any more if the caller's thread is gone.
        let done = move |result| drop(sender.send(result));
        (Self::new(Box::new(done)), receiver)
    }
}

impl<T> Reply<T> {
    pub(super) fn send(mut self, result: Result<T, Failure>) {
        if let Some(done) = self.0.take() {
            done(result);
        }
    }
}

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        if let Some(done) = self.0.take() {
            let failure = abandoned(Stage::Head);
            // A second panic would end the process.
            let _ = catch_unwind(AssertUnwindSafe(|| done(Err(failure))));
        }
    }
}
