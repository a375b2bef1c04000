//! A buffer of notifications for a handler that lives beyond the border.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use super::Change;
use crate::object::Key;

/// A change for one listener.
pub type Notification = Change;

/// So many notifications wait at least before those of one object are merged into fewer.
pub const COALESCE_AFTER: usize = 1024;

#[derive(Default)]
struct State {
    pending: VecDeque<Notification>,
    /// Initial adds that were put in and whose callbacks have not returned.
    initial: usize,
    /// Initial adds in the batch that the handler works on.
    handed_out: usize,
    /// The informer's first list is processed, so no more initial adds come.
    synced: bool,
    closed: bool,
    /// When so many wait, what can be merged is merged.
    coalesce_at: usize,
    /// How many notifications were merged into others.
    merged: u64,
}

/// Notifications in order: a slow handler delays neither the informer nor other handlers.
///
/// What waits is bounded by the number of objects, not of events: once many notifications wait, those of one object
/// become one, which leads from the state that the handler knows to the newest; two where it was deleted and made anew.
pub struct Listener {
    state: Mutex<State>,
    changed: Condvar,
}

impl Default for Listener {
    fn default() -> Self {
        Self::new(true)
    }
}

impl State {
    /// Merge the notifications of each object, and look again when twice as many wait: the cost per change is constant.
    fn coalesce(&mut self) {
        let before = self.pending.len();
        let mut kept: Vec<Option<Change>> = Vec::with_capacity(before);
        let mut last: HashMap<Key, usize> = HashMap::new();
        for change in self.pending.drain(..) {
            let key = change.key().clone();
            let earlier = last.get(&key).and_then(|at| kept.get_mut(*at)?.take());
            let Some(earlier) = earlier else {
                last.insert(key, kept.len());
                kept.push(Some(change));
                continue;
            };
            let (first, second) = match merge(earlier, change) {
                Merged::Nothing => (None, None),
                Merged::One(one) => (Some(one), None),
                Merged::Both(earlier, later) => (Some(earlier), Some(later)),
            };
            if let Some(slot) = last.get(&key).and_then(|at| kept.get_mut(*at)) {
                *slot = first;
            }
            if let Some(second) = second {
                last.insert(key, kept.len());
                kept.push(Some(second));
            }
        }
        self.pending = kept.into_iter().flatten().collect();
        self.merged += (before - self.pending.len()) as u64;
        let waiting = self.pending.iter().filter(|change| change.is_initial());
        self.initial = self.handed_out + waiting.count();
        self.coalesce_at = COALESCE_AFTER.max(2 * self.pending.len());
    }
}

enum Merged {
    Nothing,
    One(Change),
    Both(Change, Change),
}

/// Make one change of two that follow each other for one object, where its handler loses no more than states between.
fn merge(earlier: Change, later: Change) -> Merged {
    match (earlier, later) {
        (
            Change::Add { initial, .. },
            Change::Update { new, .. } | Change::Add { object: new, .. },
        ) => Merged::One(Change::Add {
            object: new,
            initial,
        }),
        // The handler never heard of it.
        (Change::Add { .. }, Change::Delete { .. }) => Merged::Nothing,
        (
            Change::Update { old, .. },
            Change::Update { new, .. } | Change::Add { object: new, .. },
        ) => Merged::One(Change::Update { old, new }),
        (Change::Update { .. }, later @ Change::Delete { .. }) => Merged::One(later),
        // The first one knows more: the second is of something that was gone already.
        (earlier @ Change::Delete { .. }, Change::Delete { .. }) => Merged::One(earlier),
        // Two objects of one name are two.
        (earlier, later) => Merged::Both(earlier, later),
    }
}

/// What [`Listener::next`] found.
pub enum Next {
    /// Notifications, oldest first; never empty.
    Batch(Vec<Notification>),
    /// The deadline passed.
    TimedOut,
    /// The listener was removed; what was pending is dropped.
    Closed,
}

impl Listener {
    /// A listener whose handler has heard nothing yet. One that does not coalesce keeps every change, without a bound.
    pub fn new(coalesce: bool) -> Self {
        let state = State {
            coalesce_at: if coalesce { COALESCE_AFTER } else { usize::MAX },
            ..State::default()
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    /// Put changes in.
    pub fn push<'a>(&self, changes: impl Iterator<Item = &'a Change>) {
        let mut state = self.state.lock();
        if state.closed {
            return;
        }
        let before = state.pending.len();
        for change in changes {
            state.initial += usize::from(change.is_initial());
            state.pending.push_back(change.clone());
        }
        if state.pending.len() > before {
            if state.pending.len() >= state.coalesce_at {
                state.coalesce();
            }
            drop(state);
            self.changed.notify_all();
        }
    }

    /// The batch that was handed out last is handled. Called by the handler's thread when its callbacks returned.
    pub fn done(&self) {
        let mut state = self.state.lock();
        state.initial -= state.handed_out;
        state.handed_out = 0;
        drop(state);
        self.changed.notify_all();
    }

    /// Wait for notifications until the deadline (None: for ever) and take up to `max`. Asking again says that the
    /// batch before is handled.
    pub fn next(&self, max: usize, deadline: Option<Instant>) -> Next {
        self.done();
        let mut state = self.state.lock();
        loop {
            if state.closed {
                return Next::Closed;
            }
            if !state.pending.is_empty() {
                let count = state.pending.len().min(max);
                let batch: Vec<_> = state.pending.drain(..count).collect();
                state.handed_out = batch.iter().filter(|change| change.is_initial()).count();
                return Next::Batch(batch);
            }
            match deadline {
                None => self.changed.wait(&mut state),
                Some(deadline) => {
                    if self.changed.wait_until(&mut state, deadline).timed_out() {
                        return Next::TimedOut;
                    }
                }
            }
        }
    }

    /// The informer has its first list: from now on only outstanding initial adds keep the listener from being synced.
    pub fn informer_synced(&self) {
        self.state.lock().synced = true;
        self.changed.notify_all();
    }

    /// Whether the informer is synced and the handler has returned from every initial add.
    pub fn has_synced(&self) -> bool {
        let state = self.state.lock();
        state.synced && state.initial == 0
    }

    /// How many notifications wait.
    pub fn pending(&self) -> usize {
        self.state.lock().pending.len()
    }

    /// How many notifications were merged into others, since the handler was slower than the changes.
    pub fn merged(&self) -> u64 {
        self.state.lock().merged
    }

    /// Take nothing more; drop what is pending and wake who waits.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let dropped = std::mem::take(&mut state.pending);
        drop(state);
        self.changed.notify_all();
        drop(dropped);
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.state.lock().closed
    }
}

/// A listener that an informer and a handler's thread share.
pub type SharedListener = Arc<Listener>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delta_fifo::DeltaObject;
    use crate::object::{Builder, Object};

    fn pod(name: &str, version: usize) -> Arc<Object> {
        let text = format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","resourceVersion":"{version}"}}}}"#
        );
        Arc::new(
            Builder::new("v1", "Pod")
                .parse(text.as_bytes())
                .expect("a pod"),
        )
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

    fn told(listener: &Listener) -> Vec<String> {
        let Next::Batch(batch) = listener.next(usize::MAX, Some(Instant::now())) else {
            return Vec::new();
        };
        let version = |object: Option<&Arc<Object>>| {
            object.map_or_else(String::new, |object| object.resource_version().into_owned())
        };
        let tell = |change: &Change| {
            let (old, new) = change.states();
            format!("{} {}>{}", change.key(), version(old), version(new))
        };
        batch.iter().map(tell).collect()
    }

    #[test]
    fn what_waits_for_a_slow_handler_is_bounded_by_the_number_of_objects() {
        let listener = Listener::default();
        let events = 100 * COALESCE_AFTER;
        let mut known = [pod("a", 0), pod("b", 0), pod("c", 0)];
        listener.push([add(&known[0], true)].iter());
        assert_eq!(told(&listener), ["a >0"]);
        for version in 1..events {
            let at = version % 3;
            let new = pod(["a", "b", "c"][at], version);
            let change = if known[at].resource_version() == "0" && at > 0 {
                add(&new, false)
            } else {
                update(&known[at], &new)
            };
            known[at] = new;
            listener.push([change].iter());
            assert!(listener.pending() <= COALESCE_AFTER);
        }
        assert!(listener.merged() > (events - 2 * COALESCE_AFTER) as u64);
        let all = told(&listener);
        // Nothing lies between what the handler knew and what it hears first, nor between two things that it hears.
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

    #[test]
    fn an_object_that_came_and_went_unheard_of_is_not_told_and_a_deletion_is_never_lost() {
        let listener = Listener::default();
        let (a, b, again) = (pod("a", 1), pod("b", 2), pod("a", 9));
        listener.informer_synced();
        listener.push([add(&a, true), add(&b, true)].iter());
        assert_eq!(told(&listener), ["a >1", "b >2"]);
        let short = pod("short", 3);
        let mut changes = vec![
            add(&short, true),
            delete(&short),
            delete(&a),
            add(&again, false),
        ];
        changes.push(update(&b, &pod("b", 4)));
        changes.push(delete(&pod("b", 5)));
        let noise = pod("noise", 6);
        changes.push(add(&noise, false));
        changes.resize_with(COALESCE_AFTER, || update(&noise, &noise));
        listener.push(changes.iter());
        assert_eq!(listener.pending(), 4);
        listener.done();
        // The initial add that was merged away keeps nobody waiting.
        assert!(listener.has_synced());
        assert_eq!(told(&listener), ["a 1>", "a >9", "b 5>", "noise >6"]);
    }

    #[test]
    fn a_listener_that_wants_every_change_gets_every_change() {
        let listener = Listener::new(false);
        let a = pod("a", 1);
        let changes = vec![update(&a, &a); 3 * COALESCE_AFTER];
        listener.push(changes.iter());
        assert_eq!(listener.pending(), 3 * COALESCE_AFTER);
        assert_eq!(listener.merged(), 0);
    }
}
