//! Bytes of memory, by what they are for.

use std::ops::{AddAssign, SubAssign};
use std::sync::OnceLock;
use std::thread;

/// What cached objects take, by part; with the allocator's share of each block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Keys, and what is read of every object.
    pub header: usize,
    /// The encoded contents.
    pub body: usize,
    /// Indexes with their values.
    pub index: usize,
    /// The tables that find an object by its key.
    pub table: usize,
    /// Dictionaries of compressed bodies.
    pub dictionary: usize,
}

impl Memory {
    /// Return each part under its name in metrics.
    pub fn parts(&self) -> [(&'static str, usize); 5] {
        [
            ("header", self.header),
            ("body", self.body),
            ("index", self.index),
            ("table", self.table),
            ("dictionary", self.dictionary),
        ]
    }

    /// Return the sum of all parts.
    pub fn sum(&self) -> usize {
        self.parts().iter().map(|(_, bytes)| bytes).sum()
    }

    fn combine(&mut self, other: Self, with: fn(usize, usize) -> usize) {
        self.header = with(self.header, other.header);
        self.body = with(self.body, other.body);
        self.index = with(self.index, other.index);
        self.table = with(self.table, other.table);
        self.dictionary = with(self.dictionary, other.dictionary);
    }
}

impl AddAssign for Memory {
    fn add_assign(&mut self, other: Self) {
        self.combine(other, usize::saturating_add);
    }
}

impl SubAssign for Memory {
    fn sub_assign(&mut self, other: Self) {
        self.combine(other, usize::saturating_sub);
    }
}

/// What returns freed memory to the system.
static RELEASE: OnceLock<fn()> = OnceLock::new();

/// Set the function that returns freed memory to the system, for an allocator that keeps it. Only the first call counts.
///
/// It is called after much was freed, on a thread that nobody waits for.
pub fn set_release(release: fn()) {
    let _ = RELEASE.set(release);
}

/// Return freed memory to the system: for a thread that nobody waits for, after it has freed much.
pub(crate) fn release() {
    if let Some(release) = RELEASE.get() {
        release();
    }
}

/// Do so on a thread of its own.
pub(crate) fn release_apart() {
    if let Some(release) = RELEASE.get() {
        let thread = thread::Builder::new().name("ctrlhost-trim".to_owned());
        // Without a thread the memory is returned the next time.
        drop(thread.spawn(release));
    }
}

/// Return what the allocator takes for a block of so many bytes: glibc's header of 8 bytes, rounded up to 16.
pub(crate) fn block(bytes: usize) -> usize {
    if bytes == 0 {
        return 0;
    }
    (bytes + 8).next_multiple_of(16).max(32)
}
