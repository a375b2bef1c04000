//! The naive twin: a list, searched from its front.

use std::collections::BTreeMap;

use ctrlhost_core::delta_fifo::DeltaType;

/// A delta of the twin: its type, whether it is a tombstone, the version of the object.
pub(crate) type Seen = (DeltaType, bool, u32);

#[derive(Default)]
pub(crate) struct Twin {
    pub(crate) known: BTreeMap<String, u32>,
    pub(crate) queue: Vec<(String, Vec<Seen>)>,
    pub(crate) in_flight: Option<(String, Seen)>,
    pub(crate) populated: bool,
    pub(crate) initial: usize,
}

impl Twin {
    pub(crate) fn busy(&self, key: &str) -> bool {
        self.queue.iter().any(|(queued, _)| queued == key)
            || self.in_flight.as_ref().is_some_and(|(k, _)| k == key)
    }

    pub(crate) fn push(&mut self, key: &str, seen: Seen) {
        let Some((_, deltas)) = self.queue.iter_mut().find(|(queued, _)| queued == key) else {
            self.queue.push((key.to_owned(), vec![seen]));
            return;
        };
        deltas.push(seen);
        if let [
            ..,
            (DeltaType::Deleted, tombstone, _),
            (DeltaType::Deleted, ..),
        ] = deltas[..]
        {
            let dropped = if tombstone {
                deltas.len() - 2
            } else {
                deltas.len() - 1
            };
            deltas.remove(dropped);
        }
    }

    pub(crate) fn replace(&mut self, listed: &[(String, u32)]) {
        for (key, version) in listed {
            self.push(key, (DeltaType::Replaced, false, *version));
        }
        let is_listed = |key: &str| listed.iter().any(|(other, _)| other == key);
        let mut gone = Vec::new();
        for (key, deltas) in &self.queue {
            if !is_listed(key) {
                gone.push((key.clone(), deltas.last().expect("never empty").2));
            }
        }
        if let Some((key, (kind, _, version))) = &self.in_flight
            && *kind != DeltaType::Deleted
            && !is_listed(key)
            && !self.queue.iter().any(|(queued, _)| queued == key)
        {
            gone.push((key.clone(), *version));
        }
        for (key, version) in &self.known {
            if !is_listed(key) && !self.busy(key) {
                gone.push((key.clone(), *version));
            }
        }
        let mut distinct: Vec<_> = listed.iter().map(|(key, _)| key).collect();
        distinct.sort();
        distinct.dedup();
        if !self.populated {
            self.populated = true;
            self.initial = distinct.len() + gone.len();
        }
        for (key, version) in gone {
            self.push(&key, (DeltaType::Deleted, true, version));
        }
    }
}
