//! Which engines a thread is in, so that a function of Python that comes back to one does not wait for itself.

use std::cell::RefCell;

use ctrlhost_core::informer::SharedInformer;

thread_local! {
    /// The engines that this thread is in, at this moment in a function of Python that one of them called.
    static ENTERED: RefCell<Vec<*const SharedInformer>> = const { RefCell::new(Vec::new()) };
}

/// Whether the thread is in the engine.
#[inline]
pub(crate) fn is_inside(engine: &SharedInformer) -> bool {
    // The pointer is compared, never followed.
    let engine: *const SharedInformer = engine;
    ENTERED.with_borrow(|entered| entered.contains(&engine))
}

/// Notes that the thread is in an engine, until it leaves it, however it does.
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
