//! The connections of a client that wait for another request.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use parking_lot::Mutex;
use tokio::task::AbortHandle;

use super::line::Line;
use super::runtime::Home;

type Slot = Arc<Mutex<Option<Line>>>;

/// A connection whose task waits until the server closes it or sends what nobody asked for.
struct Idle {
    slot: Slot,
    watch: AbortHandle,
}

/// See the module.
pub(super) struct Pool {
    home: Home,
    idle: Mutex<Vec<Idle>>,
    most: usize,
    generation: AtomicU64,
}

impl Pool {
    pub(super) fn new(most: usize) -> Self {
        Self {
            home: Home::new(),
            idle: Mutex::default(),
            most,
            generation: AtomicU64::new(0),
        }
    }

    /// Return a connection: the one used last, so that the extra ones of a burst become stale while others stay warm.
    pub(super) fn take(&self) -> Option<Line> {
        loop {
            let idle = self.idle.lock().pop()?;
            idle.watch.abort();
            let line = idle.slot.lock().take();
            if line.is_some() {
                return line;
            }
        }
    }

    /// Keep a connection for the next request; for the I/O thread.
    pub(super) async fn put(&self, mut line: Line) {
        let reusable = poll_fn(|context| Poll::Ready(line.is_reusable(context))).await;
        if !reusable || line.generation != self.generation() {
            return;
        }
        let slot = Arc::new(Mutex::new(Some(line)));
        let mut idle = self.idle.lock();
        idle.retain(|idle| idle.slot.lock().is_some());
        if idle.len() < self.most {
            let watch = tokio::spawn(watch(slot.clone())).abort_handle();
            idle.push(Idle { slot, watch });
        }
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    /// Drop the idle connections now, and those in use when they are done.
    pub(super) fn retire(&self) {
        self.generation.fetch_add(1, Ordering::Relaxed);
        self.clear();
    }

    /// Drop the idle connections.
    pub(super) fn clear(&self) {
        while let Some(line) = self.take() {
            drop(line);
        }
    }

    /// Return how many connections wait.
    pub(super) fn len(&self) -> usize {
        let idle = self.idle.lock();
        idle.iter()
            .filter(|idle| idle.slot.lock().is_some())
            .count()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if self.home.is_here() {
            self.retire();
        } else {
            // The parent's poller would forget the sockets if they were closed here in the ordinary way.
            std::mem::forget(std::mem::take(self.idle.get_mut()));
        }
    }
}

/// Drop an idle connection when it ends.
async fn watch(slot: Slot) {
    poll_fn(|context| {
        let mut line = slot.lock();
        let ended = line
            .as_mut()
            .is_none_or(|line| line.poll(context).is_ready());
        if ended {
            *line = None;
            return Poll::Ready(());
        }
        Poll::Pending
    })
    .await;
}
