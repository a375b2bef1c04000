//! The handlers of an informer, and when each wants a resync.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::attached::{Attached, Handlers};
use crate::handlers::{QueueHandler, SharedListener};

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
    attached: Arc<Attached>,
    resync: Resync,
    /// When the next resync is due, in seconds on the informer's clock.
    next: f64,
}

pub(super) struct Registry {
    entries: Vec<Entry>,
    /// The handlers of `entries`, for those who notify them without the lock.
    all: Handlers,
    /// Removed handlers that were being notified.
    leaving: Vec<(HandlerId, Arc<Attached>)>,
    /// The period of checks for resyncs, in seconds; 0 for never.
    check_period: f64,
    started: bool,
    synced: bool,
    closed: bool,
}

impl Registry {
    pub(super) fn new(check_period: f64) -> Self {
        Self {
            entries: Vec::new(),
            all: Handlers::default(),
            leaving: Vec::new(),
            check_period,
            started: false,
            synced: false,
            closed: false,
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

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Return whether the handlers were told that the first list is complete.
    pub(super) fn is_synced(&self) -> bool {
        self.synced
    }

    /// Return the handlers as of now.
    pub(super) fn handlers(&self) -> Handlers {
        self.all.clone()
    }

    pub(super) fn add(&mut self, attached: Arc<Attached>, resync: Resync, now: f64) -> HandlerId {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let id = HandlerId(LAST.fetch_add(1, Ordering::Relaxed) + 1);
        if let Resync::Every(period) = resync
            && !self.started
            && self.check_period > 0.0
            && period < self.check_period
        {
            self.check_period = period;
        }
        let next = now + self.period(resync).unwrap_or(0.0);
        self.entries.push(Entry {
            id,
            attached,
            resync,
            next,
        });
        self.list();
        id
    }

    fn list(&mut self) {
        self.all = self
            .entries
            .iter()
            .map(|one| one.attached.clone())
            .collect();
    }

    /// Return the period of a handler: its own, but no shorter than the informer's checks. None for never.
    fn period(&self, resync: Resync) -> Option<f64> {
        match resync {
            Resync::Never => None,
            Resync::Informer => Some(0.0),
            Resync::Every(_) if self.check_period <= 0.0 => None,
            Resync::Every(period) => Some(period.max(self.check_period)),
        }
    }

    /// Take a handler out of the list. A handler that is being notified can be removed again, to wait for that.
    pub(super) fn remove(&mut self, id: HandlerId) -> Option<Arc<Attached>> {
        let Some(index) = self.entries.iter().position(|entry| entry.id == id) else {
            let left = self.leaving.iter().find(|(leaving, _)| *leaving == id);
            return left.map(|(_, attached)| attached.clone());
        };
        let attached = self.entries.remove(index).attached;
        self.list();
        self.leaving.push((id, attached.clone()));
        Some(attached)
    }

    /// Forget the removed handlers that nobody notifies any more. Drop them without the lock: the end of what they hold
    /// may call the informer.
    pub(super) fn forget_idle(&mut self) -> Vec<(HandlerId, Arc<Attached>)> {
        let notified = |(_, attached): &mut (HandlerId, Arc<Attached>)| !attached.is_notified();
        self.leaving.extract_if(.., notified).collect()
    }

    /// Mark the handlers whose resync is due; return whether there are any.
    pub(super) fn resync_due(&mut self, now: f64) -> bool {
        let mut any = false;
        let periods: Vec<_> = self
            .entries
            .iter()
            .map(|one| self.period(one.resync))
            .collect();
        for (entry, period) in self.entries.iter_mut().zip(periods) {
            // A step of a manual clock lands on the moment itself; sums of floats may miss it slightly.
            let due = period.filter(|_| now + 1e-9 >= entry.next);
            entry.attached.set_syncing(due.is_some());
            if let Some(period) = due {
                entry.next = now + period;
                any = true;
            }
        }
        any
    }

    /// Note that the first list is complete; return the handlers that have to be told.
    pub(super) fn informer_synced(&mut self) -> Handlers {
        self.synced = true;
        self.all.clone()
    }

    /// Accept no further handlers, and take all of them out of the list; return them, to be removed without the lock.
    pub(super) fn close(&mut self) -> Vec<Arc<Attached>> {
        self.closed = true;
        self.all = Handlers::default();
        let closed = self.entries.drain(..);
        self.leaving
            .extend(closed.map(|one| (one.id, one.attached)));
        let handlers = self.leaving.iter();
        handlers.map(|(_, attached)| attached.clone()).collect()
    }
}
