//! Changes that wait for a handler, where those of one object are merged.

use std::collections::BTreeMap;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use super::{Bounds, Change};
use crate::object::Key;

/// Changes in the order of their arrival.
#[derive(Default)]
pub(super) struct Pending {
    /// By the number of its arrival.
    changes: BTreeMap<u64, Change>,
    /// The last one of each object.
    last: HashMap<Key, u64, RandomState>,
    arrived: u64,
    /// The number of initial adds.
    pub(super) initial: usize,
    /// The number of changes that were merged into others.
    pub(super) merged: usize,
}

impl Pending {
    pub(super) fn len(&self) -> usize {
        self.changes.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Append a change, or merge it with an earlier one of its object.
    pub(super) fn push(&mut self, change: Change, bounds: Bounds) {
        let known = self.last.get(change.key()).copied();
        let earlier = known
            .filter(|_| self.len() >= bounds.merge_from)
            .and_then(|at| Some((at, self.remove(at)?)));
        let Some((at, earlier)) = earlier else {
            return self.append(change);
        };
        let (first, second) = merge(earlier, change, bounds.both_states);
        self.merged += 2 - usize::from(first.is_some()) - usize::from(second.is_some());
        if let Some(first) = first {
            self.put(at, first);
        }
        if let Some(second) = second {
            self.append(second);
        }
    }

    fn append(&mut self, change: Change) {
        self.arrived += 1;
        self.put(self.arrived, change);
    }

    fn put(&mut self, at: u64, change: Change) {
        self.initial += usize::from(change.is_initial());
        self.last.insert(change.key().clone(), at);
        self.changes.insert(at, change);
    }

    fn remove(&mut self, at: u64) -> Option<Change> {
        let change = self.changes.remove(&at)?;
        self.initial -= usize::from(change.is_initial());
        if self.last.get(change.key()) == Some(&at) {
            self.last.remove(change.key());
        }
        Some(change)
    }

    /// Take the oldest one.
    pub(super) fn take(&mut self) -> Option<Change> {
        let at = *self.changes.first_key_value()?.0;
        self.remove(at)
    }

    /// Take all of them; the counter of merged ones stays.
    pub(super) fn take_all(&mut self) -> Self {
        let merged = self.merged;
        std::mem::replace(
            self,
            Self {
                merged,
                ..Self::default()
            },
        )
    }
}

/// Merge two changes, so that their handler misses only states in between.
///
/// With `both_states` the state that the handler knows is not dropped for a deletion: a map names other requests by it
/// than by the last state. Nor is a deletion dropped with the addition: who reads his own writes knows the object.
fn merge(earlier: Change, later: Change, both_states: bool) -> (Option<Change>, Option<Change>) {
    let one = match (earlier, later) {
        (
            Change::Add { initial, .. },
            Change::Update { new, .. } | Change::Add { object: new, .. },
        ) => Change::Add {
            object: new,
            initial,
        },
        // The handler never saw it.
        (Change::Add { .. }, later @ Change::Delete { .. }) => {
            return (None, both_states.then_some(later));
        }
        (
            Change::Update { old, .. },
            Change::Update { new, .. } | Change::Add { object: new, .. },
        ) => Change::Update { old, new },
        (Change::Update { old, new }, later @ Change::Delete { .. }) => {
            if both_states {
                let new = later.states().0.cloned().unwrap_or(new);
                return (Some(Change::Update { old, new }), Some(later));
            }
            later
        }
        // The first one knows more: the second is of an object that was already gone.
        (earlier @ Change::Delete { .. }, Change::Delete { .. }) => earlier,
        // Two objects of one name are different objects.
        (earlier, later) => return (Some(earlier), Some(later)),
    };
    (Some(one), None)
}
