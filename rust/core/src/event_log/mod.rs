//! The changes of one resource in the order of the server, for readers that resume at a version.
//!
//! The delta FIFO merges the changes of a key, which mixes up their order. So an informer with readers also writes each
//! change here, before the FIFO, beside the state after all of them. Readers share the log: it has no buffer for any of
//! them, and what it keeps for those behind is bounded.

mod reader;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
pub use reader::{EventReader, Lag, Next};
use smallvec::SmallVec;

use crate::object::{Key, Object};
use crate::store::Twins;
use crate::sync::{Mutex, Rank};

/// How much a log keeps of the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The number of events.
    pub events: usize,
    /// The bytes of the former states that only they keep.
    pub bytes: usize,
}

/// One change, or a bookmark, which has no object.
#[derive(Clone, Debug)]
pub struct Event {
    /// The former state; None for a new object.
    pub old: Option<Arc<Object>>,
    /// The new state; None for a deletion.
    pub new: Option<Arc<Object>>,
    /// The resource version of the change.
    pub version: Arc<str>,
    /// The same as a number; 0 for one that is none.
    number: u64,
    /// The bytes of the objects of all events before it.
    sent: u64,
}

impl Event {
    /// Return what the event keeps: its new state is in the store, or is the old one of a later event.
    fn memory(&self) -> usize {
        size_of::<Self>() + self.old.as_ref().map_or(0, |old| old.memory().sum())
    }
}

/// See the module.
pub struct EventLog {
    window: Window,
    state: Mutex<State>,
    /// Changed since the readers were woken.
    changed: AtomicBool,
    /// Woken by the first change, to wake the readers.
    relay: Mutex<Option<Waker>>,
}

/// All objects, and a reader of what changes afterwards.
pub struct Listed {
    /// The objects, in no order.
    pub objects: Vec<Arc<Object>>,
    /// Reads the events after the list.
    pub reader: EventReader,
}

impl EventLog {
    /// Create a log whose informer holds these objects, at that version; None before its first list.
    pub(crate) fn new(window: Window, content: Option<(Objects, &str)>) -> Self {
        let mut state = State::default();
        if let Some((objects, version)) = content {
            state.replace(objects, version);
        }
        Self {
            window,
            state: Mutex::new(Rank::Events, state),
            changed: AtomicBool::new(false),
            relay: Mutex::new(Rank::Events, None),
        }
    }

    /// Note a change: `new` is None for a deletion.
    pub(crate) fn push(&self, key: &Key, new: Option<&Arc<Object>>, version: &str) {
        let mut state = self.state.lock();
        let old = match new {
            Some(new) => state.objects.insert(key.clone(), new.clone()),
            None => state.objects.remove(key),
        };
        if new.is_none() && old.is_none() {
            return;
        }
        let number = number(version);
        if number <= state.number {
            // A server that goes back in time, or versions that are not numbers: no order to resume in.
            state.restart(version);
            return;
        }
        state.append(old, new.cloned(), version, number);
        state.evict(self.window);
    }

    /// Exchange the objects that are still the first of two twins for the second, which is no change.
    pub(crate) fn exchange(&self, twins: &[Twins]) {
        let mut state = self.state.lock();
        for (old, new) in twins {
            let known = state.objects.get_mut(old.key());
            if let Some(known) = known.filter(|known| Arc::ptr_eq(known, old)) {
                *known = new.clone();
            }
        }
    }

    /// Note that nothing else changed up to this version.
    pub(crate) fn bookmark(&self, version: &str) {
        let mut state = self.state.lock();
        let number = number(version);
        if state.listed && number > state.number {
            state.append(None, None, version, number);
            state.evict(self.window);
        }
    }

    /// Replace everything by a new list: no reader can continue.
    pub(crate) fn replace(&self, objects: &[(Key, Arc<Object>)], version: &str) {
        let objects = objects.iter().cloned().collect();
        let mut state = self.state.lock();
        let former = state.replace(objects, version);
        drop(state);
        drop(former);
        self.wake();
    }

    /// End all readers after what they have not read; the informer has stopped.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let former = std::mem::take(&mut state.objects);
        drop(state);
        drop(former);
        self.wake();
    }

    /// Signal that there are one or more changes: the relay has to wake the readers, once for all that it has not seen.
    /// Without a relay this does.
    pub(crate) fn wake(&self) {
        if self.reader_count() == 0 || self.changed.swap(true, Ordering::AcqRel) {
            return;
        }
        let relay = self.relay.lock().clone();
        match relay {
            Some(relay) => relay.wake(),
            None => self.wake_readers(),
        }
    }

    /// Set the waker of a thread that wakes the readers in place of that of the changes: it calls
    /// [`EventLog::wake_readers`] whenever it is woken.
    pub fn set_relay(&self, relay: &Waker) {
        let mut known = self.relay.lock();
        if known.as_ref().is_none_or(|known| !known.will_wake(relay)) {
            *known = Some(relay.clone());
        }
    }

    /// Wake the readers if there were changes.
    pub fn wake_readers(&self) {
        if !self.changed.swap(false, Ordering::AcqRel) {
            return;
        }
        let wakers: SmallVec<[Waker; 8]> = {
            let state = self.state.lock();
            let readers = state.readers.values();
            readers.filter_map(|reader| reader.waker.clone()).collect()
        };
        for waker in wakers {
            waker.wake();
        }
    }

    /// Return the objects of a namespace, or all for an empty one; None before the first list and after the end.
    pub fn list(self: &Arc<Self>, namespace: &str) -> Option<Listed> {
        let mut state = self.state.lock();
        if !state.listed || state.closed {
            return None;
        }
        let objects = state.objects.values();
        let here = |object: &&Arc<Object>| namespace.is_empty() || object.namespace() == namespace;
        let objects = objects.filter(here).cloned().collect();
        let (at, version) = (state.end(), state.version.clone());
        let reader = state.add_reader(self, at, version);
        Some(Listed { objects, reader })
    }

    /// Return a reader of what changes after a version, or why there is none.
    ///
    /// # Errors
    /// The log does not go back to that version, or has no list.
    pub fn resume(self: &Arc<Self>, version: &str) -> Result<EventReader, NoReader> {
        let mut state = self.state.lock();
        if !state.listed || state.closed {
            return Err(NoReader::NotListed);
        }
        let after = number(version);
        let at = if version == &*state.version {
            state.end()
        } else if after < state.oldest || after == 0 {
            return Err(NoReader::Expired(state.oldest));
        } else {
            state.first + state.events.partition_point(|event| event.number <= after) as u64
        };
        Ok(state.add_reader(self, at, version.into()))
    }

    /// Return whether the first list is complete and the informer runs.
    pub fn is_listed(&self) -> bool {
        let state = self.state.lock();
        state.listed && !state.closed
    }

    /// Return how many readers there are.
    pub fn reader_count(&self) -> usize {
        self.state.lock().readers.len()
    }
}

/// Why a log has no reader for a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoReader {
    /// The first list is not complete, or the informer has stopped.
    NotListed,
    /// The log begins after this version.
    Expired(u64),
}

/// The current state of every object.
pub(crate) type Objects = HashMap<Key, Arc<Object>, RandomState>;

#[derive(Default)]
struct State {
    /// The state after all events.
    objects: Objects,
    events: VecDeque<Event>,
    /// How many events came before those in `events`.
    first: u64,
    /// The memory of `events`.
    bytes: usize,
    /// The bytes of the objects of all events.
    sent: u64,
    /// The version after all events, as text and as a number.
    version: Arc<str>,
    number: u64,
    /// The version before the first of `events`.
    oldest: u64,
    /// Counts the lists. Readers of an earlier one cannot continue.
    generation: u64,
    listed: bool,
    closed: bool,
    readers: HashMap<u64, reader::Reading, RandomState>,
    last_reader: u64,
}

impl State {
    /// Return the place of the next event.
    fn end(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    fn append(
        &mut self,
        old: Option<Arc<Object>>,
        new: Option<Arc<Object>>,
        version: &str,
        number: u64,
    ) {
        let size = new
            .as_ref()
            .or(old.as_ref())
            .map_or(0, |one| one.memory().sum());
        self.version = version.into();
        self.number = number;
        let event = Event {
            old,
            new,
            version: self.version.clone(),
            number,
            sent: self.sent,
        };
        self.sent += size as u64;
        self.bytes += event.memory();
        self.events.push_back(event);
    }

    /// Drop the oldest events beyond the window. The newest one stays, however large it is.
    fn evict(&mut self, window: Window) {
        while self.events.len() > 1
            && (self.events.len() > window.events || self.bytes > window.bytes)
            && let Some(event) = self.events.pop_front()
        {
            self.bytes -= event.memory();
            self.first += 1;
            self.oldest = event.number;
        }
    }

    /// Forget the events: what follows has no order with them.
    fn restart(&mut self, version: &str) {
        self.first = self.end();
        self.events.clear();
        self.bytes = 0;
        self.generation += 1;
        self.version = version.into();
        self.number = number(version);
        self.oldest = self.number;
    }

    fn replace(&mut self, objects: Objects, version: &str) -> Objects {
        self.restart(version);
        self.listed = true;
        std::mem::replace(&mut self.objects, objects)
    }
}

fn number(version: &str) -> u64 {
    version.parse().unwrap_or(0)
}
