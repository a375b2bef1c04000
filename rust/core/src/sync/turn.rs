//! A value that one thread uses at a time, without a lock during the use.

use std::ops::{Deref, DerefMut};

use super::{Condvar, Mutex, Rank, block, wait};

/// A value that is handed from one thread to the next. Its user may call beyond the border; readers of other facts
/// never wait for it.
pub struct Turn<T> {
    value: Mutex<Option<T>>,
    free: Condvar,
}

/// The value of a [`Turn`], until this is dropped.
pub struct Taken<'a, T> {
    turn: &'a Turn<T>,
    /// None only while it is dropped.
    value: Option<T>,
}

impl<T> Turn<T> {
    /// Hold a value that is free.
    pub fn new(value: T) -> Self {
        Self {
            value: Mutex::new(Rank::Turn, Some(value)),
            free: Condvar::default(),
        }
    }

    /// Take the value, and wait while another thread has it. A thread that has it already would wait for ever.
    pub fn take(&self) -> Taken<'_, T> {
        loop {
            let value = self.value.lock().take();
            if value.is_some() {
                return Taken { turn: self, value };
            }
            let mut until_free = || {
                let mut value = self.value.lock();
                while value.is_none() {
                    wait(&self.free, &mut value, None);
                }
            };
            if !block(&mut until_free) {
                until_free();
            }
        }
    }
}

impl<T> Deref for Taken<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("present until the drop")
    }
}

impl<T> DerefMut for Taken<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("present until the drop")
    }
}

impl<T> Drop for Taken<'_, T> {
    fn drop(&mut self) {
        *self.turn.value.lock() = self.value.take();
        self.turn.free.notify_one();
    }
}
