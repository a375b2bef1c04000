//! A stream that the decode threads pass on to an informer, as reflectors see it.

use std::sync::Arc;

use ctrlhost_core::clock::seconds;
use ctrlhost_core::informer::decoders::{self, Task};
use ctrlhost_core::informer::{Body, FollowError, Follower, SharedInformer as Core, Told};
use ctrlhost_transport::client::{Failure, Stream};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::SharedInformer;
use super::progress::{ListMeta, WatchProgress};
use crate::errors;
use crate::interpreter::{self, Local};
use crate::transport::{Answers, HttpStream, raise};

/// What a decode thread and the object in Python share.
#[derive(Clone)]
struct Shared {
    follower: Arc<Follower<Arc<Stream>>>,
    /// Kept: it ends with its last user.
    _task: Arc<Task>,
}

/// One stream on its way to one informer. It starts at once.
#[pyclass(frozen, module = "ctrlhost._core")]
pub(crate) struct Following {
    shared: Local<Shared>,
    /// Method and URL.
    what: Arc<str>,
}

impl Drop for Following {
    fn drop(&mut self) {
        self.shared.keep_in_child();
    }
}

#[pymethods]
impl Following {
    #[new]
    fn new(
        py: Python<'_>,
        informer: &SharedInformer,
        stream: &HttpStream,
        body: &str,
        idle: f64,
    ) -> PyResult<Self> {
        let informer = informer.engine.get()?.clone();
        if informer.config().transform.is_some() {
            let message = "an informer with a transform needs a thread of its own";
            return Err(PyValueError::new_err(message));
        }
        let body = match body {
            "page" => Body::Page,
            "initial" => Body::Initial,
            "watch" => Body::Watch,
            other => return Err(PyValueError::new_err(format!("unknown body: {other}"))),
        };
        let source = stream.shared()?.clone();
        let shared = interpreter::detach(py, || {
            let follower = Arc::new(Follower::new(informer, source, body));
            let task = Task::new(follower.clone())?;
            let woken = Arc::downgrade(&task);
            let source = follower.source();
            source.set_idle(seconds(idle));
            source.set_on_news(Arc::new(move || {
                if let Some(task) = woken.upgrade() {
                    task.wake();
                }
            }));
            Ok(Shared {
                follower,
                _task: task,
            })
        })
        .map_err(|text: String| errors::raise(py, "CtrlhostError", &text, ""))?;
        Ok(Self {
            shared: Local::new(shared),
            what: stream.what().into(),
        })
    }

    /// Call `done` once there is something to tell.
    fn ask(&self, py: Python<'_>, answers: &Answers, done: Py<PyAny>) -> PyResult<()> {
        let follower = &self.shared.get()?.follower;
        let answers = answers.sender()?;
        let (informer, what) = (follower.informer().clone(), self.what.clone());
        interpreter::detach(py, || {
            follower.ask(move |told| {
                answers.send(done, move |py| told_in_python(py, &informer, &what, told));
            });
        });
        Ok(())
    }

    /// Return what came and was not told yet.
    fn so_far(&self, py: Python<'_>) -> PyResult<WatchProgress> {
        let follower = &self.shared.get()?.follower;
        WatchProgress::wrap(py, interpreter::detach(py, || follower.so_far()))
    }
}

fn told_in_python<'py>(
    py: Python<'py>,
    informer: &Core,
    what: &str,
    told: Told<Failure>,
) -> PyResult<Bound<'py, PyAny>> {
    match told {
        Told::Progress(progress) => WatchProgress::wrap(py, progress)?.into_bound_py_any(py),
        Told::Page(meta) => ListMeta::from(meta).into_bound_py_any(py),
        Told::End => Ok(py.None().into_bound(py)),
        Told::Failed(FollowError::Decode(error)) => Err(errors::decode_error(
            py,
            &informer.config().resource,
            &error,
        )),
        Told::Failed(FollowError::OverBudget(over)) => Err(errors::over_budget(py, &over)),
        Told::Failed(FollowError::Source(failure)) => Err(raise(py, what, &failure, None)),
        Told::Failed(error @ FollowError::Panicked) => {
            let message = format!("{what}: {error}");
            Err(errors::raise(py, "CtrlhostError", &message, ""))
        }
    }
}

/// Call a function with the name of the resource before each step of a decode thread, or no longer (None). It may hold
/// the step; if it raises, the step panics. For tests.
#[pyfunction]
pub(crate) fn _decode_hook(py: Python<'_>, function: Option<Py<PyAny>>) {
    let hook = function.map(|function| {
        let hook = move |resource: &str| {
            let called = interpreter::attach(|py| function.call1(py, (resource,)).is_ok());
            assert!(called, "injected by a test");
        };
        Arc::new(hook) as Arc<dyn Fn(&str) + Send + Sync>
    });
    interpreter::detach(py, || decoders::set_hook(hook));
}

/// Return the processor time of the I/O thread and of the decode threads, in seconds.
#[pyfunction]
pub(crate) fn transport_busy() -> (f64, f64) {
    let io = ctrlhost_transport::client::busy();
    (io.as_secs_f64(), decoders::busy().as_secs_f64())
}
