//! A buffer of notifications for a handler beyond the border.

use std::sync::Arc;
use std::time::Instant;

use super::Change;
use super::pending::Pending;
use crate::sync::{Condvar, Mutex, Rank, Signal, ThreadId};
use crate::sync::{assert_none_held, this_thread, wait_until};

/// How many notifications a listener keeps.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The number of pending notifications from which a further one is merged with an earlier one of its object.
    pub merge_from: usize,
    /// Keep the state that the handler knows when an object was changed and deleted.
    pub both_states: bool,
    /// More pending notifications than this close the listener,
    pub limit: usize,
    /// unless they are no more than this many for each object of the informer.
    pub per_object: usize,
}

impl Bounds {
    /// Merge from that many pending notifications on; without a limit.
    pub fn merging_from(merge_from: usize) -> Self {
        Self {
            merge_from,
            both_states: false,
            limit: usize::MAX,
            per_object: 0,
        }
    }
}

#[derive(Default)]
struct State {
    pending: Pending,
    /// Initial adds in the batch that the handler is processing.
    handed_out: usize,
    /// The thread that processes a batch.
    busy: Option<ThreadId>,
    /// The informer's first list is processed, so no further initial adds come.
    synced: bool,
    closed: bool,
    /// Wakes the thread of the handler.
    signal: Option<Arc<Signal>>,
}

/// Called when a listener was closed because it was full; no lock is held.
pub type OnFull = Box<dyn Fn() + Send + Sync>;

/// Ordered notifications: a slow handler delays neither the informer nor other handlers.
///
/// Pending notifications are bounded by the number of objects, not of events: those of one object become one, from the
/// state that the handler knows to the newest; two if it was deleted and created again.
pub struct Listener {
    bounds: Bounds,
    on_full: Option<OnFull>,
    state: Mutex<State>,
    changed: Condvar,
}

impl State {
    fn take(&mut self) -> Option<Change> {
        let change = self.pending.take()?;
        self.handed_out += usize::from(change.is_initial());
        self.busy = Some(this_thread());
        Some(change)
    }

    fn raise(&self) {
        if let Some(signal) = &self.signal {
            signal.raise();
        }
    }

    /// Ignore further changes, and return what is pending, to be dropped without the lock.
    fn close(&mut self) -> Pending {
        self.closed = true;
        self.raise();
        self.pending.take_all()
    }
}

/// The result of [`Listener::next`].
pub enum Next {
    /// Notifications, oldest first; never empty.
    Batch(Vec<Change>),
    /// The deadline passed.
    TimedOut,
    /// The listener was removed; pending notifications were dropped.
    Closed,
}

impl Listener {
    /// Create a listener.
    pub fn new(bounds: Bounds, on_full: Option<OnFull>) -> Self {
        Self {
            bounds,
            on_full,
            state: Mutex::new(Rank::Listener, State::default()),
            changed: Condvar::default(),
        }
    }

    /// Append changes; the informer has so many `objects`. Return how many notifications were merged into others.
    pub fn push<'a>(&self, changes: impl Iterator<Item = &'a Change>, objects: usize) -> usize {
        let mut state = self.state.lock();
        if state.closed {
            return 0;
        }
        let merged = state.pending.merged;
        for change in changes {
            state.pending.push(change.clone(), self.bounds);
        }
        let merged = state.pending.merged - merged;
        let limit = self
            .bounds
            .limit
            .max(objects.saturating_mul(self.bounds.per_object));
        if state.pending.len() > limit {
            let dropped = state.close();
            drop(state);
            self.changed.notify_all();
            drop(dropped);
            assert_none_held();
            if let Some(on_full) = &self.on_full {
                on_full();
            }
        } else if !state.pending.is_empty() {
            state.raise();
            drop(state);
            self.changed.notify_all();
        }
        merged
    }

    /// Raise a signal for pending changes, present and future, and when the listener is closed.
    pub fn wake(&self, signal: Arc<Signal>) {
        let mut state = self.state.lock();
        if !state.pending.is_empty() || state.closed {
            signal.raise();
        }
        state.signal = Some(signal);
    }

    /// Note that the last batch is handled. Called by the handler's thread when its callbacks have returned.
    pub fn done(&self) {
        let mut state = self.state.lock();
        state.handed_out = 0;
        state.busy = None;
        drop(state);
        self.changed.notify_all();
    }

    /// Take the oldest change; None if there is none, or the listener is closed. [`Listener::done`] comes afterwards.
    pub fn take(&self) -> Option<Change> {
        self.state.lock().take()
    }

    /// Wait for notifications until the deadline (None: for ever) and take up to `max`. The call also means that the
    /// last batch is handled.
    pub fn next(&self, max: usize, deadline: Option<Instant>) -> Next {
        self.done();
        let mut state = self.state.lock();
        loop {
            if state.closed {
                return Next::Closed;
            }
            if !state.pending.is_empty() {
                let count = state.pending.len().min(max);
                return Next::Batch((0..count).filter_map(|_| state.take()).collect());
            }
            if wait_until(&self.changed, &mut state, deadline) {
                return Next::TimedOut;
            }
        }
    }

    /// Wait until no other thread processes a batch; return false at the deadline (None: wait for ever).
    pub fn wait_idle(&self, deadline: Option<Instant>) -> bool {
        let mut state = self.state.lock();
        while state.busy.is_some_and(|thread| thread != this_thread()) {
            if wait_until(&self.changed, &mut state, deadline) {
                return false;
            }
        }
        true
    }

    /// Note that the informer has its first list: from now on only pending initial adds keep the listener from being
    /// synced.
    pub fn informer_synced(&self) {
        self.state.lock().synced = true;
        self.changed.notify_all();
    }

    /// Return whether the informer is synced and the handler has returned from every initial add.
    pub fn has_synced(&self) -> bool {
        let state = self.state.lock();
        state.synced && state.pending.initial + state.handed_out == 0
    }

    /// Return the number of pending notifications, plus one while the handler processes others.
    pub fn pending(&self) -> usize {
        let state = self.state.lock();
        state.pending.len() + usize::from(state.busy.is_some())
    }

    /// Return the number of notifications merged into others because the handler was slower than the changes.
    pub fn merged(&self) -> usize {
        self.state.lock().pending.merged
    }

    /// Close the listener: drop what is pending, ignore further changes, and wake all waiting threads.
    pub fn close(&self) {
        let mut state = self.state.lock();
        let dropped = state.close();
        drop(state);
        self.changed.notify_all();
        drop(dropped);
    }

    /// Return whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.state.lock().closed
    }
}

/// A listener shared by an informer and the thread of a handler.
pub type SharedListener = Arc<Listener>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delta_fifo::DeltaObject;
    use crate::object::Object;

    const HANDLER: Bounds = Bounds {
        merge_from: 1024,
        both_states: false,
        limit: usize::MAX,
        per_object: 0,
    };
    const MAP: Bounds = Bounds {
        merge_from: 0,
        both_states: true,
        limit: 3,
        per_object: 2,
    };

    fn pod(name: &str, version: usize) -> Arc<Object> {
        crate::handlers::pod(&format!(r#""name":"{name}","resourceVersion":"{version}""#))
    }

    fn add(object: &Arc<Object>, initial: bool) -> Change {
        Change::Add {
            object: object.clone(),
            initial,
        }
    }

    fn update(old: &Arc<Object>, new: &Arc<Object>) -> Change {
        Change::Update {
            old: old.clone(),
            new: new.clone(),
        }
    }

    fn delete(object: &Arc<Object>) -> Change {
        Change::Delete {
            key: object.key().clone(),
            object: DeltaObject::Live(object.clone()),
        }
    }

    fn drain(listener: &Listener) -> Vec<String> {
        let Next::Batch(batch) = listener.next(usize::MAX, Some(Instant::now())) else {
            return Vec::new();
        };
        let version = |object: Option<&Arc<Object>>| {
            object.map_or_else(String::new, |object| object.resource_version().into_owned())
        };
        let show = |change: &Change| {
            let (old, new) = change.states();
            format!("{} {}>{}", change.key(), version(old), version(new))
        };
        batch.iter().map(show).collect()
    }

    // behaviour: supervision/IN8
    #[test]
    fn the_backlog_of_a_slow_handler_is_bounded_by_the_number_of_objects() {
        for bounds in [HANDLER, MAP] {
            let listener = Listener::new(
                Bounds {
                    limit: usize::MAX,
                    ..bounds
                },
                None,
            );
            let events = 100_000;
            let mut known = [pod("a", 0), pod("b", 0), pod("c", 0)];
            listener.push([add(&known[0], true)].iter(), 1);
            assert_eq!(drain(&listener), ["a >0"]);
            let mut merged = 0;
            for version in 1..events {
                let at = version % 3;
                let new = pod(["a", "b", "c"][at], version);
                let change = if known[at].resource_version() == "0" && at > 0 {
                    add(&new, false)
                } else {
                    update(&known[at], &new)
                };
                known[at] = new;
                merged += listener.push([change].iter(), 3);
                assert!(listener.pending() <= bounds.merge_from + 3 + 1);
            }
            assert_eq!(listener.merged(), merged);
            assert!(merged > events - bounds.merge_from - 5);
            let all = drain(&listener);
            // There is no gap between the handler's state and its first notification, nor between any two.
            for (name, first) in [("a", "0"), ("b", ""), ("c", "")] {
                let mut last = first.to_owned();
                for change in all.iter().filter(|one| one.starts_with(name)) {
                    let (old, new) = change[2..].split_once('>').expect("two versions");
                    assert_eq!(old, last);
                    new.clone_into(&mut last);
                }
                let newest = known.iter().find(|object| object.name() == name);
                assert_eq!(
                    newest.map(|object| object.resource_version().into_owned()),
                    Some(last)
                );
            }
        }
    }

    // behaviour: supervision/IN7
    #[test]
    fn an_object_that_came_and_went_is_skipped_and_a_deletion_is_never_lost() {
        let (a, b, again, short) = (pod("a", 1), pod("b", 2), pod("a", 9), pod("short", 3));
        for both_states in [false, true] {
            let bounds = Bounds {
                both_states,
                limit: usize::MAX,
                ..MAP
            };
            let listener = Listener::new(bounds, None);
            listener.informer_synced();
            listener.push([add(&a, true), add(&b, true)].iter(), 2);
            assert_eq!(drain(&listener), ["a >1", "b >2"]);
            let changes = [
                add(&short, true),
                delete(&short),
                delete(&a),
                add(&again, false),
                update(&b, &pod("b", 4)),
                delete(&pod("b", 5)),
            ];
            listener.push(changes.iter(), 3);
            listener.done();
            // The merged initial add no longer blocks the sync.
            assert!(listener.has_synced());
            // A map also names the requests of the state that it knows.
            let gone: &[&str] = if both_states {
                &["b 2>5", "b 5>"]
            } else {
                &["b 5>"]
            };
            assert_eq!(drain(&listener), [&["a 1>", "a >9"], gone].concat());
        }
    }

    #[test]
    fn a_listener_that_wants_every_change_gets_every_change() {
        let listener = Listener::new(Bounds::merging_from(usize::MAX), None);
        let a = pod("a", 1);
        let changes = vec![update(&a, &a); 3000];
        listener.push(changes.iter(), 1);
        assert_eq!(listener.pending(), 3000);
        assert_eq!(listener.merged(), 0);
    }

    // behaviour: supervision/IN9
    #[test]
    fn a_listener_beyond_its_limit_is_closed_and_says_so_once() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static CALLS: AtomicUsize = AtomicUsize::new(0);
        let on_full: OnFull = Box::new(|| {
            CALLS.fetch_add(1, Ordering::SeqCst);
        });
        let listener = Listener::new(MAP, Some(on_full));
        let pods: Vec<_> = (0..7).map(|number| pod(&format!("p{number}"), 1)).collect();
        // Twice as many as the informer has objects are accepted.
        listener.push(
            pods[..6]
                .iter()
                .map(|one| add(one, false))
                .collect::<Vec<_>>()
                .iter(),
            3,
        );
        assert_eq!((listener.pending(), listener.is_closed()), (6, false));
        listener.push([add(&pods[6], false)].iter(), 3);
        listener.push([add(&pods[6], false)].iter(), 3);
        assert_eq!((listener.pending(), listener.is_closed()), (0, true));
        assert_eq!(CALLS.load(Ordering::SeqCst), 1);
    }
}
