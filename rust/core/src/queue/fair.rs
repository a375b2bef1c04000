//! Turns: within one priority each group hands out one key, then the next group does.

use std::collections::VecDeque;

use hashbrown::HashMap;

use super::list::{Line, List};
use super::slab::{Slab, Slot};
use crate::key::QueueKey;

/// The groups for which some key is queued or delayed. Group 0 is that of queues that are not fair.
#[derive(Default)]
pub(super) struct Groups {
    numbers: HashMap<Box<str>, u32, foldhash::fast::RandomState>,
    /// Name and number of users of each group; free places have no users.
    places: Vec<(Box<str>, u32)>,
    free: Vec<u32>,
}

impl Groups {
    /// Return the number of a group, which one more key uses now.
    pub(super) fn enter(&mut self, name: &str) -> u32 {
        if let Some(&number) = self.numbers.get(name) {
            self.places[number as usize].1 += 1;
            return number;
        }
        let place = (Box::from(name), 1);
        let number = if let Some(number) = self.free.pop() {
            self.places[number as usize] = place;
            number
        } else {
            self.places.push(place);
            u32::try_from(self.places.len() - 1)
                .expect("no more groups than keys, which are counted in 32 bits")
        };
        self.numbers.insert(Box::from(name), number);
        number
    }

    /// Note that one key no longer uses the group.
    pub(super) fn leave(&mut self, number: u32) {
        let (name, users) = &mut self.places[number as usize];
        *users -= 1;
        if *users == 0 {
            self.numbers.remove(&std::mem::take(name));
            self.free.push(number);
        }
    }
}

/// The groups of one level, and whose turn it is.
#[derive(Default)]
pub(super) struct Ring {
    /// Each group with a line in `lines`, once, the next one first.
    turns: VecDeque<u32>,
    /// A line may be empty when its last key moved to another level; its group is dropped when its turn comes.
    lines: HashMap<u32, List, foldhash::fast::RandomState>,
}

impl Ring {
    pub(super) fn push<K: QueueKey>(&mut self, slab: &mut Slab<K>, slot: Slot) {
        let group = slab.get(slot).group;
        let line = self.lines.entry(group).or_insert_with(|| {
            self.turns.push_back(group);
            List::EMPTY
        });
        line.push::<Line, K>(slab, slot);
    }

    pub(super) fn unlink<K: QueueKey>(&mut self, slab: &mut Slab<K>, slot: Slot) {
        if let Some(line) = self.lines.get_mut(&slab.get(slot).group) {
            line.unlink::<Line, K>(slab, slot);
        }
    }

    /// Remove and return the key whose turn it is; None only if the level is empty.
    pub(super) fn pop<K: QueueKey>(&mut self, slab: &mut Slab<K>) -> Option<Slot> {
        while let Some(group) = self.turns.pop_front() {
            let line = self.lines.get_mut(&group)?;
            if line.is_empty() {
                self.lines.remove(&group);
                continue;
            }
            let slot = line.first;
            line.unlink::<Line, K>(slab, slot);
            if line.is_empty() {
                self.lines.remove(&group);
            } else {
                self.turns.push_back(group);
            }
            return Some(slot);
        }
        None
    }
}
