//! What an informer's engine reports about its input.

use ctrlhost_core::informer;
use ctrlhost_core::json::read::Value;
use pyo3::prelude::*;

use crate::json::to_python;

/// The metadata of a list page.
#[pyclass(frozen, get_all, module = "ctrlhost._core")]
pub(crate) struct ListMeta {
    pub(crate) resource_version: String,
    pub(crate) continue_: String,
    pub(crate) remaining_item_count: Option<i64>,
    pub(crate) count: u64,
}

/// What a piece of a watch stream contained.
#[pyclass(frozen, get_all, module = "ctrlhost._core")]
pub(crate) struct WatchProgress {
    pub(crate) events: u64,
    pub(crate) bookmarks: u64,
    pub(crate) plain_bookmarks: u64,
    pub(crate) skipped: u64,
    pub(crate) resource_version: String,
    pub(crate) initial_events_end: bool,
    pub(crate) error: Option<Py<PyAny>>,
    pub(crate) failed: Option<Py<PyAny>>,
}

impl WatchProgress {
    pub(crate) fn wrap(py: Python<'_>, progress: informer::WatchProgress) -> PyResult<Self> {
        let error = progress
            .error
            .map(|text| to_python(py, Value::of_json(&text)).map(Bound::unbind))
            .transpose()?;
        Ok(Self {
            events: progress.events,
            bookmarks: progress.bookmarks,
            plain_bookmarks: progress.plain_bookmarks,
            skipped: progress.skipped,
            resource_version: progress.resource_version,
            initial_events_end: progress.initial_events_end,
            error,
            failed: None,
        })
    }
}
