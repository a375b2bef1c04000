//! Where JSON goes: into text, or nowhere if only its validity is of interest.

use crate::json::text::quote_into;

/// Takes JSON piece by piece.
pub(super) trait Sink {
    /// Whether nothing is kept, so that fields that are not there need no look.
    const IS_NOTHING: bool = false;

    /// Take bytes as they are.
    fn put(&mut self, bytes: &[u8]);

    /// Take a string, with quotes; each byte that is not UTF-8 becomes U+FFFD.
    fn text(&mut self, bytes: &[u8]);

    /// Take bytes as base64, with quotes.
    fn base64(&mut self, bytes: &[u8]);

    /// Take what a writer of small values writes.
    fn with(&mut self, write: impl FnOnce(&mut Vec<u8>));

    /// Separate a member or element from the one before it.
    fn separate(&mut self);
}

impl Sink for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn text(&mut self, bytes: &[u8]) {
        if let Ok(text) = std::str::from_utf8(bytes) {
            quote_into(self, text);
        } else {
            quote_into(self, &lossy(bytes));
        }
    }

    fn base64(&mut self, bytes: &[u8]) {
        const DIGITS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        self.reserve(bytes.len().div_ceil(3) * 4 + 2);
        self.push(b'"');
        for chunk in bytes.chunks(3) {
            let byte = |at: usize| usize::from(chunk.get(at).copied().unwrap_or(0));
            let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
            let digit = |shift: usize| DIGITS[bits >> shift & 63];
            let (third, fourth) = match chunk.len() {
                1 => (b'=', b'='),
                2 => (digit(6), b'='),
                _ => (digit(6), digit(0)),
            };
            self.extend_from_slice(&[digit(18), digit(12), third, fourth]);
        }
        self.push(b'"');
    }

    #[inline]
    fn with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(self);
    }

    #[inline]
    fn separate(&mut self) {
        if !matches!(self.last(), Some(b'{' | b'[')) {
            self.push(b',');
        }
    }
}

/// Drops everything.
pub(super) struct Nothing;

impl Sink for Nothing {
    const IS_NOTHING: bool = true;

    fn put(&mut self, _bytes: &[u8]) {}

    fn text(&mut self, _bytes: &[u8]) {}

    fn base64(&mut self, _bytes: &[u8]) {}

    fn with(&mut self, _write: impl FnOnce(&mut Vec<u8>)) {}

    fn separate(&mut self) {}
}

/// Return the text of bytes with U+FFFD for each byte that is not UTF-8, as Go's encoder writes it.
pub(super) fn lossy(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for _ in chunk.invalid() {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
    text
}
