//! A buffer on the caller's stack for the bytes of one key.

use std::mem::MaybeUninit;

const INLINE: usize = 256;

/// Bytes that are written once and read; the usual key needs no allocation, and nothing is moved.
pub(crate) struct KeyBuffer {
    inline: [MaybeUninit<u8>; INLINE],
    /// How much of `inline` is written; meaningless once `heap` is in use.
    len: usize,
    /// All bytes, if they did not fit.
    heap: Vec<u8>,
}

impl KeyBuffer {
    #[inline]
    pub(crate) fn new() -> Self {
        Self {
            inline: [MaybeUninit::uninit(); INLINE],
            len: 0,
            heap: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let end = self.len.saturating_add(bytes.len());
        if self.heap.is_empty() && end <= INLINE {
            let inline = &mut self.inline[self.len..end];
            // SAFETY: `inline` is as long as `bytes`, and borrowed exclusively.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    bytes.as_ptr(),
                    inline.as_mut_ptr().cast::<u8>(),
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
        if self.heap.is_empty() {
            self.heap = self.bytes().to_vec();
        }
        self.heap.extend_from_slice(bytes);
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        if self.heap.is_empty() {
            // SAFETY: `len` bytes were written.
            unsafe { std::slice::from_raw_parts(self.inline.as_ptr().cast::<u8>(), self.len) }
        } else {
            &self.heap
        }
    }
}
