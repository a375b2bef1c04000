//! The interpreter as the border needs it: attaching and detaching, its main thread, its exceptions, and forks.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ctrlhost_core::sync::set_blocking;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{IntoPyDict, PyType};

/// How long a thread sleeps before it checks for signals, which do not end a sleep by themselves.
pub(crate) const SLICE: Duration = Duration::from_millis(50);

/// Items of a Python iterator after which other threads get the interpreter: an iterator in C never lets them.
pub(crate) const UNTIL_OTHERS: usize = 1_000;

thread_local! {
    /// The thread has released the interpreter by [`detach`], and not taken it again by [`attach`].
    static DETACHED: Cell<bool> = const { Cell::new(false) };
}

/// Marks the thread as detached or attached until this is dropped.
struct Marked {
    before: bool,
}

impl Marked {
    #[inline]
    fn set(detached: bool) -> Self {
        let before = DETACHED.replace(detached);
        Self { before }
    }
}

impl Drop for Marked {
    #[inline]
    fn drop(&mut self) {
        DETACHED.set(self.before);
    }
}

/// Run `work` without the interpreter.
#[inline]
#[expect(clippy::disallowed_methods, reason = "the one place that detaches")]
pub(crate) fn detach<R: Send>(py: Python<'_>, work: impl FnOnce() -> R + Send) -> R {
    DETACHES.fetch_add(1, Ordering::Relaxed);
    py.detach(|| {
        let _marked = Marked::set(true);
        work()
    })
}

/// Run `work` with the interpreter, on a thread that may have released it.
#[inline]
#[expect(clippy::disallowed_methods, reason = "the one place that attaches")]
pub(crate) fn attach<R>(work: impl FnOnce(Python<'_>) -> R) -> R {
    Python::attach(|py| {
        let _marked = Marked::set(false);
        work(py)
    })
}

/// Run `work` during a pass of the garbage collector, which must not release the interpreter.
pub(crate) fn collecting<R>(work: impl FnOnce() -> R) -> R {
    let _marked = Marked::set(true);
    work()
}

/// How often a thread released the interpreter.
static DETACHES: AtomicUsize = AtomicUsize::new(0);

/// Return how often a thread has released the interpreter in this module.
#[pyfunction]
pub(crate) fn _detached() -> usize {
    DETACHES.load(Ordering::Relaxed)
}

/// Waits that released the interpreter.
static RELEASED: AtomicUsize = AtomicUsize::new(0);

/// Return how often a thread has released the interpreter to wait for a lock of the core.
#[pyfunction]
pub(crate) fn _released() -> usize {
    RELEASED.load(Ordering::Relaxed)
}

/// The wait of the core; it has no reference to Python, so it may run detached.
struct Wait<'a>(&'a mut dyn FnMut());

// SAFETY: `detach` runs it on this thread. The bound keeps references to Python out, and the core has none.
unsafe impl Send for Wait<'_> {}

impl Wait<'_> {
    fn run(self) {
        (self.0)();
    }
}

/// Release the interpreter for a wait for a lock of the core, if the thread has it.
fn blocking(wait: &mut dyn FnMut()) -> bool {
    if DETACHED.get() {
        return false;
    }
    RELEASED.fetch_add(1, Ordering::Relaxed);
    let wait = Wait(wait);
    attach(|py| detach(py, || wait.run()));
    true
}

/// Make threads release the interpreter while they wait for locks of the core.
pub(crate) fn register_waits() {
    set_blocking(blocking);
}

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

impl<T: Clone> Local<T> {
    /// In a child of the process that made it, keep what the value shares: its end would wait for threads that do not
    /// exist, or take from the parent what both see.
    pub(crate) fn keep_in_child(&self) {
        if self.get().is_err() {
            std::mem::forget(self.value.clone());
        }
    }
}

/// Notes the process in which it is made, for objects in Python.
#[pyclass(frozen, module = "ctrlhost._core")]
pub(crate) struct MadeHere(Local<()>);

#[pymethods]
impl MadeHere {
    #[new]
    fn new() -> Self {
        Self(Local::new(()))
    }

    fn check(&self) -> PyResult<()> {
        self.0.get().copied()
    }
}

#[cold]
fn forked() -> PyErr {
    PyRuntimeError::new_err(
        "this object was made before fork: its locks and the threads that use it are those of the parent process; \
         create it after the fork, or start the process with the method \"spawn\"",
    )
}

thread_local! {
    /// The generation of the process in which it was last asked whether the thread handles signals, and the answer.
    static IS_MAIN: Cell<Option<(usize, bool)>> = const { Cell::new(None) };
}

/// Return whether the calling thread handles signals; only a fork changes that.
pub(crate) fn in_main_thread(py: Python<'_>) -> PyResult<bool> {
    let generation = generation();
    if let Some((known, is_main)) = IS_MAIN.get()
        && known == generation
    {
        return Ok(is_main);
    }
    let threading = py.import("threading")?;
    let main = threading.call_method0("main_thread")?;
    let is_main = main
        .getattr("ident")?
        .eq(threading.call_method0("get_ident")?)?;
    IS_MAIN.set(Some((generation, is_main)));
    Ok(is_main)
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
