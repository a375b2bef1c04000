//! Counts of a listener.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// What a listener has counted. Several listeners may share it.
#[derive(Debug, Default)]
pub struct Counts {
    requests: Mutex<BTreeMap<u16, u64>>,
    rejected: Mutex<BTreeMap<&'static str, u64>>,
}

impl Counts {
    /// Return the numbers of requests by status.
    pub fn requests(&self) -> BTreeMap<u16, u64> {
        self.requests.lock().clone()
    }

    /// Return how many connections were closed or refused, by reason.
    pub fn rejected(&self) -> BTreeMap<&'static str, u64> {
        self.rejected.lock().clone()
    }

    pub(super) fn answer(&self, status: u16) {
        *self.requests.lock().entry(status).or_default() += 1;
    }

    pub(super) fn reject(&self, reason: &'static str) {
        *self.rejected.lock().entry(reason).or_default() += 1;
    }
}
