//! Parts of messages that are read without the table, and failures.

use std::borrow::Cow;

use super::sink::lossy;
use super::wire::Part;
use super::{Problem, ProtoError, Table, write_json};

/// Return the text of a string; a byte that is not UTF-8 becomes U+FFFD, as in Go's JSON.
pub fn text(bytes: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(bytes).map_or_else(|_| lossy(bytes).into(), Cow::Borrowed)
}

/// Return a `Status` as JSON.
///
/// # Errors
/// The bytes are no `Status`.
pub fn status(bytes: &[u8]) -> Result<String, ProtoError> {
    let invalid = |what: &str| Part::of(bytes).error(Problem::Envelope(what.into()));
    let message = Table::kind("v1", "Status").ok_or_else(|| invalid("the table has no Status"))?;
    let mut out = Vec::new();
    write_json(message, bytes, &mut out, false)?;
    String::from_utf8(out).map_err(|_| invalid("not UTF-8"))
}

/// Drop everything but the metadata of an object.
///
/// # Errors
/// The bytes are no message.
pub fn keep_metadata(bytes: &mut Vec<u8>) -> Result<(), ProtoError> {
    let mut kept = Vec::new();
    let mut fields = Part::of(bytes);
    while let Some(field) = fields.next_field()? {
        if field.number == 1 {
            kept.push(field.start..field.end);
        }
    }
    let mut end = 0;
    for range in kept {
        let (from, len) = (range.start, range.len());
        bytes.copy_within(range, end);
        debug_assert!(end <= from);
        end += len;
    }
    bytes.truncate(end);
    Ok(())
}
