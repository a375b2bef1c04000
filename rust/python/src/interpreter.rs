//! The interpreter as the queue needs it: its main thread, its exceptions, and whether it was forked.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{IntoPyDict, PyType};

/// How long a thread sleeps before it checks for signals, which do not end a sleep by themselves.
pub(crate) const SLICE: Duration = Duration::from_millis(50);

static FORKS: AtomicUsize = AtomicUsize::new(0);

/// Return how often this process or its ancestors forked since the module was imported.
#[inline]
pub(crate) fn generation() -> usize {
    FORKS.load(Ordering::Relaxed)
}

/// Count a fork; called in the child.
#[pyfunction]
pub(crate) fn _forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Register a fork handler.
pub(crate) fn register_fork_handler(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let os = py.import("os")?;
    // Not on Windows, which cannot fork.
    if let Some(register) = os.getattr_opt("register_at_fork")? {
        let hooks = [("after_in_child", wrap_pyfunction!(_forked, module)?)].into_py_dict(py)?;
        register.call((), Some(&hooks))?;
    }
    Ok(())
}

/// What only the process that made it may use: in a forked child its locks may be held by threads that do not exist.
pub(crate) struct Local<T> {
    value: T,
    generation: usize,
}

impl<T> Local<T> {
    pub(crate) fn new(value: T) -> Self {
        let generation = generation();
        Self { value, generation }
    }

    /// Return the value.
    ///
    /// # Errors
    /// `RuntimeError` in a child of the process that made it.
    #[inline]
    pub(crate) fn get(&self) -> PyResult<&T> {
        if self.generation == generation() {
            Ok(&self.value)
        } else {
            Err(forked())
        }
    }
}

#[cold]
fn forked() -> PyErr {
    PyRuntimeError::new_err(
        "this object was made before fork: its locks and the threads that use it are those of the parent process; \
         create it after the fork, or start the process with the method \"spawn\"",
    )
}

/// Return whether the calling thread handles signals.
pub(crate) fn in_main_thread(py: Python<'_>) -> PyResult<bool> {
    static THREADING: PyOnceLock<(Py<PyAny>, Py<PyAny>)> = PyOnceLock::new();
    let (current, main) = THREADING.get_or_try_init(py, || {
        let threading = py.import("threading")?;
        PyResult::Ok((
            threading.getattr("get_ident")?.unbind(),
            threading.getattr("main_thread")?.unbind(),
        ))
    })?;
    main.bind(py)
        .call0()?
        .getattr("ident")?
        .eq(current.bind(py).call0()?)
}

/// Make a `queue.Empty`.
#[cold]
pub(crate) fn empty(py: Python<'_>) -> PyErr {
    static EMPTY: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    match EMPTY.import(py, "queue", "Empty") {
        Ok(kind) => PyErr::from_type(kind.clone(), ()),
        Err(error) => error,
    }
}

/// Make a `ctrlhost.workqueue.ShutDown`.
#[cold]
pub(crate) fn shut_down(py: Python<'_>) -> PyErr {
    static SHUT_DOWN: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let message = "the work queue is shut down and empty";
    match SHUT_DOWN.import(py, "ctrlhost.errors", "ShutDown") {
        Ok(kind) => PyErr::from_type(kind.clone(), message),
        Err(error) => error,
    }
}
