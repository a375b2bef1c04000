//! Room for the bytes of one key, on the caller's stack.

use std::mem::MaybeUninit;

const ROOM: usize = 256;

/// Bytes that are written once and read: no allocation for the usual key, and nothing is moved around.
pub(crate) struct Scratch {
    room: [MaybeUninit<u8>; ROOM],
    /// How much of `room` is written. Nothing of it counts once `rest` is in use.
    len: usize,
    /// Everything, if it did not fit.
    rest: Vec<u8>,
}

impl Scratch {
    #[inline]
    pub(crate) fn new() -> Self {
        Self {
            room: [MaybeUninit::uninit(); ROOM],
            len: 0,
            rest: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let end = self.len.saturating_add(bytes.len());
        if self.rest.is_empty() && end <= ROOM {
            let room = &mut self.room[self.len..end];
            // SAFETY: `room` is as long as `bytes`, and it is ours alone.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    bytes.as_ptr(),
                    room.as_mut_ptr().cast::<u8>(),
                    bytes.len(),
                );
            }
            self.len = end;
        } else {
            self.spill(bytes);
        }
    }

    #[cold]
    fn spill(&mut self, bytes: &[u8]) {
        if self.rest.is_empty() {
            self.rest = self.bytes().to_vec();
        }
        self.rest.extend_from_slice(bytes);
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        if self.rest.is_empty() {
            // SAFETY: that much was written.
            unsafe { std::slice::from_raw_parts(self.room.as_ptr().cast::<u8>(), self.len) }
        } else {
            &self.rest
        }
    }
}
