//! The order of the core's locks: the one place that says which lock may be taken under which.

/// The locks, outermost first. A thread that has one may take only those below it.
///
/// | lock | protects | taken under it |
/// |--|--|--|
/// | `Writing` | whose turn it is to write to a store; readers do not take it | `Reached` and all below |
/// | `Reached` | the version up to which an informer has processed | `Input`, `Fifo`, `Store` |
/// | `Registry` | the handlers of an informer | `Fifo` |
/// | `Input` | what an informer's feed has reported | |
/// | `Fifo` | the deltas | |
/// | `Store` | objects and indexes, for at most 64 writes | `Progress`, `Signal` |
/// | `Progress` | how far an index of a function in Python has come | |
/// | `Events` | the event log of an informer, and which log it has | |
/// | `Attached` | whether a handler is removed, and who notifies it | |
/// | `Listener` | the notifications for a handler in Python | `Signal` |
/// | `OwnerScope` | the requests that wait until it is known whether an owner has a namespace | |
/// | `Notes` | what a reflector is told of its stream | |
/// | `Decoders` | the tasks that wait for a decode thread | |
/// | `Signal` | whether a thread has work | |
/// | `Causes` | the changes that added chosen requests | |
/// | `Queue` | a work queue | `Limiter`, `Clock` |
/// | `Limiter` | the failures of keys, the level of a bucket | `Clock` |
/// | `Clock` | the waiters of a manual clock | |
/// | `Turn` | whose turn it is; see [`super::Turn`] | |
///
/// Nothing beyond the border (handlers, predicates, maps, transforms, index functions, queues in Python) is called
/// under any of them: [`assert_none_held`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    Writing,
    Reached,
    Registry,
    Input,
    Fifo,
    Store,
    Progress,
    Events,
    Attached,
    Listener,
    OwnerScope,
    Notes,
    Decoders,
    Signal,
    Causes,
    Queue,
    Limiter,
    Clock,
    Turn,
}

pub(super) use ranks::{Held, Ranked};

/// Assert that this thread has no lock, before a call beyond the border; only in debug builds.
#[inline]
pub(crate) fn assert_none_held() {
    ranks::assert_none_held();
}

// Loom runs its threads on one thread of the system, where they would share the list of held locks.
#[cfg(all(debug_assertions, not(feature = "loom")))]
mod ranks {
    use std::cell::RefCell;

    use super::Rank;

    thread_local! {
        static HELD: RefCell<Vec<Rank>> = const { RefCell::new(Vec::new()) };
    }

    /// The rank of a lock.
    pub(in super::super) struct Ranked(Rank);

    /// Marks a lock as held by this thread until it is dropped.
    pub(in super::super) struct Held(Rank);

    impl Ranked {
        pub(in super::super) fn new(rank: Rank) -> Self {
            Self(rank)
        }

        /// Assert that this thread may wait for the lock.
        pub(in super::super) fn check(&self) {
            HELD.with_borrow(|held| {
                assert!(
                    held.iter().all(|above| *above < self.0),
                    "lock order: {:?} was requested under {held:?}",
                    self.0
                );
            });
        }

        pub(in super::super) fn hold(&self) -> Held {
            HELD.with_borrow_mut(|held| held.push(self.0));
            Held(self.0)
        }
    }

    impl Held {
        /// Assert that this is the only lock of the thread, which is about to wait on a condition of it.
        pub(in super::super) fn check_wait(&self) {
            HELD.with_borrow(|held| {
                assert_eq!(**held, [self.0], "a wait keeps other locks");
            });
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            HELD.with_borrow_mut(|held| {
                if let Some(at) = held.iter().rposition(|rank| *rank == self.0) {
                    held.remove(at);
                }
            });
        }
    }

    pub(super) fn assert_none_held() {
        HELD.with_borrow(|held| {
            assert!(held.is_empty(), "called beyond the border under {held:?}");
        });
    }
}

#[cfg(not(all(debug_assertions, not(feature = "loom"))))]
mod ranks {
    use super::Rank;

    pub(in super::super) struct Ranked;
    pub(in super::super) struct Held;

    impl Ranked {
        #[inline]
        pub(in super::super) fn new(_: Rank) -> Self {
            Self
        }

        #[inline]
        #[expect(clippy::unused_self, reason = "debug builds use it")]
        pub(in super::super) fn check(&self) {}

        #[inline]
        #[expect(clippy::unused_self, reason = "debug builds use it")]
        pub(in super::super) fn hold(&self) -> Held {
            Held
        }
    }

    impl Held {
        #[inline]
        #[expect(clippy::unused_self, reason = "debug builds use it")]
        pub(in super::super) fn check_wait(&self) {}
    }

    #[inline]
    pub(super) fn assert_none_held() {}
}

#[cfg(all(test, debug_assertions, not(feature = "loom")))]
mod tests {
    use super::*;
    use crate::sync::{Mutex, RwLock};

    #[test]
    fn locks_in_order_are_accepted_and_may_be_released_in_any_order() {
        let (fifo, store) = (Mutex::new(Rank::Fifo, ()), RwLock::new(Rank::Store, ()));
        let (outer, inner) = (fifo.lock(), store.read());
        drop(outer);
        drop(inner);
        assert_none_held();
        drop(store.write());
        drop(fifo.lock());
    }

    #[test]
    #[should_panic(expected = "lock order: Fifo was requested under [Store]")]
    fn a_lock_against_the_order_is_refused() {
        let (fifo, store) = (Mutex::new(Rank::Fifo, ()), RwLock::new(Rank::Store, ()));
        let _inner = store.read();
        drop(fifo.lock());
    }

    #[test]
    #[should_panic(expected = "called beyond the border under [Registry]")]
    fn a_call_beyond_the_border_under_a_lock_is_refused() {
        let registry = Mutex::new(Rank::Registry, ());
        let _held = registry.lock();
        assert_none_held();
    }
}
