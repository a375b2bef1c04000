//! Arguments of an informer's engine.

use std::sync::Arc;

use ctrlhost_core::compress::Compression;
use ctrlhost_core::handlers::{self, QueueHandler};
use ctrlhost_core::informer::{HandlerId, Resync};
use ctrlhost_core::projection::Projection;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;

use super::listener::Listener;
use crate::clock::not_negative;
use crate::handlers::mappings::{predicate, read_mapping};
use crate::handlers::sink;
use crate::kept::Keeps;

/// Read which part of each object to keep: None for all, `"metadata"`, or paths.
pub(crate) fn projection(reads: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Projection>> {
    let Some(reads) = reads else { return Ok(None) };
    if let Ok(name) = reads.cast::<PyString>() {
        return match &*name.to_cow()? {
            "metadata" => Ok(Some(Projection::metadata())),
            other => Err(PyValueError::new_err(format!(
                "reads must be \"metadata\" or a sequence of paths, got {other:?}"
            ))),
        };
    }
    let paths = reads
        .try_iter()?
        .map(|path| path?.extract())
        .collect::<PyResult<Vec<String>>>()?;
    let built = Projection::paths(paths.iter().map(String::as_str));
    built
        .map(Some)
        .map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Read when bodies are compressed.
pub(crate) fn compression_of(name: &str) -> PyResult<Compression> {
    match name {
        "off" => Ok(Compression::Off),
        "auto" => Ok(Compression::Auto),
        "on" => Ok(Compression::On),
        other => Err(PyValueError::new_err(format!(
            "compression must be \"off\", \"auto\" or \"on\", got {other:?}"
        ))),
    }
}

/// Read the seconds between resyncs: None is the informer's period, 0 is never.
pub(crate) fn resync_of(seconds: Option<f64>) -> PyResult<Resync> {
    let seconds = seconds.map(|seconds| not_negative("resync", seconds));
    Ok(match seconds.transpose()? {
        None => Resync::Informer,
        Some(0.0) => Resync::Never,
        Some(seconds) => Resync::Every(seconds),
    })
}

/// Make a handler that enqueues requests by a mapping; the default is the object itself.
pub(crate) fn queue_handler(
    queue: &Bound<'_, PyAny>,
    mapping: Option<&Bound<'_, PyAny>>,
    predicates: Option<&Bound<'_, PyAny>>,
    priority: Option<i32>,
    low_priority: Option<i32>,
    keeps: &Arc<Keeps>,
) -> PyResult<QueueHandler> {
    let predicates = predicates.map_or(Ok(Vec::new()), |all| {
        all.try_iter()?.map(|one| predicate(&one?, keeps)).collect()
    })?;
    let mapping = mapping.map_or(Ok(handlers::Mapping::Object), |mapping| {
        read_mapping(mapping, keeps)
    })?;
    Ok(QueueHandler {
        sink: sink(queue, keeps)?,
        mapping,
        predicates,
        priority,
        low_priority,
    })
}

/// Return the handler's id from its handle: a listener, or the number that `enqueue_to` returned.
pub(crate) fn handler_id(handle: &Bound<'_, PyAny>) -> PyResult<HandlerId> {
    let id = match handle.cast::<Listener>() {
        Ok(listener) => listener.get().handle,
        Err(_) => handle
            .extract()
            .map_err(|_| PyTypeError::new_err("handle must be what adding a handler returned"))?,
    };
    Ok(HandlerId(id))
}
