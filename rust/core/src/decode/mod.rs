//! From the bytes of the API server to raw objects: list pages and watch frames, cut anywhere.

mod frame;
mod page;

pub use frame::{Frame, FrameDecoder, FrameKind};
pub use page::{ListMeta, PageDecoder};

use crate::json::scan::Member;

/// The default size limit of an object; etcd's own limit is about 1.5 MiB.
pub const MAX_OBJECT_BYTES: usize = 16 << 20;

/// How many of the first bytes an error shows.
const SHOWN: usize = 64;

/// An object that the scan has accepted, before it is copied.
#[derive(Clone, Copy, Debug)]
pub struct RawObject<'a> {
    /// The text to which the places of the members refer.
    pub text: &'a str,
    /// The object's own members.
    pub root: &'a [Member],
    /// The members of its metadata.
    pub metadata: &'a [Member],
}

/// The stream is malformed or cut, or is not a list. It must be given up; nothing of the bad object was kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {offset}: {what}; it begins with {}", shown(first_bytes))]
pub struct DecodeError {
    /// Bytes from the start of the stream to where decoding failed.
    pub offset: u64,
    /// What is wrong there.
    pub what: String,
    /// The first bytes of the page or frame.
    pub first_bytes: Vec<u8>,
    /// The `Status` object that came instead of a list, as JSON.
    pub status: Option<String>,
}

impl DecodeError {
    fn new(offset: u64, what: impl Into<String>, first_bytes: &[u8]) -> Self {
        let first_bytes = first_bytes.get(..SHOWN).unwrap_or(first_bytes).to_vec();
        Self {
            offset,
            what: what.into(),
            first_bytes,
            status: None,
        }
    }
}

fn shown(bytes: &[u8]) -> String {
    format!("`{}`", bytes.escape_ascii())
}
