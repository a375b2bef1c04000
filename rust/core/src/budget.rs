//! The memory budget that informers share, and what each of them takes of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// The part of a budget, in percent, from which on its user is warned.
const WARN_AT: i64 = 80;

/// A limit of the bytes that the objects of several informers take together.
#[derive(Debug)]
pub struct Budget {
    limit: AtomicI64,
    used: AtomicI64,
    warned: AtomicBool,
}

impl Budget {
    /// Create a budget of so many bytes of which nothing is used.
    pub fn new(limit: u64) -> Self {
        Self {
            limit: AtomicI64::new(i64::try_from(limit).unwrap_or(i64::MAX)),
            used: AtomicI64::new(0),
            warned: AtomicBool::new(false),
        }
    }

    /// Return the limit in bytes.
    pub fn limit(&self) -> u64 {
        self.bytes().unsigned_abs()
    }

    /// Change the limit. What is used stays, also beyond it. A warning may be due again.
    pub fn set_limit(&self, limit: u64) {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.limit.store(limit, Ordering::Relaxed);
        self.warned.store(false, Ordering::Relaxed);
    }

    fn bytes(&self) -> i64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Return how many bytes are used.
    pub fn used(&self) -> u64 {
        u64::try_from(self.used.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Return whether so much is used that a warning is due, which is so once.
    pub fn take_warning(&self) -> bool {
        let used = i128::from(self.used.load(Ordering::Relaxed));
        used * 100 >= i128::from(self.bytes()) * i128::from(WARN_AT)
            && !self.warned.swap(true, Ordering::Relaxed)
    }

    /// Use more if it fits; less always fits.
    fn reserve(&self, bytes: i64) -> bool {
        let limit = self.bytes();
        let fitting = |used: i64| {
            let after = used.saturating_add(bytes);
            (bytes <= 0 || after <= limit).then_some(after)
        };
        let (set, get) = (Ordering::Relaxed, Ordering::Relaxed);
        self.used.fetch_update(set, get, fitting).is_ok()
    }

    fn change(&self, bytes: i64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// The memory budget is used up, so that an object was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("memory budget of {limit} bytes reached after {objects} objects")]
pub struct OverBudget {
    /// The limit in bytes.
    pub limit: u64,
    /// The objects that the list or the cache had by then.
    pub objects: usize,
    /// Whether the next list may fit, since what is gone is dropped.
    pub made_room: bool,
    /// Whether a later list may fit, since a dictionary is being learnt with which its objects take less.
    pub learning: bool,
}

/// What one informer takes of a budget. All of it is given back at the end.
#[derive(Debug)]
pub(crate) struct Account {
    budget: Option<Arc<Budget>>,
    /// The objects of the list in progress that the store does not have.
    staged: AtomicI64,
    /// By how much the store will grow with what was taken in and is not processed.
    taken_in: AtomicI64,
    stored: AtomicI64,
    /// The informer has stopped: its objects count no longer, since they go with their last reader.
    closed: AtomicBool,
}

impl Account {
    pub(crate) fn new(budget: Option<Arc<Budget>>) -> Self {
        Self {
            budget,
            staged: AtomicI64::new(0),
            taken_in: AtomicI64::new(0),
            stored: AtomicI64::new(0),
            closed: AtomicBool::new(false),
        }
    }

    /// Return the error of an object that does not fit beside so many.
    pub(crate) fn over_budget(&self, objects: usize) -> OverBudget {
        OverBudget {
            limit: self.budget.as_ref().map_or(0, |budget| budget.limit()),
            objects,
            made_room: false,
            learning: false,
        }
    }

    /// Count a staged object if it fits.
    pub(crate) fn stage(&self, bytes: usize) -> bool {
        self.reserve(&self.staged, signed(bytes))
    }

    /// Return some of what was staged to the budget, since it takes less now.
    pub(crate) fn unstage(&self, bytes: usize) {
        if self.budget.is_some() {
            self.staged.fetch_sub(signed(bytes), Ordering::Relaxed);
            self.change(-signed(bytes));
        }
    }

    /// Count the growth by a change if it fits; `bytes` is a function since only a budget needs it.
    pub(crate) fn take_in(&self, bytes: impl FnOnce() -> i64) -> bool {
        self.budget.is_none() || self.reserve(&self.taken_in, bytes())
    }

    fn reserve(&self, part: &AtomicI64, bytes: i64) -> bool {
        let Some(budget) = self.budget.as_ref().filter(|_| self.is_open()) else {
            return true;
        };
        let fits = budget.reserve(bytes);
        if fits {
            part.fetch_add(bytes, Ordering::Relaxed);
            self.settle_closed();
        }
        fits
    }

    /// Return whether the budget has room for what this informer will hold instead of what it holds.
    pub(crate) fn has_room_for(&self, bytes: usize) -> bool {
        let Some(budget) = &self.budget else {
            return true;
        };
        let own = self.parts().map(|part| part.load(Ordering::Relaxed));
        let others = budget.used.load(Ordering::Relaxed) - own.iter().sum::<i64>();
        others.saturating_add(signed(bytes)) <= budget.bytes()
    }

    /// Count what was staged as taken in.
    pub(crate) fn take_staged(&self) {
        let staged = self.staged.swap(0, Ordering::Relaxed);
        self.taken_in.fetch_add(staged, Ordering::Relaxed);
    }

    /// Return what was staged to the budget.
    pub(crate) fn drop_staged(&self) {
        let staged = self.staged.swap(0, Ordering::Relaxed);
        self.change(-staged);
    }

    /// Count what the store holds after everything taken in was processed.
    pub(crate) fn settle(&self, stored: impl FnOnce() -> usize) {
        if self.is_open() {
            let taken_in = self.taken_in.swap(0, Ordering::Relaxed);
            self.change(-taken_in);
            self.recount(stored);
        }
    }

    /// Count again what the store holds, since its objects take less now.
    pub(crate) fn recount(&self, stored: impl FnOnce() -> usize) {
        if self.is_open() {
            let stored = signed(stored());
            let before = self.stored.swap(stored, Ordering::Relaxed);
            self.change(stored - before);
            self.settle_closed();
        }
    }

    /// Return what was counted while another thread closed the account.
    fn settle_closed(&self) {
        if !self.is_open() {
            self.close();
        }
    }

    fn is_open(&self) -> bool {
        self.budget.is_some() && !self.closed.load(Ordering::Relaxed)
    }

    /// Return everything to the budget for good.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        let own = self.parts().map(|part| part.swap(0, Ordering::Relaxed));
        self.change(-own.iter().sum::<i64>());
    }

    fn change(&self, bytes: i64) {
        if let Some(budget) = &self.budget {
            budget.change(bytes);
        }
    }

    fn parts(&self) -> [&AtomicI64; 3] {
        [&self.staged, &self.taken_in, &self.stored]
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.close();
    }
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
