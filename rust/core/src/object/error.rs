//! Why bytes are not kept as an object.

use crate::json::scan::ScanError;

/// Why bytes are no object that can be kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// Not JSON.
    #[error("not JSON at byte {}: {}", .0.at, .0.what)]
    Json(ScanError),
    /// The bytes end in the middle of the value.
    #[error("not JSON: the text ends too early")]
    Short,
    /// Something follows the value.
    #[error("not JSON: something follows the object at byte {0}")]
    Trailing(usize),
    /// Valid JSON of another kind.
    #[error("not a JSON object")]
    NotAnObject,
    /// Not UTF-8.
    #[error("not UTF-8")]
    NotUtf8,
    /// `metadata.name` is missing, empty, no string or has a slash.
    #[error("metadata.name is missing, empty or no name")]
    NoName,
    /// The object is of another kind than the watched one.
    #[error("the object is a {0}")]
    OtherKind(String),
    /// Larger than the text's offsets can say.
    #[error("the object is too large")]
    TooLarge,
}
