//! Merging of two successive changes of one object into one, or two if it was deleted and created again.

use super::Change;

/// Merge two changes, so that their handler misses only states in between.
///
/// With `both_states` the state that the handler knows is not dropped for a deletion: a map names other requests by it
/// than by the last state.
pub(super) fn merge(
    earlier: Change,
    later: Change,
    both_states: bool,
) -> (Option<Change>, Option<Change>) {
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
