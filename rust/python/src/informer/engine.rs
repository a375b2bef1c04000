//! The engine of one informer as threads of Python use it: detached from the interpreter, with the errors of Python.

use std::sync::Arc;

use ctrlhost_core::decode::DecodeError;
use ctrlhost_core::informer::{Config, FeedError, SharedInformer};
use ctrlhost_core::store::Store;
use pyo3::prelude::*;

use crate::errors;
use crate::interpreter::{self, Local};
use crate::reentrancy::{self, Entered};

/// The engine of one informer.
pub(crate) struct Engine(Local<Arc<SharedInformer>>);

impl Engine {
    pub(super) fn new(config: Config, store: Arc<Store>) -> Self {
        Self(Local::new(Arc::new(SharedInformer::new(config, store))))
    }

    /// Return the engine itself, for calls that do not wait, or that the caller makes detached.
    ///
    /// # Errors
    /// `RuntimeError` in a child of the process that made it.
    pub(crate) fn get(&self) -> PyResult<&Arc<SharedInformer>> {
        self.0.get()
    }

    /// Feed or process, detached from the interpreter. A transform that does this with its own engine is refused, since
    /// it would wait for itself.
    pub(crate) fn work<R: Send>(
        &self,
        py: Python<'_>,
        what: &str,
        job: impl FnOnce(&SharedInformer) -> R + Send,
    ) -> PyResult<R> {
        let engine = &**self.get()?;
        if reentrancy::is_inside(engine) {
            return Err(errors::reentered(what));
        }
        Ok(interpreter::detach(py, || {
            let _entered = Entered::enter(engine);
            job(engine)
        }))
    }

    /// Convert the error of an object.
    pub(super) fn malformed(&self, py: Python<'_>, error: &DecodeError) -> PyErr {
        match self.get() {
            Ok(engine) => errors::decode_error(py, &engine.config().resource, error),
            Err(forked) => forked,
        }
    }

    /// Convert the error of input that was not taken.
    pub(super) fn refused(&self, py: Python<'_>, error: &FeedError) -> PyErr {
        match error {
            FeedError::Decode(error) => self.malformed(py, error),
            FeedError::OverBudget(over) => errors::over_budget(py, over),
        }
    }
}
