//! The open containers, and the recorded members of some of them.

use super::{LEVELS, Member, Scan, ScanError, Shape, Span, State};
use crate::json::text::key_is;

impl Scan {
    pub(super) fn in_object(&self) -> bool {
        let bit = self.depth.wrapping_sub(1);
        self.objects
            .get(bit / 64)
            .is_some_and(|word| word >> (bit % 64) & 1 == 1)
    }

    pub(super) fn value_begins(&mut self, at: usize) {
        if self.depth <= LEVELS {
            self.value[self.depth] = at;
        }
    }

    pub(super) fn open(&mut self, object: bool, at: usize) -> Result<(), ScanError> {
        if self.depth >= self.limit {
            return Err(ScanError {
                at,
                what: "nested too deep",
            });
        }
        if self.depth < LEVELS {
            let wanted =
                object && (self.depth == 0 || self.wanted[self.depth] && self.descend[self.depth]);
            self.wanted[self.depth + 1] = wanted;
            if wanted {
                // Of two members of one name the last counts, so those of the first one are forgotten.
                self.members[self.depth].clear();
            }
        }
        self.push(object);
        self.state = if object {
            State::FirstKey
        } else {
            State::FirstItem
        };
        Ok(())
    }

    /// Note one more open container.
    pub(super) fn push(&mut self, object: bool) {
        let (word, bit) = (self.depth / 64, 1_u64 << (self.depth % 64));
        if object {
            self.objects[word] |= bit;
        } else {
            self.objects[word] &= !bit;
        }
        self.depth += 1;
    }

    pub(super) fn close(&mut self, at: usize) -> bool {
        self.depth -= 1;
        self.value_read(at)
    }

    pub(super) fn key_read(&mut self, bytes: &[u8], at: usize) {
        let depth = self.depth;
        if depth <= LEVELS && self.wanted[depth] {
            self.key[depth].end = at;
            let inner = match (self.shape, depth) {
                (Shape::Object, 1) | (Shape::Frame, 2) => "metadata",
                (Shape::Frame, 1) => "object",
                _ => "",
            };
            self.descend[depth] = !inner.is_empty() && key_is(self.key[depth].of(bytes), inner);
            if self.descend[depth] {
                self.members.iter_mut().skip(depth).for_each(Vec::clear);
            }
        }
        self.state = State::Colon;
    }

    /// Note that a value ended at `at`; return whether it was the outermost one.
    pub(super) fn value_read(&mut self, at: usize) -> bool {
        self.state = State::After;
        let depth = self.depth;
        if depth <= LEVELS {
            if depth == 0 {
                return true;
            }
            if self.wanted[depth] {
                let value = Span {
                    start: self.value[depth],
                    end: at,
                };
                self.members[depth - 1].push(Member {
                    key: self.key[depth],
                    value,
                });
            }
        }
        false
    }
}
