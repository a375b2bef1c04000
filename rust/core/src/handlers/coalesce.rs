//! Coalescing of notifications: those of one object become one, or two if it was deleted and created again.

use std::collections::{HashMap, VecDeque};

use super::Change;
use crate::object::Key;

/// Merge the notifications of each object, in the place of the earlier ones.
pub(super) fn coalesced(pending: VecDeque<Change>) -> VecDeque<Change> {
    let before = pending.len();
    let mut kept: Vec<Option<Change>> = Vec::with_capacity(before);
    let mut last: HashMap<Key, usize> = HashMap::new();
    for change in pending {
        let key = change.key().clone();
        let earlier = last.get(&key).and_then(|at| kept.get_mut(*at)?.take());
        let Some(earlier) = earlier else {
            last.insert(key, kept.len());
            kept.push(Some(change));
            continue;
        };
        let (first, second) = merge(earlier, change);
        if let Some(slot) = last.get(&key).and_then(|at| kept.get_mut(*at)) {
            *slot = first;
        }
        if let Some(second) = second {
            last.insert(key, kept.len());
            kept.push(Some(second));
        }
    }
    kept.into_iter().flatten().collect()
}

/// Merge two successive changes of one object, so that its handler misses only states in between.
fn merge(earlier: Change, later: Change) -> (Option<Change>, Option<Change>) {
    let one = match (earlier, later) {
        (
            Change::Add { initial, .. },
            Change::Update { new, .. } | Change::Add { object: new, .. },
        ) => Change::Add {
            object: new,
            initial,
        },
        // The handler never saw it.
        (Change::Add { .. }, Change::Delete { .. }) => return (None, None),
        (
            Change::Update { old, .. },
            Change::Update { new, .. } | Change::Add { object: new, .. },
        ) => Change::Update { old, new },
        (Change::Update { .. }, later @ Change::Delete { .. }) => later,
        // The first one knows more: the second is of an object that was already gone.
        (earlier @ Change::Delete { .. }, Change::Delete { .. }) => earlier,
        // Two objects of one name are different objects.
        (earlier, later) => return (Some(earlier), Some(later)),
    };
    (Some(one), None)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use super::*;
    use crate::delta_fifo::DeltaObject;
    use crate::handlers::{COALESCE_AFTER, Listener, Next};
    use crate::object::Object;

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

    #[test]
    fn the_backlog_of_a_slow_handler_is_bounded_by_the_number_of_objects() {
        let listener = Listener::default();
        let events = 100 * COALESCE_AFTER;
        let mut known = [pod("a", 0), pod("b", 0), pod("c", 0)];
        listener.push([add(&known[0], true)].iter());
        assert_eq!(drain(&listener), ["a >0"]);
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

    #[test]
    fn an_object_that_came_and_went_is_skipped_and_a_deletion_is_never_lost() {
        let listener = Listener::default();
        let (a, b, again) = (pod("a", 1), pod("b", 2), pod("a", 9));
        listener.informer_synced();
        listener.push([add(&a, true), add(&b, true)].iter());
        assert_eq!(drain(&listener), ["a >1", "b >2"]);
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
        // The merged initial add no longer blocks the sync.
        assert!(listener.has_synced());
        assert_eq!(drain(&listener), ["a 1>", "a >9", "b 5>", "noise >6"]);
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
