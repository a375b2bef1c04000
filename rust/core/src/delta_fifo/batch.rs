//! Keys that were handed out and are being processed.

use std::ops::Deref;

use super::line::Keyed;
use super::{Delta, DeltaFifo, Deltas, KEEP};
use crate::object::Key;

/// A key that was handed out.
#[derive(Debug)]
pub struct Popped {
    /// The key.
    pub key: Key,
    /// Its changes; never empty.
    pub deltas: Deltas,
    /// Whether it belongs to the first list, or to that of a part that has come since.
    pub is_initial: bool,
}

/// A key that is being processed, with its newest delta.
#[derive(Clone)]
pub(super) struct InFlight {
    pub(super) key: Key,
    pub(super) delta: Delta,
}

impl Keyed for Popped {
    fn key(&self) -> &Key {
        &self.key
    }
}

impl Keyed for InFlight {
    fn key(&self) -> &Key {
        &self.key
    }
}

/// Keys to process, at least one. Others can take keys once this is dropped, whether the processing ended, failed or
/// panicked; the keys are not queued again.
pub struct Batch<'a> {
    fifo: &'a DeltaFifo,
    items: Vec<Popped>,
    is_list: bool,
}

impl<'a> Batch<'a> {
    pub(super) fn new(fifo: &'a DeltaFifo, items: Vec<Popped>, is_list: bool) -> Self {
        Self {
            fifo,
            items,
            is_list,
        }
    }

    /// Return whether the keys of a list are in here, all of them.
    pub fn is_list(&self) -> bool {
        self.is_list
    }

    /// Take the items out; they count as being processed until the batch is dropped.
    pub fn take_items(&mut self) -> Vec<Popped> {
        std::mem::take(&mut self.items)
    }
}

impl Deref for Batch<'_> {
    type Target = [Popped];

    fn deref(&self) -> &[Popped] {
        &self.items
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        let mut state = self.fifo.state.lock();
        state.in_flight.clear(KEEP);
        state.initial -= state.initial_in_flight;
        state.initial_in_flight = 0;
        state.taken = false;
        state.queue.shrink(KEEP);
        drop(state);
        self.fifo.changed.notify_all();
    }
}
