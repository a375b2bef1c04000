//! The wire format: the fields of a message, one after the other, with every length checked before it is used.

use super::{Problem, ProtoError};

/// The most messages in each other.
pub(super) const MAX_MESSAGES: usize = 100;

/// A message, or the bytes of a string: a part of a body. Offsets of errors are those in the body.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// The body up to the end of the part.
    upto: &'a [u8],
    /// Where the part begins.
    from: usize,
}

/// The value of a field as it is on the wire.
#[derive(Clone, Copy, Debug)]
pub enum Raw<'a> {
    /// A number of variable length.
    Varint(u64),
    /// Eight bytes.
    Fixed64(u64),
    /// Four bytes.
    Fixed32(u32),
    /// A string, bytes, a message, or packed numbers.
    Bytes(Part<'a>),
}

/// One field of a message.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// Its number.
    pub number: u32,
    /// Its value.
    pub value: Raw<'a>,
    /// Where its tag begins in the body.
    pub start: usize,
    /// Where its value ends in the body.
    pub end: usize,
}

impl<'a> Part<'a> {
    /// The whole body.
    pub fn of(body: &'a [u8]) -> Self {
        Self {
            upto: body,
            from: 0,
        }
    }

    /// Return the bytes of the part.
    pub fn bytes(self) -> &'a [u8] {
        self.upto.get(self.from..).unwrap_or_default()
    }

    /// Return whether there is nothing in it.
    pub fn is_empty(self) -> bool {
        self.from >= self.upto.len()
    }

    /// Return where the part begins in the body.
    pub fn start(self) -> usize {
        self.from
    }

    /// Return where the part ends in the body.
    pub fn end(self) -> usize {
        self.upto.len()
    }

    /// Return the part of the same body from one place to another.
    pub(super) fn between(self, from: usize, to: usize) -> Self {
        Self {
            upto: self.upto.get(..to).unwrap_or(self.upto),
            from,
        }
    }

    /// Return an error at the start of the part.
    pub fn error(self, problem: Problem) -> ProtoError {
        ProtoError::new(self.from, problem)
    }

    /// Read the next field; None at the end.
    ///
    /// # Errors
    /// What follows is no field.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "as a call it takes twice the time, by its result in memory"
    )]
    pub fn next_field(&mut self) -> Result<Option<Field<'a>>, ProtoError> {
        let start = self.from;
        if start >= self.upto.len() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = match u32::try_from(tag >> 3) {
            Ok(number) if number != 0 => number,
            _ => return Err(ProtoError::new(start, Problem::FieldNumber)),
        };
        let value = match tag & 7 {
            0 => Raw::Varint(self.varint()?),
            2 => Raw::Bytes(self.counted()?),
            1 => Raw::Fixed64(u64::from_le_bytes(self.fixed()?)),
            5 => Raw::Fixed32(u32::from_le_bytes(self.fixed()?)),
            _ => return Err(ProtoError::new(start, Problem::WireType)),
        };
        Ok(Some(Field {
            number,
            value,
            start,
            end: self.from,
        }))
    }

    /// Read a number of at most ten bytes and 64 bits.
    ///
    /// # Errors
    /// It is longer, or cut.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, ProtoError> {
        match self.upto.get(self.from) {
            Some(&byte) if byte < 0x80 => {
                self.from += 1;
                Ok(u64::from(byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, ProtoError> {
        let mut value = 0_u64;
        for (count, &byte) in self.bytes().iter().take(10).enumerate() {
            if count == 9 && byte > 1 {
                return Err(self.error(Problem::Varint));
            }
            value |= u64::from(byte & 0x7f) << (7 * count);
            if byte < 0x80 {
                self.from += count + 1;
                return Ok(value);
            }
        }
        Err(self.error(Problem::Truncated))
    }

    /// Read bytes that follow their length.
    #[inline]
    fn counted(&mut self) -> Result<Self, ProtoError> {
        let at = self.from;
        let length = self.varint()?;
        let from = self.from;
        let left = self.upto.len().saturating_sub(from);
        match usize::try_from(length) {
            Ok(length) if length <= left => {
                self.from += length;
                let upto = self.upto.get(..self.from).unwrap_or_default();
                Ok(Self { upto, from })
            }
            _ => Err(ProtoError::new(at, Problem::Length(length))),
        }
    }

    /// Read a number of a fixed size.
    ///
    /// # Errors
    /// It is cut.
    pub fn fixed<const SIZE: usize>(&mut self) -> Result<[u8; SIZE], ProtoError> {
        let bytes = self.bytes().first_chunk::<SIZE>().copied();
        let bytes = bytes.ok_or_else(|| self.error(Problem::Truncated))?;
        self.from += SIZE;
        Ok(bytes)
    }
}
