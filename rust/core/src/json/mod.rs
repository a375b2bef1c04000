//! JSON as the core needs it: a resumable validating scan, and readers over text that the scan has accepted.

pub mod path;
pub mod read;
pub mod scan;
pub mod text;

/// How deep values may nest; what is deeper is refused, not cut.
pub const MAX_DEPTH: usize = 1_000;
