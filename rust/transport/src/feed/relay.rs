//! Waking the watches of a log from the thread that serves them.
//!
//! Waking a task of another thread is a system call. The thread of an informer makes one for all watches of its log.

use std::future::poll_fn;
use std::sync::{Arc, Weak};
use std::task::{Poll, Waker};

use ctrlhost_core::event_log::EventLog;
use parking_lot::Mutex;

/// The logs that are served.
#[derive(Default)]
pub(super) struct Relay(Mutex<Logs>);

#[derive(Default)]
struct Logs {
    all: Vec<Weak<EventLog>>,
    waker: Option<Waker>,
}

impl Relay {
    /// Wake the watches of a log from now on. May be repeated.
    pub(super) fn add(&self, log: &Arc<EventLog>) {
        let mut logs = self.0.lock();
        logs.all.retain(|known| known.strong_count() > 0);
        if let Some(waker) = &logs.waker {
            log.set_relay(waker);
        }
        let log = Arc::downgrade(log);
        if !logs.all.iter().any(|known| known.ptr_eq(&log)) {
            logs.all.push(log);
        }
    }

    /// Wake the watches of the logs that have changed, whenever one has.
    pub(super) async fn run(self: Arc<Self>) {
        poll_fn(|context| {
            let mut logs = self.0.lock();
            logs.waker = Some(context.waker().clone());
            for log in logs.all.iter().filter_map(Weak::upgrade) {
                log.set_relay(context.waker());
                log.wake_readers();
            }
            Poll::<()>::Pending
        })
        .await;
    }
}
