//! Readers of a log: each is a place in it.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::{Event, EventLog, State, number};

/// A place in a log, and who waits there.
pub(super) struct Reading {
    /// The number of the next event.
    at: u64,
    /// The bytes of the objects before it.
    sent: u64,
    generation: u64,
    /// Woken by every change, also while the reader does not wait: it may have to be closed.
    pub(super) waker: Option<Waker>,
}

/// Reads the events of a log in order. Dropping it ends the reading.
pub struct EventReader {
    log: Arc<EventLog>,
    id: u64,
    version: Arc<str>,
    /// The version at the start, which may be newer than the log.
    after: u64,
}

/// What comes next.
#[derive(Debug)]
pub enum Next {
    /// Events, at least one.
    Events(Vec<Event>),
    /// The next event is no longer in the log, or a new list has replaced everything.
    Expired,
    /// The informer has stopped.
    Closed,
}

/// How far a reader is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lag {
    /// The number of the next event; it grows while the reader makes progress.
    pub at: u64,
    /// Events that it has not read.
    pub events: u64,
    /// The bytes of their objects.
    pub bytes: u64,
    /// Some of them are no longer in the log, or will never be read since a list has replaced them.
    pub lost: bool,
}

impl State {
    pub(super) fn add_reader(
        &mut self,
        log: &Arc<EventLog>,
        at: u64,
        version: Arc<str>,
    ) -> EventReader {
        self.last_reader += 1;
        let reading = Reading {
            at,
            sent: self.sent_before(at),
            generation: self.generation,
            waker: None,
        };
        self.readers.insert(self.last_reader, reading);
        EventReader {
            log: log.clone(),
            id: self.last_reader,
            after: number(&version),
            version,
        }
    }

    /// Return the bytes of the objects before a place in the window.
    fn sent_before(&self, at: u64) -> u64 {
        let index = at.checked_sub(self.first);
        let event = index.and_then(|index| self.events.get(usize::try_from(index).ok()?));
        event.map_or(self.sent, |event| event.sent)
    }
}

impl EventReader {
    /// Return the resource version of the last event that was read, or of the start.
    pub fn version(&self) -> &Arc<str> {
        &self.version
    }

    /// Return the number by which [`EventLog::lag`] knows the reader.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Return the log.
    pub fn log(&self) -> &Arc<EventLog> {
        &self.log
    }

    /// Return the next events, up to some bytes of objects but at least one, or wait for them. From now on the waker is
    /// woken by every change, until there is another one.
    pub fn poll_next(&mut self, context: &Context<'_>, bytes: u64) -> Poll<Next> {
        let mut state = self.log.state.lock();
        let State {
            events,
            first,
            sent,
            generation,
            closed,
            readers,
            ..
        } = &mut *state;
        let Some(reading) = readers.get_mut(&self.id) else {
            return Poll::Ready(Next::Closed);
        };
        let known = reading.waker.as_ref();
        if known.is_none_or(|known| !known.will_wake(context.waker())) {
            reading.waker = Some(context.waker().clone());
        }
        let skip = reading.at.checked_sub(*first).map(usize::try_from);
        let (Some(Ok(skip)), true) = (skip, reading.generation == *generation) else {
            return Poll::Ready(Next::Expired);
        };
        let mut next = Vec::new();
        let mut unread = events.range(skip.min(events.len())..).peekable();
        let enough = reading.sent + bytes;
        while let Some(event) = unread.next_if(|event| next.is_empty() || event.sent < enough) {
            reading.at += 1;
            if event.number > self.after {
                next.push(event.clone());
            }
        }
        reading.sent = unread.peek().map_or(*sent, |event| event.sent);
        let Some(last) = next.last() else {
            return if *closed {
                Poll::Ready(Next::Closed)
            } else {
                Poll::Pending
            };
        };
        self.version = last.version.clone();
        Poll::Ready(Next::Events(next))
    }
}

impl EventLog {
    /// Return how far a reader is behind; None for one that has ended.
    pub fn lag(&self, id: u64) -> Option<Lag> {
        let state = self.state.lock();
        let reading = state.readers.get(&id)?;
        Some(Lag {
            at: reading.at,
            events: state.end().saturating_sub(reading.at),
            bytes: state.sent - reading.sent,
            lost: reading.at < state.first || reading.generation != state.generation,
        })
    }
}

impl Drop for EventReader {
    fn drop(&mut self) {
        let left = self.log.state.lock().readers.remove(&self.id);
        drop(left);
    }
}
