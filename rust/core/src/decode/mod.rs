//! From the bytes of the API server to raw objects: list pages and watch frames, cut anywhere.

mod encoding;
mod frame;
mod list;
mod page;
mod pieces;
mod proto_frame;
mod proto_page;
mod watch;

pub use encoding::Encoding;
pub use frame::{Frame, FrameDecoder, FrameKind};
pub use list::ListDecoder;
pub use page::{ListMeta, PageDecoder};
pub use proto_frame::ProtoFrameDecoder;
pub use proto_page::ProtoPageDecoder;
pub use watch::{Bookmark, Event, WatchDecoder};

use std::borrow::Cow;

use crate::json::scan::Member;
use crate::proto::ProtoError;

/// The default size limit of an object; etcd's own limit is about 1.5 MiB.
pub const MAX_OBJECT_BYTES: usize = 16 << 20;

/// How many of the first bytes an error shows.
const SHOWN: usize = 64;

/// An object as it came, before it is copied.
#[derive(Clone, Debug)]
pub enum RawObject<'a> {
    /// JSON text.
    Json(RawJson<'a>),
    /// A message.
    Proto(RawProto<'a>),
}

/// An object that the scan has accepted.
#[derive(Clone, Copy, Debug)]
pub struct RawJson<'a> {
    /// The text to which the places of the members refer.
    pub text: &'a str,
    /// The object's own members.
    pub root: &'a [Member],
    /// The members of its metadata.
    pub metadata: &'a [Member],
}

/// A message of which only the envelope or the list around it was read.
#[derive(Clone, Debug)]
pub struct RawProto<'a> {
    /// Bytes of the stream before it.
    pub offset: u64,
    /// The message.
    pub bytes: &'a [u8],
    /// As the envelope says; empty for the items of a list.
    pub api_version: Cow<'a, str>,
    /// Likewise; for items of a list `PartialObjectMetadata` or empty.
    pub kind: Cow<'a, str>,
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
        let mut what = what.into();
        if is_html(&first_bytes) {
            what = format!("HTML, as of a proxy or a login page: {what}");
        }
        Self {
            offset,
            what,
            first_bytes,
            status: None,
        }
    }

    /// Create the error of a message that begins `offset` bytes after the start of the stream.
    pub(crate) fn of_message(offset: u64, error: &ProtoError, message: &[u8]) -> Self {
        let at = offset + error.offset as u64;
        Self::new(at, error.problem.to_string(), message)
    }

    fn too_large(offset: u64, limit: usize, first_bytes: &[u8]) -> Self {
        let what = format!("the object is larger than {limit} bytes");
        Self::new(offset, what, first_bytes)
    }
}

/// Return whether an answer begins as HTML does, whatever its content type says.
fn is_html(bytes: &[u8]) -> bool {
    let mut text = bytes.trim_ascii_start().iter();
    let begins = text.next() == Some(&b'<');
    begins
        && text
            .next()
            .is_none_or(|byte| byte.is_ascii_alphabetic() || b"!?".contains(byte))
}

fn shown(bytes: &[u8]) -> String {
    format!("`{}`", bytes.escape_ascii())
}
