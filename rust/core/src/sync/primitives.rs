//! The locks of `parking_lot`, or those of `loom` to explore every interleaving (feature `loom`).

#[cfg(not(feature = "loom"))]
pub(super) use real::*;

#[cfg(feature = "loom")]
pub(super) use modelled::*;

#[cfg(not(feature = "loom"))]
pub(crate) use real::{AtomicBool, Condvar, ThreadId, this_thread};

#[cfg(feature = "loom")]
pub(crate) use modelled::{AtomicBool, Condvar, ThreadId, this_thread};

#[cfg(not(feature = "loom"))]
mod real {
    use std::time::Duration;

    pub(crate) use std::sync::atomic::AtomicBool;
    pub(crate) use std::thread::ThreadId;

    pub(crate) use parking_lot::{
        Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
    };

    pub(crate) fn this_thread() -> ThreadId {
        std::thread::current().id()
    }

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

    pub(crate) fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
        lock.read()
    }

    pub(crate) fn try_read<T>(lock: &RwLock<T>) -> Option<RwLockReadGuard<'_, T>> {
        lock.try_read()
    }

    pub(crate) fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
        lock.write()
    }

    pub(crate) fn try_write<T>(lock: &RwLock<T>) -> Option<RwLockWriteGuard<'_, T>> {
        lock.try_write()
    }

    pub(crate) fn get_mut<T>(lock: &mut RwLock<T>) -> &mut T {
        lock.get_mut()
    }
}

#[cfg(feature = "loom")]
mod modelled {
    use std::time::Duration;

    pub(crate) use loom::sync::atomic::AtomicBool;
    use loom::sync::{Condvar as LoomCondvar, Mutex as LoomMutex, MutexGuard as LoomGuard};
    pub(crate) use loom::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
    pub(crate) use loom::thread::ThreadId;

    /// What loom's locks return, which never poison: a panic ends the model.
    fn sound<T, E>(result: Result<T, E>) -> T {
        let Ok(value) = result else {
            unreachable!("loom's models do not panic under a lock")
        };
        value
    }

    pub(crate) fn this_thread() -> ThreadId {
        loom::thread::current().id()
    }

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
            MutexGuard(Some(sound(self.0.lock())))
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
        guard.0 = Some(sound(condvar.0.wait(inner)));
    }

    pub(crate) fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
        sound(lock.read())
    }

    pub(crate) fn try_read<T>(lock: &RwLock<T>) -> Option<RwLockReadGuard<'_, T>> {
        lock.try_read().ok()
    }

    pub(crate) fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
        sound(lock.write())
    }

    pub(crate) fn try_write<T>(lock: &RwLock<T>) -> Option<RwLockWriteGuard<'_, T>> {
        lock.try_write().ok()
    }

    pub(crate) fn get_mut<T>(lock: &mut RwLock<T>) -> &mut T {
        sound(lock.get_mut())
    }
}
