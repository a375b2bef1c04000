//! The calls of the limiter that have not returned, and the rate-limited adds that share their delay.

use super::slab::Slot;

/// Names one call of the limiter, from [`super::QueueGuard::begin_rate_limited`] to
/// [`super::QueueGuard::finish_rate_limited`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallId(u64);

/// All calls. They are few, if any, and mostly of different keys.
#[derive(Default)]
pub(super) struct LimiterCalls {
    calls: Vec<LimiterCall>,
    made: u64,
}

/// One call.
pub(super) struct LimiterCall {
    id: CallId,
    pub(super) slot: Slot,
    /// The key was forgotten meanwhile: the next failure makes a call of its own, and the delay is no back-off.
    pub(super) forgotten: bool,
    pub(super) followers: Vec<Follower>,
}

/// A rate-limited add during the call for an earlier one of the same key.
#[derive(PartialEq, Eq)]
pub(super) struct Follower {
    pub(super) priority: Option<i32>,
    pub(super) group: Box<str>,
}

impl LimiterCalls {
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    pub(super) fn begin(&mut self, slot: Slot) -> CallId {
        let id = CallId(self.made);
        self.made += 1;
        self.calls.push(LimiterCall {
            id,
            slot,
            forgotten: false,
            followers: Vec::new(),
        });
        id
    }

    /// Remove a call that returned; return it, and whether another one for the same key has not.
    pub(super) fn end(&mut self, id: CallId) -> Option<(LimiterCall, bool)> {
        let place = self.calls.iter().position(|call| call.id == id)?;
        let call = self.calls.swap_remove(place);
        let another = self.of(call.slot).next().is_some();
        Some((call, another))
    }

    /// Share, for an add, the delay of a call that began after the key was last forgotten; return whether there is one.
    pub(super) fn follow(&mut self, slot: Slot, priority: Option<i32>, group: &str) -> bool {
        let Some(call) = self.of(slot).find(|call| !call.forgotten) else {
            return false;
        };
        let follower = Follower {
            priority,
            group: group.into(),
        };
        if !call.followers.contains(&follower) {
            call.followers.push(follower);
        }
        true
    }

    pub(super) fn forget(&mut self, slot: Slot) {
        self.of(slot).for_each(|call| call.forgotten = true);
    }

    fn of(&mut self, slot: Slot) -> impl Iterator<Item = &mut LimiterCall> {
        self.calls.iter_mut().filter(move |call| call.slot == slot)
    }
}
