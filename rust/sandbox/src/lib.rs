//! The border between the embedded API server's Python and its Rust: converts, detaches, calls, and maps errors.
#![allow(
    missing_docs,
    reason = "the Python-facing documentation lives in `_native.pyi` and in the docstrings"
)]
#![allow(clippy::doc_markdown, reason = "docstrings are read in Python")]

mod protobuf;
mod requests;
mod schema;
mod shards;

use pyo3::prelude::*;

/// `ctrlhost_sandbox._native`.
#[pymodule(gil_used = false)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(protobuf::json_from_protobuf, module)?)?;
    module.add_function(wrap_pyfunction!(schema::is_url, module)?)?;
    module.add_class::<requests::RequestHead>()?;
    module.add_class::<requests::RequestParser>()?;
    module.add_class::<shards::ShardSelector>()?;
    module.add_class::<schema::Pattern>()?;
    module.add_class::<schema::CelValidator>()?;
    module.add_class::<schema::CelExpressions>()?;
    Ok(())
}
