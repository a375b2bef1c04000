//! A validating scan of one JSON value that may arrive in pieces.
//!
//! The scan never allocates per value: it keeps open containers as bits and records only where the members of the few
//! objects that the decoder reads begin and end. When the bytes run out it stops between tokens (or inside a string)
//! and continues there when more have come, so the cost is linear however the network cuts the stream.

mod skim;
mod whole;

pub use whole::whole;

use super::MAX_DEPTH;
use super::read::Value;
use super::text::{StringEnd, key_is, skip_string, valid_number};

/// Levels whose members can be recorded: a frame, the object in it, the object's metadata.
const LEVELS: usize = 3;
const WORDS: usize = (MAX_DEPTH + LEVELS).div_ceil(64);

/// A place in the scanned bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl Span {
    /// Return the bytes that the span covers.
    pub fn of<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes.get(self.start..self.end).unwrap_or_default()
    }

    /// Return the value that the span covers in accepted text.
    pub fn value<'a>(&self, text: &'a str) -> Value<'a> {
        Value(text.get(self.start..self.end).unwrap_or_default())
    }
}

/// One member of an object: the key with its quotes, and the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The key, quotes included.
    pub key: Span,
    /// The value.
    pub value: Span,
}

/// The shape of the scanned value, which decides whose members are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// An object: its own members, and those of `metadata`.
    Object,
    /// A watch frame: its own members, those of `object`, and those of `object.metadata`.
    Frame,
}

/// Why and where the bytes are not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanError {
    /// Bytes from the start of the value.
    pub at: usize,
    /// What is wrong.
    pub what: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A value must follow.
    Value,
    /// After `[`: a value or `]`.
    FirstItem,
    /// After `{`: a key or `}`.
    FirstKey,
    /// After `,` in an object: a key.
    Key,
    /// After a key.
    Colon,
    /// After a value: `,` or the end of the container.
    After,
    /// Inside a string that is a key.
    InKey,
    /// Inside a string that is a value.
    InString,
}

/// The state of a scan; see the module.
#[derive(Debug)]
pub struct Scan {
    shape: Shape,
    state: State,
    pos: usize,
    /// The number of open containers.
    depth: usize,
    /// The deepest allowed nesting, counted like `depth`.
    limit: usize,
    /// One bit per open container: set for an object.
    objects: [u64; WORDS],
    /// Whether the members at this depth (from 1) are recorded.
    wanted: [bool; LEVELS + 1],
    /// Whether the current member at this depth is one whose own members are recorded.
    descend: [bool; LEVELS + 1],
    key: [Span; LEVELS + 1],
    value: [usize; LEVELS + 1],
    members: [Vec<Member>; LEVELS],
}

impl Scan {
    /// Create a scan of one value of that shape.
    pub fn new(shape: Shape) -> Self {
        Self {
            shape,
            state: State::Value,
            pos: 0,
            depth: 0,
            limit: MAX_DEPTH + usize::from(shape == Shape::Frame),
            objects: [0; WORDS],
            wanted: [false; LEVELS + 1],
            descend: [false; LEVELS + 1],
            key: [Span::default(); LEVELS + 1],
            value: [0; LEVELS + 1],
            members: [Vec::new(), Vec::new(), Vec::new()],
        }
    }

    /// Forget the value; keep the memory.
    pub fn restart(&mut self) {
        self.state = State::Value;
        self.pos = 0;
        self.depth = 0;
        self.wanted = [false; LEVELS + 1];
        self.members.iter_mut().for_each(Vec::clear);
    }

    /// Return the members of the value itself (level 0), of the object in it that the shape names (1), and so on.
    pub fn members(&self, level: usize) -> &[Member] {
        self.members.get(level).map_or(&[], Vec::as_slice)
    }

    /// Continue the scan. `bytes` begins with the value and may have grown since the last call. Return the value's
    /// end once it has arrived.
    ///
    /// # Errors
    /// The bytes cannot be the beginning of a JSON value, or nest too deep.
    pub fn advance(&mut self, bytes: &[u8]) -> Result<Option<usize>, ScanError> {
        let mut at = self.pos;
        loop {
            if matches!(self.state, State::InKey | State::InString) {
                match skip_string(bytes, at) {
                    StringEnd::At(end) => {
                        at = end;
                        if self.state == State::InKey {
                            self.key_read(bytes, at);
                        } else if self.value_read(at) {
                            return Ok(Some(at));
                        }
                    }
                    StringEnd::Unfinished(resume) => return Ok(self.pause(resume)),
                    StringEnd::Invalid(at, what) => return Err(ScanError { at, what }),
                }
            }
            if self.may_skim() {
                at = self.skim(bytes, at);
            }
            let Some(&byte) = bytes.get(at) else {
                return Ok(self.pause(at));
            };
            match (self.state, byte) {
                (_, b' ' | b'\n' | b'\r' | b'\t') => at += 1,
                (State::After, b',') => {
                    at += 1;
                    self.state = if self.in_object() {
                        State::Key
                    } else {
                        State::Value
                    };
                }
                (State::Key | State::FirstKey, b'"') => {
                    if self.depth <= LEVELS {
                        self.key[self.depth].start = at;
                    }
                    self.state = State::InKey;
                    at += 1;
                }
                (State::Colon, b':') => {
                    self.state = State::Value;
                    at += 1;
                }
                (State::Value | State::FirstItem, b'"') => {
                    self.value_begins(at);
                    self.state = State::InString;
                    at += 1;
                }
                (State::Value | State::FirstItem, b'{' | b'[') => {
                    self.value_begins(at);
                    self.open(byte == b'{', at)?;
                    at += 1;
                }
                (State::After | State::FirstKey, b'}') if self.in_object() => {
                    at += 1;
                    if self.close(at) {
                        return Ok(Some(at));
                    }
                }
                (State::After | State::FirstItem, b']') if !self.in_object() => {
                    at += 1;
                    if self.close(at) {
                        return Ok(Some(at));
                    }
                }
                (State::Value | State::FirstItem, b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => {
                    self.value_begins(at);
                    let Some(end) = scalar_end(bytes, at)? else {
                        return Ok(self.pause(at));
                    };
                    at = end;
                    if self.value_read(at) {
                        return Ok(Some(at));
                    }
                }
                (state, _) => {
                    return Err(ScanError {
                        at,
                        what: expected(state),
                    });
                }
            }
        }
    }

    fn in_object(&self) -> bool {
        let bit = self.depth.wrapping_sub(1);
        self.objects
            .get(bit / 64)
            .is_some_and(|word| word >> (bit % 64) & 1 == 1)
    }

    fn value_begins(&mut self, at: usize) {
        if self.depth <= LEVELS {
            self.value[self.depth] = at;
        }
    }

    fn open(&mut self, object: bool, at: usize) -> Result<(), ScanError> {
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
    fn push(&mut self, object: bool) {
        let (word, bit) = (self.depth / 64, 1_u64 << (self.depth % 64));
        if object {
            self.objects[word] |= bit;
        } else {
            self.objects[word] &= !bit;
        }
        self.depth += 1;
    }

    fn close(&mut self, at: usize) -> bool {
        self.depth -= 1;
        self.value_read(at)
    }

    fn key_read(&mut self, bytes: &[u8], at: usize) {
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
    fn value_read(&mut self, at: usize) -> bool {
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

    fn pause(&mut self, at: usize) -> Option<usize> {
        self.pos = at;
        None
    }
}

fn expected(state: State) -> &'static str {
    match state {
        State::Value => "expected a value",
        State::FirstItem => "expected a value or `]`",
        State::FirstKey => "expected a key or `}`",
        State::Key => "expected a key",
        State::Colon => "expected `:`",
        State::After | State::InKey | State::InString => {
            "expected `,` or the end of the object or list"
        }
    }
}

/// Return the end of the number or literal that begins at `at`; None if more bytes are needed.
fn scalar_end(bytes: &[u8], at: usize) -> Result<Option<usize>, ScanError> {
    let rest = bytes.get(at..).unwrap_or_default();
    let literal: &[u8] = match rest.first() {
        Some(b't') => b"true",
        Some(b'f') => b"false",
        Some(b'n') => b"null",
        _ => {
            let Some(len) = rest
                .iter()
                .position(|b| !matches!(b, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'))
            else {
                return Ok(None);
            };
            if rest.get(..len).is_some_and(valid_number) {
                return Ok(Some(at + len));
            }
            return Err(ScanError {
                at,
                what: "not a number",
            });
        }
    };
    if rest.starts_with(literal) {
        Ok(Some(at + literal.len()))
    } else if literal.starts_with(rest) {
        Ok(None)
    } else {
        Err(ScanError {
            at,
            what: "expected a value",
        })
    }
}
