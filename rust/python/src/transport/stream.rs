//! The body of a response in Python. Informers read it without the interpreter.

use std::sync::Arc;
use std::time::Duration;

use ctrlhost_core::clock::seconds;
use ctrlhost_core::informer::{Received, Source};
use ctrlhost_transport::client::{Failure, Next, Stream};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::messages::raise;
use crate::interpreter::{self, Local, SLICE};

/// A stream as an informer reads it.
pub(crate) struct Followed<'a>(&'a Stream);

impl Source for Followed<'_> {
    type Piece = bytes::Bytes;
    type Error = Failure;

    fn receive(&self, limit: Duration) -> Result<Received<Self::Piece>, Failure> {
        Ok(match self.0.next(limit)? {
            Next::Data(piece) => Received::Piece(piece),
            Next::End => Received::End,
            Next::Nothing => Received::Nothing,
        })
    }
}

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

    pub(crate) fn source(&self) -> PyResult<Followed<'_>> {
        Ok(Followed(self.stream.get()?))
    }

    /// Make the error for a stream that was cut.
    pub(crate) fn cut(&self, py: Python<'_>, failure: &Failure) -> PyErr {
        raise(py, &self.what, failure, None)
    }

    /// Make the error for a stream without data for `idle`.
    pub(crate) fn silent(&self, py: Python<'_>, idle: f64) -> PyErr {
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
        let source = self.source()?;
        let mut left = seconds(idle);
        let slice = interpreter::in_main_thread(py)?.then_some(SLICE);
        loop {
            let wait = slice.map_or(left, |slice| slice.min(left));
            left = left.saturating_sub(wait);
            match interpreter::detach(py, || source.receive(wait)) {
                Ok(Received::Piece(piece)) => return Ok(PyBytes::new(py, &piece)),
                Ok(Received::End) => return Ok(PyBytes::new(py, b"")),
                Ok(Received::Nothing) if left.is_zero() => return Err(self.silent(py, idle)),
                Ok(Received::Nothing) => py.check_signals()?,
                Err(failure) => return Err(self.cut(py, &failure)),
            }
        }
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let stream = self.stream.get()?;
        interpreter::detach(py, || stream.close());
        Ok(())
    }

    #[getter]
    fn held_back(&self) -> PyResult<f64> {
        Ok(self.stream.get()?.held_back().as_secs_f64())
    }
}
