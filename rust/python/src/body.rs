//! The body of an answer while it arrives, as Python hands it over: by the piece, or with its socket.

use std::time::Duration;

use ctrlhost_core::informer::{FollowError, Followed, SharedInformer};
use ctrlhost_core::stream as core;
use parking_lot::Mutex;
use pyo3::exceptions::{PyOSError, PyTimeoutError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

struct State {
    body: core::Body,
    #[cfg(unix)]
    socket: Option<core::Socket>,
}

/// Takes the framing off one body, for one thread at a time.
#[pyclass(frozen, module = "ctrlhost._core")]
pub(crate) struct Body {
    state: Mutex<State>,
}

impl Body {
    /// Take a piece of a watch, up to the handlers of the engine.
    pub(crate) fn follow(&self, engine: &SharedInformer, piece: &[u8]) -> Followed {
        engine.follow(&mut self.state.lock().body, piece)
    }

    /// Take a piece of a list page.
    pub(crate) fn list(&self, engine: &SharedInformer, piece: &[u8]) -> Result<(), FollowError> {
        engine.list(&mut self.state.lock().body, piece)
    }

    /// Take more of a list page from the socket; None if there is none.
    #[cfg(unix)]
    pub(crate) fn list_socket(
        &self,
        engine: &SharedInformer,
        idle: Duration,
        linger: Duration,
    ) -> Option<Result<(), FollowError>> {
        let State { body, socket } = &mut *self.state.lock();
        Some(engine.list_socket(body, socket.as_mut()?, idle, linger))
    }

    /// Follow a watch from the socket; None if there is none.
    #[cfg(unix)]
    pub(crate) fn follow_socket(
        &self,
        engine: &SharedInformer,
        idle: Duration,
        linger: Duration,
    ) -> Option<Followed> {
        let State { body, socket } = &mut *self.state.lock();
        Some(engine.follow_socket(body, socket.as_mut()?, idle, linger))
    }
}

fn broken(error: &core::BodyError) -> PyErr {
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
            state: Mutex::new(State {
                body,
                #[cfg(unix)]
                socket: None,
            }),
        }
    }

    #[getter]
    fn done(&self) -> bool {
        self.state.lock().body.is_done()
    }

    fn feed<'py>(&self, py: Python<'py>, piece: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let mut payload = Vec::with_capacity(piece.len());
        let fed = self
            .state
            .lock()
            .body
            .feed(piece, &mut |part| payload.extend_from_slice(part));
        fed.map_err(|error| broken(&error))?;
        Ok(PyBytes::new(py, &payload))
    }

    fn end(&self) -> PyResult<()> {
        self.state.lock().body.end().map_err(|error| broken(&error))
    }

    /// Read from a duplicate of that socket from now on; False where that can not be had.
    #[cfg(unix)]
    fn take_socket(&self, fd: i32) -> PyResult<bool> {
        use std::os::fd::BorrowedFd;

        if fd < 0 {
            return Ok(false);
        }
        // SAFETY: the caller owns the socket and keeps it open until this returns; only the duplicate is kept.
        let duplicate = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned()?;
        self.state.lock().socket = Some(core::Socket::new(duplicate)?);
        Ok(true)
    }

    #[cfg(not(unix))]
    fn take_socket(&self, fd: i32) -> bool {
        let _ = fd;
        false
    }

    /// Close the duplicate.
    fn drop_socket(&self, py: Python<'_>) {
        #[cfg(unix)]
        py.detach(|| drop(self.state.lock().socket.take()));
        #[cfg(not(unix))]
        let _ = py;
    }

    /// The next payload off the socket, empty at the end. TimeoutError after `idle` seconds of silence.
    #[cfg(unix)]
    fn receive<'py>(&self, py: Python<'py>, idle: f64) -> PyResult<Bound<'py, PyBytes>> {
        let idle = ctrlhost_core::clock::seconds(idle);
        let mut payload = Vec::new();
        py.detach(|| {
            let State { body, socket } = &mut *self.state.lock();
            while let (Some(socket), false) = (&mut *socket, body.is_done() || !payload.is_empty())
            {
                match socket.receive(idle)? {
                    core::Received::Bytes(piece) => body
                        .feed(piece, &mut |part| payload.extend_from_slice(part))
                        .map_err(|error| broken(&error))?,
                    core::Received::End => {
                        return body.end().map_err(|error| broken(&error));
                    }
                    core::Received::Nothing => {
                        return Err(PyTimeoutError::new_err("nothing arrived in time"));
                    }
                }
            }
            PyResult::Ok(())
        })?;
        Ok(PyBytes::new(py, &payload))
    }
}

/// What ended a stream, as an error of Python; `malformed` makes that of a frame.
pub(crate) fn ended(
    error: &FollowError,
    malformed: impl FnOnce(&ctrlhost_core::decode::DecodeError) -> PyErr,
) -> PyErr {
    match error {
        FollowError::Decode(error) => malformed(error),
        FollowError::Body(error) => broken(error),
        FollowError::Io(error) => PyOSError::new_err(error.to_string()),
        FollowError::Idle => PyTimeoutError::new_err(error.to_string()),
    }
}
