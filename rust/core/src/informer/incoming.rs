//! An object that comes: the cached one in the same state, or a new one after the transform.

use std::cell::Cell;
use std::sync::Arc;

use super::bookmarks::is_older;
use super::shard::{Admission, Shard};
use super::{Counters, Transform};
use crate::decode::RawObject;
use crate::delta_fifo::{DeltaFifo, DeltaObject};
use crate::object::{Builder, Decision, Key, Object, ObjectError, Taken};
use crate::store::Store;
use crate::sync::assert_none_held;

/// What is told of objects that were not taken as they came.
#[derive(Default)]
pub(super) struct Notes {
    pub(super) last_skip: String,
    pub(super) unknown_fields: u64,
    pub(super) last_unknown: String,
}

/// What came.
pub(super) enum Incoming {
    /// The cached object in the same state, or one that is new or has changed; and whether it is the cached one.
    Object(Arc<Object>, bool),
    /// An object that is not taken.
    Left(Left),
}

/// An object that another replica holds, or whose state was listed already.
pub(super) struct Left {
    pub(super) key: Key,
    pub(super) version: String,
    admission: Admission,
    /// It may have been held here before.
    moves: bool,
}

impl Left {
    /// Delete the cached object that this event shows to have gone to another owner, or to be gone.
    pub(super) fn release(self, deleted: bool, fifo: &DeltaFifo, store: &Store) {
        if !self.moves {
            return;
        }
        let known = store.get(&self.key);
        let version = known.as_ref().map(|known| known.resource_version());
        let is_earlier = version
            .as_ref()
            .is_some_and(|known| is_older(known, &self.version));
        let is_later = version
            .as_ref()
            .is_some_and(|known| is_older(&self.version, known));
        let is_gone = match self.admission {
            Admission::Foreign => !is_later,
            Admission::Own | Admission::Past => deleted && is_earlier,
        };
        drop(version);
        if is_gone {
            fifo.delete(self.key, DeltaObject::Tombstone(known), Some(store));
        }
    }
}

/// Return the cached object if it is in the same state, otherwise a new one; unless the `shard` does not take it.
pub(super) fn build(
    builder: &mut Builder,
    transform: Option<&Arc<dyn Transform>>,
    counters: &Counters,
    notes: &mut Notes,
    store: &Store,
    shard: Option<(&Shard, bool)>,
    raw: RawObject<'_>,
) -> Result<Incoming, ObjectError> {
    let partial = builder.builds_partial();
    let admission = Cell::new(Admission::Own);
    let taken = builder.take(raw, &|identity| {
        if let Some((shard, staged)) = shard {
            admission.set(shard.admit(identity, staged));
            if admission.get() != Admission::Own {
                return Decision::Refuse;
            }
        }
        let Some(known) = store.get(&identity.key) else {
            return Decision::Build;
        };
        if shard.is_some_and(|(shard, staged)| !staged && shard.is_behind())
            && is_older(&identity.resource_version, &known.resource_version())
        {
            admission.set(Admission::Past);
            return Decision::Refuse;
        }
        let same =
            known.same_state(&identity.uid, &identity.resource_version) && !known.is_damaged();
        // What was cached without its unknown fields may have come whole now.
        if same && (partial || !known.partial()) {
            Decision::Known(known)
        } else {
            Decision::Build
        }
    })?;
    let object = match taken {
        Taken::Refused(key, version) => {
            if admission.get() == Admission::Foreign {
                counters.filtered.add(1);
            }
            return Ok(Incoming::Left(Left {
                key,
                version,
                admission: admission.get(),
                moves: shard.is_some_and(|(shard, _)| shard.moves()),
            }));
        }
        Taken::Known(known) => {
            counters.unchanged.add(1);
            return Ok(Incoming::Object(known, true));
        }
        Taken::New(object) => Arc::new(object),
    };
    if let Some(unknown) = builder.take_unknown() {
        counters.unknown_fields.add(unknown.count);
        notes.unknown_fields += unknown.count as u64;
        notes.last_unknown = unknown.to_string();
    }
    let Some(transform) = transform else {
        return Ok(Incoming::Object(object, false));
    };
    assert_none_held();
    let Some(changed) = transform.apply(&object) else {
        counters.transform_errors.add(1);
        return Ok(Incoming::Object(object, false));
    };
    Ok(Incoming::Object(object.restore_identity(changed), false))
}

impl Notes {
    pub(super) fn skip(&mut self, counters: &Counters, what: &str, error: &ObjectError) {
        counters.skipped.add(1);
        self.last_skip = format!("{what}: {error}");
    }
}
