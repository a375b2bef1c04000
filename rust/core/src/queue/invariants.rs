//! The invariants of a queue's entries, for tests of random operations.

use super::slab::{NONE, Slot, Stage};
use super::state::State;
use crate::clock::Tick;
use crate::key::QueueKey;

impl<K: QueueKey> State<K> {
    /// Panic unless each entry is where its stage says and nowhere else, and every delayed add is in the future.
    pub(super) fn check(&self, now: Tick) {
        let queued = self.in_order_of_age(self.ready.oldest());
        let processing = self.in_order_of_age(Some(self.processing.first));
        assert_eq!(queued.len(), self.ready.len(), "the number of queued keys");
        assert_eq!(processing.len(), self.processing_count, "processed keys");
        let mut dirty = 0;
        let mut delayed = 0;
        for (slot, entry) in self.slab.iter() {
            let places = (queued.contains(&slot), processing.contains(&slot));
            let expected = match entry.stage {
                Stage::Idle => (false, false),
                Stage::Queued => (true, false),
                Stage::Processing | Stage::ProcessingDirty => (false, true),
            };
            assert_eq!(
                places, expected,
                "the lists of an entry in {:?}",
                entry.stage
            );
            dirty += usize::from(entry.stage == Stage::ProcessingDirty);
            let needed = entry.stage != Stage::Idle || entry.delayed != NONE || entry.limiting;
            assert!(needed, "an entry holds nothing");
            if entry.delayed != NONE {
                delayed += 1;
                let add = self.delays.at(entry.delayed).expect("a place in the heap");
                assert_eq!(add.slot, slot, "the entry of a delayed add");
                assert!(add.due > now, "a delayed add that is due was not queued");
            }
        }
        assert_eq!(dirty, self.dirty_count, "keys added again while processed");
        assert_eq!(delayed, self.delays.len(), "delayed adds, one for each key");
    }

    fn in_order_of_age(&self, first: Option<Slot>) -> Vec<Slot> {
        let mut slots = Vec::new();
        let mut slot = first.unwrap_or(NONE);
        while slot != NONE {
            assert!(!slots.contains(&slot), "a key is in a list twice");
            slots.push(slot);
            slot = self.slab.get(slot).newer;
        }
        slots
    }
}
