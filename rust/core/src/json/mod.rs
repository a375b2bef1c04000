//! JSON as the core needs it: a resumable validating scan, and readers of text that the scan has accepted.

pub mod lookup;
pub mod path;
pub mod read;
pub mod same;
pub mod scan;
pub mod text;

/// The deepest nesting of values; deeper ones are rejected.
pub const MAX_DEPTH: usize = 1_000;
