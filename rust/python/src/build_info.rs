//! What the core was built from, and with.

use pyo3::prelude::*;

/// Return the revision, the version of the Rust compiler and the profile of the build.
///
/// A build without `CTRLHOST_REVISION` in its environment does not know its revision.
#[pyfunction]
pub(crate) fn build_info() -> (&'static str, &'static str, &'static str) {
    let revision = match option_env!("CTRLHOST_REVISION") {
        Some(text) if !text.is_empty() => text,
        _ => "unknown",
    };
    (revision, env!("CTRLHOST_RUSTC"), env!("CTRLHOST_PROFILE"))
}
