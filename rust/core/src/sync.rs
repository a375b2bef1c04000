//! Locks of `parking_lot`, or of `loom` to explore every interleaving (feature `loom`).
//!
//! Neither poisons, so a panic in one thread leaves the queue usable for the others.

#[cfg(not(feature = "loom"))]
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};

#[cfg(not(feature = "loom"))]
mod wait {
    use std::time::Duration;

    use super::{Condvar, MutexGuard};

    /// Wait until notified, at most `limit` in real time; spurious wake-ups happen.
    pub(crate) fn wait<T>(
        condvar: &Condvar,
        guard: &mut MutexGuard<'_, T>,
        limit: Option<Duration>,
    ) {
        match limit {
            None => condvar.wait(guard),
            Some(limit) => {
                condvar.wait_for(guard, limit);
            }
        }
    }
}

#[cfg(feature = "loom")]
mod wait {
    use std::time::Duration;

    use loom::sync::{Condvar as LoomCondvar, Mutex as LoomMutex, MutexGuard as LoomGuard};

    #[derive(Default)]
    pub(crate) struct Condvar(LoomCondvar);

    impl Condvar {
        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    pub(crate) struct Mutex<T>(LoomMutex<T>);

    /// The guard is in an option, because loom's wait takes it by value.
    pub(crate) struct MutexGuard<'a, T>(Option<LoomGuard<'a, T>>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(LoomMutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            MutexGuard(Some(
                self.0
                    .lock()
                    .expect("loom's models do not panic under the lock"),
            ))
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok().map(|guard| MutexGuard(Some(guard)))
        }
    }

    impl<T> std::ops::Deref for MutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.0.as_ref().expect("taken only during a wait")
        }
    }

    impl<T> std::ops::DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_mut().expect("taken only during a wait")
        }
    }

    /// Wait until notified; loom knows no time, so the model's manual clock applies the limit.
    pub(crate) fn wait<T>(
        condvar: &Condvar,
        guard: &mut MutexGuard<'_, T>,
        _limit: Option<Duration>,
    ) {
        let inner = guard.0.take().expect("taken only during a wait");
        guard.0 = Some(
            condvar
                .0
                .wait(inner)
                .expect("loom's models do not panic under the lock"),
        );
    }
}

#[cfg(feature = "loom")]
pub(crate) use wait::{Condvar, Mutex, MutexGuard};

pub(crate) use wait::wait;
