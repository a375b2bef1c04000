//! What an informer's engine reports about its input.

use std::sync::Arc;

use ctrlhost_core::json::read::Value;
use ctrlhost_core::{decode, informer};
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

use crate::json::to_python;
use crate::kept::Kept;

/// The metadata of a list page.
#[pyclass(frozen, get_all, module = "ctrlhost._core")]
pub(crate) struct ListMeta {
    pub(crate) resource_version: String,
    pub(crate) continue_: String,
    pub(crate) remaining_item_count: Option<i64>,
    pub(crate) count: u64,
    pub(crate) shard_selector: String,
}

impl From<decode::ListMeta> for ListMeta {
    fn from(meta: decode::ListMeta) -> Self {
        Self {
            resource_version: meta.resource_version,
            continue_: meta.continue_token,
            remaining_item_count: meta.remaining_item_count,
            count: meta.count,
            shard_selector: meta.shard_selector,
        }
    }
}

/// What a piece of a watch stream contained.
#[pyclass(frozen, module = "ctrlhost._core")]
pub(crate) struct WatchProgress {
    #[pyo3(get)]
    pub(super) events: u64,
    #[pyo3(get)]
    pub(super) bookmarks: u64,
    #[pyo3(get)]
    pub(super) plain_bookmarks: u64,
    #[pyo3(get)]
    pub(super) skipped: u64,
    #[pyo3(get)]
    pub(super) unknown_fields: u64,
    #[pyo3(get)]
    pub(super) damaged: u64,
    #[pyo3(get)]
    pub(super) resource_version: String,
    #[pyo3(get)]
    pub(super) initial_events_end: bool,
    pub(super) error: Option<Arc<Kept>>,
}

#[pymethods]
impl WatchProgress {
    #[getter]
    fn error<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.error.as_ref().map(|error| error.get(py)).transpose()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.error.iter().try_for_each(|kept| kept.traverse(&visit))
    }

    fn __clear__(&self) {
        if let Some(kept) = &self.error {
            kept.clear();
        }
    }
}

impl WatchProgress {
    pub(crate) fn wrap(py: Python<'_>, progress: informer::WatchProgress) -> PyResult<Self> {
        let error = progress
            .error
            .map(|text| to_python(py, Value::of_json(&text)).map(|error| Kept::new(error.unbind())))
            .transpose()?;
        Ok(Self {
            events: progress.events,
            bookmarks: progress.bookmarks,
            plain_bookmarks: progress.plain_bookmarks,
            skipped: progress.skipped,
            unknown_fields: progress.unknown_fields,
            damaged: progress.damaged,
            resource_version: progress.resource_version,
            initial_events_end: progress.initial_events_end,
            error,
        })
    }
}
