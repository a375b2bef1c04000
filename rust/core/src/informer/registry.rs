//! The handlers of an informer, and when each wants a resync.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::handlers::{Change, QueueHandler, SharedListener};
use crate::object::Object;

/// The id of a handler; unique in the process, so that one informer ignores the handlers of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HandlerId(pub u64);

/// A handler of changes.
pub enum Handler {
    /// Adds requests to a queue.
    Queue(QueueHandler),
    /// Buffers notifications for a handler in Python.
    Listener(SharedListener),
}

impl Handler {
    fn notify<'a>(&self, changes: impl Iterator<Item = &'a Change>) {
        match self {
            Self::Queue(handler) => handler.handle(changes),
            Self::Listener(listener) => listener.push(changes),
        }
    }
}

/// How often a handler wants a resync.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Resync {
    /// As often as the informer, and whenever one is requested.
    #[default]
    Informer,
    /// Never.
    Never,
    /// Every so many seconds, as far as the informer checks that often.
    Every(f64),
}

struct Entry {
    id: HandlerId,
    handler: Handler,
    resync: Resync,
    /// When the next resync is due, in seconds on the informer's clock.
    next: f64,
    /// The last queued resync is for this handler.
    syncing: bool,
}

pub(super) struct Registry {
    entries: Vec<Entry>,
    /// The period of checks for resyncs, in seconds; 0 for never.
    check_period: f64,
    started: bool,
    synced: bool,
}

impl Registry {
    pub(super) fn new(check_period: f64) -> Self {
        Self {
            entries: Vec::new(),
            check_period,
            started: false,
            synced: false,
        }
    }

    pub(super) fn start(&mut self) {
        self.started = true;
    }

    pub(super) fn check_period(&self) -> f64 {
        self.check_period
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    #[cfg(unix)]
    pub(super) fn has_listeners(&self) -> bool {
        let listens = |entry: &Entry| matches!(entry.handler, Handler::Listener(_));
        self.entries.iter().any(listens)
    }

    pub(super) fn add(
        &mut self,
        handler: Handler,
        resync: Resync,
        now: f64,
        known: Vec<Arc<Object>>,
        synced: bool,
    ) -> HandlerId {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let id = HandlerId(LAST.fetch_add(1, Ordering::Relaxed) + 1);
        if let Resync::Every(period) = resync
            && !self.started
            && self.check_period > 0.0
            && period < self.check_period
        {
            self.check_period = period;
        }
        let replay: Vec<Change> = known
            .into_iter()
            .map(|object| Change::Add {
                object,
                initial: true,
            })
            .collect();
        handler.notify(replay.iter());
        if let (Handler::Listener(listener), true) = (&handler, synced || self.synced) {
            listener.informer_synced();
        }
        let mut entry = Entry {
            id,
            handler,
            resync,
            next: now,
            syncing: false,
        };
        entry.next = now + self.period(&entry).unwrap_or(0.0);
        self.entries.push(entry);
        id
    }

    /// Return the period of a handler: its own, but no shorter than the informer's checks. None for never.
    fn period(&self, entry: &Entry) -> Option<f64> {
        match entry.resync {
            Resync::Never => None,
            Resync::Informer => Some(0.0),
            Resync::Every(_) if self.check_period <= 0.0 => None,
            Resync::Every(period) => Some(period.max(self.check_period)),
        }
    }

    pub(super) fn remove(&mut self, id: HandlerId) -> Option<Handler> {
        let index = self.entries.iter().position(|entry| entry.id == id)?;
        let handler = self.entries.remove(index).handler;
        if let Handler::Listener(listener) = &handler {
            listener.close();
        }
        Some(handler)
    }

    /// Notify each handler of the changes, in order. Marked changes come from a resync and go only to its handlers.
    pub(super) fn notify(&mut self, changes: &[(Change, bool)]) {
        for entry in &self.entries {
            let syncing = entry.syncing;
            entry.handler.notify(
                changes
                    .iter()
                    .filter(|(_, sync)| syncing || !sync)
                    .map(|(change, _)| change),
            );
        }
    }

    /// Mark the handlers whose resync is due; return whether there are any.
    pub(super) fn resync_due(&mut self, now: f64) -> bool {
        let mut any = false;
        for index in 0..self.entries.len() {
            let Some(period) = self.entries.get(index).map(|entry| self.period(entry)) else {
                continue;
            };
            let Some(entry) = self.entries.get_mut(index) else {
                continue;
            };
            // A step of a manual clock lands on the moment itself; sums of floats may miss it slightly.
            entry.syncing = period.is_some_and(|_| now + 1e-9 >= entry.next);
            if let (true, Some(period)) = (entry.syncing, period) {
                entry.next = now + period;
                any = true;
            }
        }
        any
    }

    pub(super) fn informer_synced(&mut self) {
        self.synced = true;
        for entry in &self.entries {
            if let Handler::Listener(listener) = &entry.handler {
                listener.informer_synced();
            }
        }
    }

    /// Remove all handlers; return them to be dropped without the lock.
    pub(super) fn close(&mut self) -> Vec<Handler> {
        let handlers: Vec<Handler> = self.entries.drain(..).map(|entry| entry.handler).collect();
        for handler in &handlers {
            if let Handler::Listener(listener) = handler {
                listener.close();
            }
        }
        handlers
    }
}
