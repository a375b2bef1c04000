//! The body of a response in Python. Informers read it without the interpreter.

use std::sync::Arc;

use ctrlhost_core::clock::seconds;
use ctrlhost_transport::client::{Next, Stream};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::messages::raise;
use crate::interpreter::{self, Local, SLICE};

/// The body of one response while it arrives. One thread reads it.
#[pyclass(frozen, module = "ctrlhost._core")]
pub(crate) struct HttpStream {
    stream: Local<Arc<Stream>>,
    /// Method and URL.
    what: String,
}

impl HttpStream {
    pub(super) fn new(stream: Stream, what: String) -> Self {
        Self {
            stream: Local::new(Arc::new(stream)),
            what,
        }
    }

    /// Return the stream, for who reads it in the core.
    pub(crate) fn shared(&self) -> PyResult<&Arc<Stream>> {
        self.stream.get()
    }

    /// Return method and URL.
    pub(crate) fn what(&self) -> &str {
        &self.what
    }

    /// Make the error for a stream without data for `idle`.
    fn silent(&self, py: Python<'_>, idle: f64) -> PyErr {
        let message = format!("{}: no data for {idle} s", self.what);
        crate::errors::raise(py, "TransportError", &message, "")
    }
}

impl Drop for HttpStream {
    fn drop(&mut self) {
        self.stream.keep_in_child();
    }
}

#[pymethods]
impl HttpStream {
    fn read<'py>(&self, py: Python<'py>, idle: f64) -> PyResult<Bound<'py, PyBytes>> {
        let stream = self.stream.get()?;
        let mut left = seconds(idle);
        let slice = interpreter::in_main_thread(py)?.then_some(SLICE);
        loop {
            let wait = slice.map_or(left, |slice| slice.min(left));
            left = left.saturating_sub(wait);
            match interpreter::detach(py, || stream.next(wait)) {
                Ok(Next::Data(piece)) => return Ok(PyBytes::new(py, &piece)),
                Ok(Next::End) => return Ok(PyBytes::new(py, b"")),
                Ok(Next::Nothing) if left.is_zero() => return Err(self.silent(py, idle)),
                Ok(Next::Nothing) => py.check_signals()?,
                Err(failure) => return Err(raise(py, &self.what, &failure, None)),
            }
        }
    }

    fn set_idle(&self, py: Python<'_>, idle: f64) -> PyResult<()> {
        let stream = self.stream.get()?;
        interpreter::detach(py, || stream.set_idle(seconds(idle)));
        Ok(())
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let stream = self.stream.get()?;
        interpreter::detach(py, || stream.close());
        Ok(())
    }

    #[getter]
    fn waiting(&self) -> PyResult<usize> {
        Ok(self.stream.get()?.waiting())
    }

    #[getter]
    fn held_back(&self) -> PyResult<f64> {
        Ok(self.stream.get()?.held_back().as_secs_f64())
    }
}
