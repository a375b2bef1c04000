//! The feed in Python: it starts, gets informers, and stops. No request enters Python.

use std::path::PathBuf;
use std::sync::Arc;

use ctrlhost_core::clock::seconds;
use ctrlhost_core::event_log::Window;
use ctrlhost_core::object::Form;
use ctrlhost_transport::feed::{self, Declared, Limits, Namespaces};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::informer::SharedInformer;
use crate::interpreter::{self, Local};

/// A native thread that serves lists and watches of informers on Unix sockets.
#[pyclass(frozen, module = "ctrlhost._core")]
pub(crate) struct Feed {
    feed: Local<Arc<feed::Feed>>,
}

#[pymethods]
impl Feed {
    #[new]
    #[pyo3(signature = (*, window_events, window_bytes, waiting_events, waiting_bytes, patience, bookmark))]
    fn new(
        window_events: usize,
        window_bytes: usize,
        waiting_events: u64,
        waiting_bytes: u64,
        patience: f64,
        bookmark: f64,
    ) -> PyResult<Self> {
        let limits = Limits {
            window: Window {
                events: window_events,
                bytes: window_bytes,
            },
            waiting_events,
            waiting_bytes,
            patience: seconds(patience),
            bookmark: seconds(bookmark),
        };
        Ok(Self {
            feed: Local::new(Arc::new(feed::Feed::start(limits)?)),
        })
    }

    fn open(&self, path: PathBuf, user: u32) -> PyResult<FeedReader> {
        let feed = self.feed.get()?;
        let reader = feed.open(path, user)?;
        Ok(FeedReader {
            window: feed.limits().window,
            reader: Local::new(reader),
        })
    }

    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        let feed = self.feed.get()?;
        interpreter::detach(py, || feed.stop());
        Ok(())
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.feed.keep_in_child();
    }
}

/// The socket of one process, with the kinds that it declared.
#[pyclass(frozen, module = "ctrlhost._core")]
pub(crate) struct FeedReader {
    window: Window,
    reader: Local<Arc<feed::Reader>>,
}

/// Its connections keep the reader, so Python ends them.
impl Drop for FeedReader {
    fn drop(&mut self) {
        self.reader.keep_in_child();
        if let Ok(reader) = self.reader.get() {
            reader.close();
        }
    }
}

#[pymethods]
impl FeedReader {
    #[pyo3(signature = (api_version, kind, *, metadata=false, namespaces=None, followed=false, label_selector=None,
                        field_selector=None))]
    #[expect(
        clippy::too_many_arguments,
        reason = "keyword arguments of a Python method"
    )]
    fn declare(
        &self,
        api_version: String,
        kind: String,
        metadata: bool,
        namespaces: Option<Vec<String>>,
        followed: bool,
        label_selector: Option<String>,
        field_selector: Option<String>,
    ) -> PyResult<FeedKind> {
        let declared = Declared {
            api_version,
            kind,
            form: if metadata {
                Form::Metadata
            } else {
                Form::Whole
            },
            namespaces: match namespaces {
                Some(names) => Namespaces::Named(names),
                None if followed => Namespaces::Followed,
                None => Namespaces::All,
            },
            label_selector,
            field_selector,
        };
        Ok(FeedKind {
            kind: Local::new(self.reader.get()?.declare(declared)),
            window: self.window,
        })
    }

    #[getter]
    fn slow_closed(&self) -> PyResult<u64> {
        Ok(self.reader.get()?.slow_closed())
    }

    fn close(&self) -> PyResult<()> {
        self.reader.get()?.close();
        Ok(())
    }
}

/// A declared kind with the informers that hold its objects.
#[pyclass(frozen, module = "ctrlhost._core")]
pub(crate) struct FeedKind {
    kind: Local<Arc<feed::Kind>>,
    window: Window,
}

#[pymethods]
impl FeedKind {
    fn set_resource(&self, plural: String, namespaced: bool) -> PyResult<()> {
        self.kind.get()?.set_resource(plural, namespaced);
        Ok(())
    }

    #[pyo3(signature = (reason))]
    fn refuse(&self, reason: Option<String>) -> PyResult<()> {
        self.kind.get()?.refuse(reason);
        Ok(())
    }

    fn add(&self, py: Python<'_>, namespace: String, engine: &SharedInformer) -> PyResult<()> {
        let kind = self.kind.get()?;
        let engine = &engine.engine;
        let engine_kind = engine.get()?.config();
        let whole = kind.declared().form == Form::Whole;
        if engine_kind.transform.is_some() || (whole && engine_kind.projection.is_some()) {
            return Err(PyValueError::new_err(format!(
                "the informer of {} does not keep its objects as the server sent them: the kind needs one that does",
                engine_kind.resource
            )));
        }
        let window = self.window;
        let log = engine.work(py, "add", |engine| engine.event_log(window))?;
        kind.add_log(namespace, log);
        Ok(())
    }

    fn remove(&self, namespace: &str, engine: &SharedInformer) -> PyResult<()> {
        if let Some(log) = engine.engine.get()?.kept_event_log() {
            self.kind.get()?.remove_log(namespace, &log);
        }
        Ok(())
    }
}
