//! The border between `ctrlhost-core` and Python: converts, detaches from the interpreter, calls, and maps errors.
//!
//! A module uses those of the groups above its own; `tests/unit/core/test_rust_rooms.py` reads the groups.
#![allow(
    missing_docs,
    reason = "the Python-facing documentation lives in `ctrlhost/_core.pyi` and in the docstrings"
)]
#![allow(clippy::doc_markdown, reason = "docstrings are read in Python")]
#![allow(
    clippy::unused_self,
    reason = "Python calls methods, whether or not they use the object"
)]

mod allocator;
mod budget;
mod build_info;
mod interpreter;
mod kept;
mod key;
mod labels;
#[cfg(unix)]
mod lifeline;
mod proto;
mod recurring;
mod reentrancy;
mod shards;

mod clock;
mod json;
mod signal;

mod errors;
mod ratelimit;
mod term;

mod callback_metrics;
mod object;
mod queue;
mod transport;

mod store;

mod delta_fifo;
mod handlers;

mod informer;

#[cfg(unix)]
mod feed;
#[cfg(unix)]
mod listener;

use pyo3::prelude::*;

/// `ctrlhost._core`.
#[pymodule(gil_used = false)]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(build_info::build_info, module)?)?;
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
    module.add_function(wrap_pyfunction!(queue::metrics::queue_metrics, module)?)?;
    interpreter::register_fork_handler(module)?;
    interpreter::register_waits();
    module.add_class::<interpreter::MadeHere>()?;
    module.add_function(wrap_pyfunction!(interpreter::_released, module)?)?;
    module.add_function(wrap_pyfunction!(interpreter::_detached, module)?)?;
    module.add_function(wrap_pyfunction!(reentrancy::in_callback, module)?)?;
    module.add_class::<object::Object>()?;
    module.add_class::<object::OwnerReference>()?;
    module.add_function(wrap_pyfunction!(object::plain::plain, module)?)?;
    module.add_class::<object::view::MapView>()?;
    module.add_class::<object::view::ListView>()?;
    object::view::register(module.py())?;
    module.add_class::<object::tombstone::DeletedFinalStateUnknown>()?;
    module.add_class::<delta_fifo::delta::Delta>()?;
    module.add_class::<delta_fifo::DeltaFIFO>()?;
    module.add_class::<store::Indexer>()?;
    module.add_function(wrap_pyfunction!(
        store::index_functions::namespace_index,
        module
    )?)?;
    module.add_class::<handlers::Owner>()?;
    module.add_class::<handlers::Predicate>()?;
    module.add_class::<handlers::mappings::ByLabel>()?;
    module.add_class::<handlers::mappings::ByIndex>()?;
    module.add_class::<callback_metrics::CallbackMetrics>()?;
    module.add_class::<informer::progress::ListMeta>()?;
    module.add_class::<informer::progress::WatchProgress>()?;
    module.add_function(wrap_pyfunction!(shards::shard_hash, module)?)?;
    module.add_function(wrap_pyfunction!(shards::shard_selector, module)?)?;
    module.add_class::<budget::MemoryBudget>()?;
    module.add_class::<informer::SharedInformer>()?;
    module.add_class::<informer::following::Following>()?;
    module.add_function(wrap_pyfunction!(informer::following::_decode_hook, module)?)?;
    module.add_function(wrap_pyfunction!(
        informer::following::transport_busy,
        module
    )?)?;
    module.add_class::<term::Tenure>()?;
    module.add_class::<term::Fence>()?;
    module.add_class::<term::PermitGate>()?;
    transport::register(module)?;
    module.add_function(wrap_pyfunction!(proto::builtin_resources, module)?)?;
    module.add_function(wrap_pyfunction!(proto::knows_protobuf, module)?)?;
    module.add_function(wrap_pyfunction!(proto::protobuf_release, module)?)?;
    module.add_function(wrap_pyfunction!(proto::status_from_protobuf, module)?)?;
    #[cfg(unix)]
    {
        listener::register(module)?;
        module.add_class::<feed::Feed>()?;
        module.add_class::<feed::FeedReader>()?;
        module.add_class::<feed::FeedKind>()?;
        module.add_function(wrap_pyfunction!(lifeline::end_with, module)?)?;
    }
    #[cfg(target_os = "linux")]
    module.add_function(wrap_pyfunction!(lifeline::adopt_orphans, module)?)?;
    module.add_class::<informer::listener::Listener>()?;
    module.add_class::<signal::Signal>()?;
    module.add_class::<store::deferred::Deferred>()?;
    module.add_class::<store::deferred::DeferredIndex>()?;
    Ok(())
}
