//! A stream of bytes in elements of known length, however it is cut.

use super::DecodeError;

/// What a reader did with the bytes that it got.
pub(super) enum Taken {
    /// It used so many bytes; it gets what follows them, if there is something.
    Used(usize),
    /// It needs so many bytes in one piece, more than it got, and used none.
    Needs(usize),
    /// It wants nothing more of this call.
    Stop,
}

/// Reads bytes that begin with an element, and are so far from the start of the stream.
pub(super) type Read<'a> = &'a mut dyn FnMut(&[u8], u64) -> Result<Taken, DecodeError>;

/// Collects the bytes of an element that is cut; everything else is read in place.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    held: Vec<u8>,
    /// How many bytes the held element needs.
    wanted: usize,
    /// Bytes of the stream before the held ones.
    offset: u64,
}

/// Larger buffers are not kept for the next cut element.
const KEPT: usize = 1 << 20;

impl Pieces {
    /// Pass on `chunk` by elements.
    pub(super) fn feed(&mut self, chunk: &[u8], read: Read<'_>) -> Result<(), DecodeError> {
        let mut rest = chunk;
        while !rest.is_empty() || self.is_ready() {
            if self.held.is_empty() {
                match read(rest, self.offset)? {
                    Taken::Used(used) => {
                        self.offset += used as u64;
                        rest = rest.get(used..).unwrap_or_default();
                    }
                    Taken::Needs(wanted) => {
                        self.held.extend_from_slice(rest);
                        self.wanted = wanted.max(rest.len() + 1);
                        return Ok(());
                    }
                    Taken::Stop => return Ok(()),
                }
                continue;
            }
            let missing = self.wanted.saturating_sub(self.held.len());
            let (bit, after) = rest.split_at(missing.min(rest.len()));
            self.held.extend_from_slice(bit);
            rest = after;
            if self.held.len() < self.wanted {
                return Ok(());
            }
            match read(&self.held, self.offset)? {
                Taken::Used(used) => {
                    self.offset += used as u64;
                    self.held.drain(..used.min(self.held.len()));
                    self.wanted = self.held.len();
                    if self.held.is_empty() && self.held.capacity() > KEPT {
                        self.held = Vec::new();
                    }
                }
                Taken::Needs(wanted) => self.wanted = wanted.max(self.held.len() + 1),
                Taken::Stop => return Ok(()),
            }
        }
        Ok(())
    }

    fn is_ready(&self) -> bool {
        !self.held.is_empty() && self.held.len() >= self.wanted
    }

    /// Return the bytes of an element that is not complete.
    pub(super) fn unfinished(&self) -> &[u8] {
        &self.held
    }

    /// Return how many bytes came.
    pub(super) fn len(&self) -> u64 {
        self.offset + self.held.len() as u64
    }
}
