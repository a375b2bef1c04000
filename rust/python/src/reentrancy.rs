//! The engines that a thread is in, so that a transform that calls one again does not wait for itself.

use std::cell::RefCell;

use ctrlhost_core::informer::SharedInformer;
use pyo3::prelude::*;

thread_local! {
    /// The engines whose calls this thread has not returned from; a transform of one of them may be running.
    static ENTERED: RefCell<Vec<*const SharedInformer>> = const { RefCell::new(Vec::new()) };
}

/// Return whether the thread is in the engine.
#[inline]
pub(crate) fn is_inside(engine: &SharedInformer) -> bool {
    // The pointer is compared, never followed.
    let engine: *const SharedInformer = engine;
    ENTERED.with_borrow(|entered| entered.contains(&engine))
}

/// Return whether the caller is a function that an informer calls on its own thread: a transform.
#[pyfunction]
pub(crate) fn in_callback() -> bool {
    ENTERED.with_borrow(|entered| !entered.is_empty())
}

/// Marks the thread as being in an engine until it is dropped.
pub(crate) struct Entered;

impl Entered {
    #[inline]
    pub(crate) fn enter(engine: &SharedInformer) -> Self {
        let engine: *const SharedInformer = engine;
        ENTERED.with_borrow_mut(|entered| entered.push(engine));
        Self
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        ENTERED.with_borrow_mut(Vec::pop);
    }
}
