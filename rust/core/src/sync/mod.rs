//! Locks that know their order, and that let the caller do something sensible while it has to wait for one.
//!
//! Nothing poisons, so a panic in one thread leaves the structures usable for the others.

mod order;
mod primitives;
mod signal;
mod turn;

use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use order::{Held, Ranked};
pub(crate) use order::{Rank, assert_none_held};
pub(crate) use primitives::{AtomicBool, Condvar, ThreadId, this_thread};
pub use signal::Signal;
pub use turn::{Taken, Turn};

/// How often a lock is tried before the thread sleeps. Most locks are held for some tens of nanoseconds.
const TRIES: usize = 40;

/// Runs a wait for a lock, if the thread may not simply wait; returns whether it did.
pub type Blocking = fn(wait: &mut dyn FnMut()) -> bool;

static BLOCKING: OnceLock<Blocking> = OnceLock::new();

/// Ask `blocking` whenever a thread has to wait for a lock of the core. It either returns false, or calls its argument
/// once and returns true: the border releases the interpreter meanwhile, so that no thread waits for a lock while it
/// keeps all others from running.
///
/// After such a wait the thread does not have the lock, since it may have waited again to continue; it tries again.
pub fn set_blocking(blocking: Blocking) {
    // The first one stays; a process has one border.
    let _ = BLOCKING.set(blocking);
}

fn block(wait: &mut dyn FnMut()) -> bool {
    BLOCKING.get().is_some_and(|blocking| blocking(wait))
}

/// Take a lock: with `attempt` if it is free, otherwise with `take`, which waits.
#[inline]
fn acquire<G>(attempt: impl Fn() -> Option<G>, take: impl Fn() -> G) -> G {
    // A model of loom explores the wait itself.
    if cfg!(feature = "loom") {
        return take();
    }
    attempt().unwrap_or_else(|| contended(attempt, take))
}

#[cold]
fn contended<G>(attempt: impl Fn() -> Option<G>, take: impl Fn() -> G) -> G {
    loop {
        for _ in 0..TRIES {
            if let Some(guard) = attempt() {
                return guard;
            }
            std::hint::spin_loop();
        }
        if !block(&mut || drop(take())) {
            return take();
        }
    }
}

/// A value for one thread at a time.
pub(crate) struct Mutex<T> {
    rank: Ranked,
    inner: primitives::Mutex<T>,
}

pub(crate) struct MutexGuard<'a, T> {
    inner: primitives::MutexGuard<'a, T>,
    held: Held,
}

impl<T> Mutex<T> {
    pub(crate) fn new(rank: Rank, value: T) -> Self {
        Self {
            rank: Ranked::new(rank),
            inner: primitives::Mutex::new(value),
        }
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.rank.check();
        acquire(|| self.try_lock(), || self.guard(self.inner.lock()))
    }

    #[inline]
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.inner.try_lock().map(|inner| self.guard(inner))
    }

    #[inline]
    fn guard<'a>(&self, inner: primitives::MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let held = self.rank.hold();
        MutexGuard { inner, held }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

/// Wait until notified, at most `limit` in real time; spurious wake-ups happen.
pub(crate) fn wait<T>(condvar: &Condvar, guard: &mut MutexGuard<'_, T>, limit: Option<Duration>) {
    guard.held.check_wait();
    primitives::wait(condvar, &mut guard.inner, limit);
}

/// Wait until notified; return true, without a wait, if the deadline has passed.
pub(crate) fn wait_until<T>(
    condvar: &Condvar,
    guard: &mut MutexGuard<'_, T>,
    deadline: Option<Instant>,
) -> bool {
    let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    if left.is_some_and(|left| left.is_zero()) {
        return true;
    }
    wait(condvar, guard, left);
    false
}

/// A value for one thread that writes, or many that read.
pub(crate) struct RwLock<T> {
    rank: Ranked,
    inner: primitives::RwLock<T>,
}

pub(crate) struct ReadGuard<'a, T> {
    inner: primitives::RwLockReadGuard<'a, T>,
    _held: Held,
}

pub(crate) struct WriteGuard<'a, T> {
    inner: primitives::RwLockWriteGuard<'a, T>,
    _held: Held,
}

impl<T> RwLock<T> {
    pub(crate) fn new(rank: Rank, value: T) -> Self {
        Self {
            rank: Ranked::new(rank),
            inner: primitives::RwLock::new(value),
        }
    }

    #[inline]
    pub(crate) fn read(&self) -> ReadGuard<'_, T> {
        self.rank.check();
        let guard = |inner| ReadGuard {
            inner,
            _held: self.rank.hold(),
        };
        acquire(
            || primitives::try_read(&self.inner).map(guard),
            || guard(primitives::read(&self.inner)),
        )
    }

    /// Return the value, which nobody else has.
    pub(crate) fn get_mut(&mut self) -> &mut T {
        primitives::get_mut(&mut self.inner)
    }

    #[inline]
    pub(crate) fn write(&self) -> WriteGuard<'_, T> {
        self.rank.check();
        let guard = |inner| WriteGuard {
            inner,
            _held: self.rank.hold(),
        };
        acquire(
            || primitives::try_write(&self.inner).map(guard),
            || guard(primitives::write(&self.inner)),
        )
    }
}

impl<T> Deref for ReadGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> Deref for WriteGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> DerefMut for WriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}
