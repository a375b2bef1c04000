//! Terms of leadership in Python, and the permits that the transport compares without the interpreter.

use std::sync::Arc;
use std::time::Duration;

use ctrlhost_core::clock::{self, Clock, Tick, seconds};
use ctrlhost_core::term;
use ctrlhost_transport::client::Gate;
use pyo3::prelude::*;

use crate::clock::{SystemClock, core_clock};

/// The current or last term of this replica with one lease.
#[pyclass(frozen, subclass, module = "ctrlhost._core")]
pub(crate) struct Tenure(Arc<term::Tenure>);

fn tick(moment: f64) -> Tick {
    Tick::ZERO.after(seconds(moment))
}

fn moment(tick: Tick) -> f64 {
    match tick {
        Tick::ZERO => f64::NEG_INFINITY,
        Tick::NEVER => f64::INFINITY,
        tick => tick.as_secs(),
    }
}

#[pymethods]
impl Tenure {
    #[new]
    fn new(clock: &Bound<'_, PyAny>) -> PyResult<Self> {
        let clock: Arc<dyn Clock> = if clock.is_instance_of::<SystemClock>() {
            Arc::new(clock::SuspendAwareClock)
        } else {
            core_clock(clock)?
        };
        Ok(Self(Arc::new(term::Tenure::new(clock))))
    }

    fn now(&self) -> f64 {
        self.0.clock().now().as_secs()
    }

    #[getter]
    fn number(&self) -> u64 {
        self.0.current().number
    }

    #[getter]
    fn until(&self) -> f64 {
        moment(self.0.current().until)
    }

    #[getter]
    fn term(&self) -> Option<u64> {
        self.0.leading()
    }

    fn snapshot(&self) -> (u64, f64) {
        let term = self.0.current();
        (term.number, moment(term.until))
    }

    fn begin(&self, until: f64) {
        self.0.begin(tick(until));
    }

    fn extend(&self, until: f64) {
        self.0.extend(tick(until));
    }

    fn end(&self) {
        self.0.end();
    }

    fn follow(&self, number: u64, until: f64) {
        self.0.set(term::Term {
            number,
            until: tick(until),
        });
    }
}

/// Refuses every request from the moment it is raised.
#[pyclass(frozen, module = "ctrlhost._core")]
pub(crate) struct Fence(Arc<term::Fence>);

#[pymethods]
impl Fence {
    #[new]
    fn new() -> Self {
        Self(Arc::default())
    }

    #[getter]
    fn raised(&self) -> bool {
        self.0.is_raised()
    }

    #[pyo3(name = "raise_")]
    fn raise(&self) {
        self.0.raise();
    }
}

/// What is compared where bytes of a request leave.
#[pyclass(frozen, module = "ctrlhost._core", name = "Gate")]
pub(crate) struct PermitGate(Arc<Compared>);

/// A permit as the transport asks it.
struct Compared(term::Permit);

impl Gate for Compared {
    fn may_send(&self) -> Result<Option<Duration>, u8> {
        self.0.check().map_err(|refusal| refusal as u8)
    }
}

impl PermitGate {
    /// Return the permit for the transport.
    pub(crate) fn shared(&self) -> Arc<dyn Gate> {
        self.0.clone()
    }
}

#[pymethods]
impl PermitGate {
    #[new]
    #[pyo3(signature = (fence, tenure=None, term=None))]
    fn new(fence: &Fence, tenure: Option<&Tenure>, term: Option<u64>) -> Self {
        let tenure = tenure.map(|tenure| tenure.0.clone());
        let permit = term::Permit::new(fence.0.clone(), tenure, term);
        Self(Arc::new(Compared(permit)))
    }

    #[classattr]
    const FENCED: u8 = term::Refusal::Fenced as u8;

    #[classattr]
    const OTHER_TERM: u8 = term::Refusal::OtherTerm as u8;

    #[classattr]
    const NOT_LEADING: u8 = term::Refusal::NotLeading as u8;

    #[classattr]
    const DEADLINE: u8 = term::Refusal::Deadline as u8;

    /// Return the reason why nothing may be sent, 0 for none.
    fn refusal(&self) -> u8 {
        self.0.may_send().err().unwrap_or(0)
    }
}
