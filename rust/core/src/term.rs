//! Terms of leadership, and what may be sent in them: plain numbers, which any thread compares without a lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::{Clock, Tick};

/// A term of this replica with one lease: its number, from 1, and until when it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// 0 before the first term.
    pub number: u64,
    /// [`Tick::ZERO`] for a term that was ended.
    pub until: Tick,
}

/// The current or last term. One thread at a time writes it; all others read.
pub struct Tenure {
    clock: Arc<dyn Clock>,
    number: AtomicU64,
    until: AtomicU64,
}

impl Tenure {
    /// Start before the first term; terms end by `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            number: AtomicU64::new(0),
            until: AtomicU64::new(0),
        }
    }

    /// Return the clock that terms end by.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Return the current or last term.
    pub fn current(&self) -> Term {
        loop {
            let number = self.number.load(Ordering::SeqCst);
            let until = Tick::from_nanos(self.until.load(Ordering::SeqCst));
            // Numbers only grow, and a term is over before the number changes: both belong together.
            if self.number.load(Ordering::SeqCst) == number {
                return Term { number, until };
            }
        }
    }

    /// Return the number of the current term; None while this replica does not lead.
    pub fn leading(&self) -> Option<u64> {
        let term = self.current();
        (self.clock.now() < term.until).then_some(term.number)
    }

    /// Replace the term.
    pub fn set(&self, term: Term) {
        if self.number.load(Ordering::SeqCst) != term.number {
            self.until.store(0, Ordering::SeqCst);
            self.number.store(term.number, Ordering::SeqCst);
        }
        self.until.store(term.until.as_nanos(), Ordering::SeqCst);
    }

    /// Begin the next term.
    pub fn begin(&self, until: Tick) {
        let number = self.current().number + 1;
        self.set(Term { number, until });
    }

    /// Extend the current term.
    pub fn extend(&self, until: Tick) {
        self.until.store(until.as_nanos(), Ordering::SeqCst);
    }

    /// End the current term now.
    pub fn end(&self) {
        self.extend(Tick::ZERO);
    }
}

/// Says whether a user of requests has ended: nothing of it may be sent from then on.
#[derive(Debug, Default)]
pub struct Fence(AtomicBool);

impl Fence {
    /// Refuse every request from now on.
    pub fn raise(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Return whether requests are refused.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Why a request must not be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Refusal {
    /// Its user has ended.
    Fenced = 1,
    /// It belongs to another term.
    OtherTerm = 2,
    /// This replica does not lead.
    NotLeading = 3,
    /// The lease was not renewed in time.
    Deadline = 4,
}

/// Permits requests until a fence is raised and, for those that need leadership, in one term or in any.
pub struct Permit {
    fence: Arc<Fence>,
    tenure: Option<Arc<Tenure>>,
    term: Option<u64>,
}

impl Permit {
    /// Permit requests until the fence; with `tenure` only while this replica leads, with `term` only in that term.
    pub fn new(fence: Arc<Fence>, tenure: Option<Arc<Tenure>>, term: Option<u64>) -> Self {
        Self {
            fence,
            tenure,
            term,
        }
    }

    /// Return the real time in which bytes may be handed to the kernel, None for no bound.
    ///
    /// # Errors
    /// Why no byte may leave.
    pub fn check(&self) -> Result<Option<Duration>, Refusal> {
        if self.fence.is_raised() {
            return Err(Refusal::Fenced);
        }
        let Some(tenure) = &self.tenure else {
            return Ok(None);
        };
        let term = tenure.current();
        let current = self.term.is_none_or(|own| own == term.number);
        let lasts = tenure.clock.now() < term.until;
        match (current, lasts) {
            (true, true) if term.until == Tick::NEVER => Ok(None),
            (true, true) => Ok(tenure.clock.real_wait(term.until)),
            (false, _) => Err(Refusal::OtherTerm),
            (true, false) if term.until == Tick::ZERO => Err(Refusal::NotLeading),
            (true, false) => Err(Refusal::Deadline),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    fn at(seconds: u64) -> Tick {
        Tick::ZERO.after(Duration::from_secs(seconds))
    }

    #[test]
    fn a_permit_of_a_term_ends_with_its_deadline_its_term_or_the_fence() {
        let clock = Arc::new(ManualClock::new(at(1)));
        let tenure = Arc::new(Tenure::new(clock.clone()));
        let fence = Arc::new(Fence::default());
        let one = Permit::new(fence.clone(), Some(tenure.clone()), Some(1));
        let any = Permit::new(fence.clone(), Some(tenure.clone()), None);
        let every = Permit::new(fence.clone(), None, None);
        assert_eq!(any.check(), Err(Refusal::NotLeading));
        tenure.begin(at(10));
        assert_eq!((one.check(), any.check()), (Ok(None), Ok(None)));
        clock.advance(Duration::from_secs(9));
        assert_eq!(tenure.leading(), None);
        assert_eq!(one.check(), Err(Refusal::Deadline));
        tenure.extend(at(20));
        assert_eq!(tenure.leading(), Some(1));
        tenure.begin(at(30));
        assert_eq!(one.check(), Err(Refusal::OtherTerm));
        assert_eq!(any.check(), Ok(None));
        tenure.end();
        assert_eq!(any.check(), Err(Refusal::NotLeading));
        assert_eq!(every.check(), Ok(None));
        fence.raise();
        for permit in [one, any, every] {
            assert_eq!(permit.check(), Err(Refusal::Fenced));
        }
    }
}
