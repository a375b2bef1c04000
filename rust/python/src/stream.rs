//! The body of a response while it arrives: Python passes pieces of it, or its socket.

use ctrlhost_core::stream as core;
use ctrlhost_core::sync::Turn;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::interpreter::{self, Local};

struct State {
    body: core::Body,
    #[cfg(unix)]
    socket: Option<core::Socket>,
}

/// Removes the framing of one body, for one thread at a time.
#[pyclass(frozen, module = "ctrlhost._core")]
pub(crate) struct Body {
    state: Local<Turn<State>>,
}

impl Body {
    /// Run `work` with the body.
    pub(crate) fn framed<R>(&self, work: impl FnOnce(&mut core::Body) -> R) -> PyResult<R> {
        Ok(work(&mut self.state.get()?.take().body))
    }

    /// Run `work` with the body and its socket.
    ///
    /// # Errors
    /// `ValueError` if there is no socket.
    #[cfg(unix)]
    pub(crate) fn with_socket<R>(
        &self,
        work: impl FnOnce(&mut core::Body, &mut core::Socket) -> R,
    ) -> PyResult<R> {
        let State { body, socket } = &mut *self.state.get()?.take();
        let socket = socket.as_mut();
        let socket = socket.ok_or_else(|| PyValueError::new_err("the body has no socket"))?;
        Ok(work(body, socket))
    }
}

pub(crate) fn body_error(error: &core::BodyError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

#[pymethods]
impl Body {
    #[new]
    #[pyo3(signature = (*, chunked, length=None))]
    fn new(chunked: bool, length: Option<u64>) -> Self {
        let body = if chunked {
            core::Body::chunked()
        } else {
            core::Body::of_length(length)
        };
        Self {
            state: Local::new(Turn::new(State {
                body,
                #[cfg(unix)]
                socket: None,
            })),
        }
    }

    #[getter]
    fn done(&self) -> PyResult<bool> {
        self.framed(|body| body.is_done())
    }

    fn feed<'py>(&self, py: Python<'py>, piece: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let mut payload = Vec::with_capacity(piece.len());
        self.framed(|body| body.feed(piece, &mut |part| payload.extend_from_slice(part)))?
            .map_err(|error| body_error(&error))?;
        Ok(PyBytes::new(py, &payload))
    }

    fn end(&self) -> PyResult<()> {
        self.framed(core::Body::end)?
            .map_err(|error| body_error(&error))
    }

    /// Read from a duplicate of that socket from now on; return False where that is not possible.
    #[cfg(unix)]
    fn take_socket(&self, fd: i32) -> PyResult<bool> {
        use std::os::fd::BorrowedFd;

        if fd < 0 {
            return Ok(false);
        }
        // SAFETY: the caller owns the socket and keeps it open until this returns; only the duplicate is kept.
        let duplicate = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned()?;
        self.state.get()?.take().socket = Some(core::Socket::new(duplicate)?);
        Ok(true)
    }

    #[cfg(not(unix))]
    fn take_socket(&self, fd: i32) -> bool {
        let _ = fd;
        false
    }

    /// Close the duplicate.
    fn drop_socket(&self, py: Python<'_>) -> PyResult<()> {
        let state = self.state.get()?;
        #[cfg(unix)]
        interpreter::detach(py, || drop(state.take().socket.take()));
        #[cfg(not(unix))]
        let _ = (py, state);
        Ok(())
    }

    /// Return the next payload from the socket, empty at the end. TimeoutError after `idle` seconds of silence.
    #[cfg(unix)]
    fn receive<'py>(&self, py: Python<'py>, idle: f64) -> PyResult<Bound<'py, PyBytes>> {
        let idle = ctrlhost_core::clock::seconds(idle);
        let mut payload = Vec::new();
        let state = self.state.get()?;
        interpreter::detach(py, || {
            let State { body, socket } = &mut *state.take();
            while let (Some(socket), false) = (&mut *socket, body.is_done() || !payload.is_empty())
            {
                match socket.receive(idle)? {
                    core::Received::Bytes(piece) => body
                        .feed(piece, &mut |part| payload.extend_from_slice(part))
                        .map_err(|error| body_error(&error))?,
                    core::Received::End => return body.end().map_err(|error| body_error(&error)),
                    core::Received::Nothing => {
                        return Err(pyo3::exceptions::PyTimeoutError::new_err(
                            "nothing arrived in time",
                        ));
                    }
                }
            }
            PyResult::Ok(())
        })?;
        Ok(PyBytes::new(py, &payload))
    }
}
