//! The border between `ctrlhost-core` and Python: converts, detaches from the interpreter, calls, and maps errors.
#![allow(
    missing_docs,
    reason = "the Python-facing documentation lives in `ctrlhost/_core.pyi` and in the docstrings"
)]
#![allow(clippy::doc_markdown, reason = "docstrings are read in Python")]
#![allow(
    clippy::unused_self,
    reason = "Python calls methods, whether or not they look at the object"
)]

mod body;
mod clock;
mod delta_fifo;
mod errors;
mod handlers;
mod index_functions;
mod informer;
mod informer_arguments;
mod interpreter;
mod json;
mod key;
mod key_codec;
mod key_func;
mod listener;
mod mappings;
mod measured;
mod object;
mod object_input;
mod owner_reference;
mod progress;
mod queue;
mod queue_arguments;
mod queue_batch;
mod queue_groups;
mod queue_metrics;
mod queue_shared;
mod queue_snapshot;
mod queue_waits;
mod ratelimit;
mod reentry;
mod schema;
mod scratch;
mod store;
mod tombstone;
mod transform;
mod view;
mod wait_slices;

use pyo3::prelude::*;

/// `ctrlhost._core`.
#[pymodule(gil_used = false)]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<clock::SystemClock>()?;
    module.add_class::<clock::ManualClock>()?;
    module.add_class::<queue::WorkQueue>()?;
    module.add_class::<ratelimit::Limiter>()?;
    module.add_class::<ratelimit::ItemExponentialFailureRateLimiter>()?;
    module.add_class::<ratelimit::ItemFastSlowRateLimiter>()?;
    module.add_class::<ratelimit::BucketRateLimiter>()?;
    module.add_class::<ratelimit::MaxOfRateLimiter>()?;
    module.add_class::<ratelimit::WithMaxWaitRateLimiter>()?;
    module.add_function(wrap_pyfunction!(
        ratelimit::default_controller_rate_limiter,
        module
    )?)?;
    module.add_function(wrap_pyfunction!(queue_metrics::queue_metrics, module)?)?;
    interpreter::watch_forks(module)?;
    module.add_class::<object::Object>()?;
    module.add_class::<owner_reference::OwnerReference>()?;
    module.add_class::<view::MapView>()?;
    module.add_class::<view::ListView>()?;
    view::register(module.py())?;
    module.add_class::<tombstone::Delta>()?;
    module.add_class::<tombstone::DeletedFinalStateUnknown>()?;
    module.add_class::<delta_fifo::DeltaFIFO>()?;
    module.add_class::<store::Indexer>()?;
    module.add_function(wrap_pyfunction!(index_functions::namespace_index, module)?)?;
    module.add_class::<handlers::Owner>()?;
    module.add_class::<handlers::Predicate>()?;
    module.add_class::<mappings::ByLabel>()?;
    module.add_class::<mappings::ByIndex>()?;
    module.add_class::<measured::Measured>()?;
    module.add_class::<progress::ListMeta>()?;
    module.add_class::<progress::WatchProgress>()?;
    module.add_class::<informer::SharedInformer>()?;
    module.add_class::<body::Body>()?;
    module.add_class::<listener::Listener>()?;
    module.add_class::<schema::Pattern>()?;
    module.add_class::<schema::CelValidator>()?;
    Ok(())
}
