//! The validation rules of CRDs.

use std::panic::{AssertUnwindSafe, catch_unwind};

use kube_cel::{Problem, Validator};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use serde::Deserialize;
use serde_json::Value;

/// The compiled rules of a schema.
#[pyclass(frozen, module = "ctrlhost_sandbox._native")]
pub(crate) struct CelValidator(Validator);

/// Run code on untrusted text: a panic, which would be a defect, becomes an ordinary exception.
pub(super) fn guarded<T>(work: impl FnOnce() -> T) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(work))
        .map_err(|_| PyRuntimeError::new_err("internal error in the rules of a schema"))
}

/// Parse JSON; ValueError if it is invalid. What is nested too deep was refused when the request was read.
pub(super) fn parsed(text: &str) -> PyResult<Value> {
    let mut reader = serde_json::Deserializer::from_str(text);
    reader.disable_recursion_limit();
    let value = Value::deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    value.map_err(|error| PyValueError::new_err(error.to_string()))
}

type ProblemTuple = (String, &'static str, String, String, Option<String>);
type FindingTuple = (String, &'static str, String, String, bool);

#[pymethods]
impl CelValidator {
    /// Compile the rules of a schema in JSON; ValueError for invalid JSON. `root` is for schemas of whole objects,
    /// whose rules see type and name.
    #[new]
    #[pyo3(signature = (schema, root=true))]
    fn new(py: Python<'_>, schema: &str, root: bool) -> PyResult<Self> {
        let schema = parsed(schema)?;
        py.detach(|| guarded(|| Validator::new(&schema, root)))
            .map(Self)
    }

    /// The problems of the rules: field below the schema, reason, value as JSON or empty, message, and the field with
    /// which the message ends.
    #[getter]
    fn problems(&self) -> Vec<ProblemTuple> {
        let tuple = |problem: &Problem| {
            let Problem {
                field,
                reason,
                value,
                message,
                within,
            } = problem.clone();
            (field, reason, value, message, within)
        };
        self.0.problems().iter().map(tuple).collect()
    }

    /// Whether there are no rules.
    #[getter]
    fn empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Evaluate the rules for an object and its former state, both in JSON. Return field, reason, value
    /// as JSON or empty, message, and whether it is only a warning, for each failed rule.
    #[pyo3(signature = (object, old=None))]
    fn validate(
        &self,
        py: Python<'_>,
        object: &str,
        old: Option<&str>,
    ) -> PyResult<Vec<FindingTuple>> {
        let (object, old) = (parsed(object)?, old.map(parsed).transpose()?);
        let problems = py.detach(|| guarded(|| self.0.validate(&object, old.as_ref())))?;
        let tuples = problems.into_iter().map(|problem| {
            (
                problem.field,
                problem.reason,
                problem.value,
                problem.message,
                problem.warning,
            )
        });
        Ok(tuples.collect())
    }
}
