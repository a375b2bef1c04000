//! An object that comes: the cached one in the same state, or a new one after the transform.

use std::sync::Arc;

use super::{Counters, Transform};
use crate::decode::RawObject;
use crate::object::{Builder, Object, ObjectError, Taken};
use crate::store::Store;
use crate::sync::assert_none_held;

/// What is told of objects that were not taken as they came.
#[derive(Default)]
pub(super) struct Notes {
    pub(super) last_skip: String,
    pub(super) unknown_fields: u64,
    pub(super) last_unknown: String,
}

/// Return the cached object if it is in the same state, otherwise a new one; and whether it is the cached one.
pub(super) fn build(
    builder: &mut Builder,
    transform: Option<&Arc<dyn Transform>>,
    counters: &Counters,
    notes: &mut Notes,
    store: &Store,
    raw: RawObject<'_>,
) -> Result<(Arc<Object>, bool), ObjectError> {
    let partial = builder.builds_partial();
    let taken = builder.take(raw, &|identity| {
        let known = store.get(&identity.key)?;
        let same =
            known.same_state(&identity.uid, &identity.resource_version) && !known.is_damaged();
        // What was cached without its unknown fields may have come whole now.
        (same && (partial || !known.partial())).then_some(known)
    })?;
    let object = match taken {
        Taken::Known(known) => {
            counters.unchanged.add(1);
            return Ok((known, true));
        }
        Taken::New(object) => Arc::new(object),
    };
    if let Some(unknown) = builder.take_unknown() {
        counters.unknown_fields.add(unknown.count);
        notes.unknown_fields += unknown.count as u64;
        notes.last_unknown = unknown.to_string();
    }
    let Some(transform) = transform else {
        return Ok((object, false));
    };
    assert_none_held();
    let Some(changed) = transform.apply(&object) else {
        counters.transform_errors.add(1);
        return Ok((object, false));
    };
    Ok((object.restore_identity(changed), false))
}

impl Notes {
    pub(super) fn skip(&mut self, counters: &Counters, what: &str, error: &ObjectError) {
        counters.skipped.add(1);
        self.last_skip = format!("{what}: {error}");
    }
}
