//! What objects take.

use std::ops::{AddAssign, SubAssign};

use super::Object;
use crate::memory::{Memory, block};

/// The bytes of objects, by part, and how many of them are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// What they take with all of their allocations.
    pub memory: Memory,
    /// What the bodies would take plain.
    pub plain: usize,
    /// The number of objects whose body is compressed.
    pub packed: usize,
}

/// The counts of references of an `Arc`.
const COUNTS: usize = 2 * size_of::<usize>();

impl Object {
    /// Return the bytes that the object takes with all of its allocations.
    pub fn memory(&self) -> Memory {
        let own = block(size_of::<Self>() + COUNTS) + block(self.key.len() + COUNTS);
        let content = block(self.body.len());
        let (header, body) = match &self.frame {
            Some(frame) => (own + content, frame.memory()),
            None => (own, content),
        };
        Memory {
            header,
            body,
            ..Memory::default()
        }
    }

    /// Return what the object takes.
    pub fn sizes(&self) -> Sizes {
        Sizes {
            memory: self.memory(),
            plain: self.plain_len(),
            packed: usize::from(self.is_packed()),
        }
    }
}

impl AddAssign for Sizes {
    fn add_assign(&mut self, other: Self) {
        self.memory += other.memory;
        self.plain += other.plain;
        self.packed += other.packed;
    }
}

impl SubAssign for Sizes {
    fn sub_assign(&mut self, other: Self) {
        self.memory -= other.memory;
        self.plain = self.plain.saturating_sub(other.plain);
        self.packed = self.packed.saturating_sub(other.packed);
    }
}
