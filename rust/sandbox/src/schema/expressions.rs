//! The expressions of admission policies.

use std::cell::RefCell;

use kube_cel::{Decision, Expressions, Inputs, Question, Returns};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::cel::{guarded, parsed};

/// The expressions of a policy that are evaluated together, with their variables.
#[pyclass(frozen, module = "ctrlhost_sandbox._native")]
pub(crate) struct CelExpressions(Expressions);

/// The result as JSON and an empty text, or None and the message of the error.
type OutcomeTuple = (Option<String>, String);

fn returns(name: &str) -> PyResult<Returns> {
    Ok(match name {
        "any" => Returns::Any,
        "bool" => Returns::Bool,
        "string" => Returns::String,
        "string or null" => Returns::StringOrNull,
        "Object" => Returns::Object,
        "list(JSONPatch)" => Returns::Patches,
        _ => return Err(PyValueError::new_err(format!("unknown type {name:?}"))),
    })
}

#[pymethods]
impl CelExpressions {
    /// Compile expressions, each with the type that it must have (any, bool, string, string or null, Object,
    /// list(JSONPatch)), and variables with their names. `params` and `authorizer` say whether these names are known,
    /// `schema` is the schema of the objects, to check types; ValueError for an unknown type or invalid JSON.
    #[new]
    #[pyo3(signature = (expressions, variables=Vec::new(), *, params=false, authorizer=true, schema=None))]
    fn new(
        py: Python<'_>,
        expressions: Vec<(String, String)>,
        variables: Vec<(String, String)>,
        params: bool,
        authorizer: bool,
        schema: Option<&str>,
    ) -> PyResult<Self> {
        let expressions = expressions
            .into_iter()
            .map(|(text, name)| Ok((text, returns(&name)?)))
            .collect::<PyResult<Vec<_>>>()?;
        let schema = schema.map(parsed).transpose()?;
        py.detach(|| {
            guarded(|| {
                Expressions::new(expressions, variables, params, authorizer, schema.as_ref())
            })
        })
        .map(Self)
    }

    /// The messages of the expressions that do not compile, None for the others.
    #[getter]
    fn errors(&self) -> Vec<Option<String>> {
        self.0.errors()
    }

    /// The messages of the variables that do not compile, None for the others.
    #[getter]
    fn variable_errors(&self) -> Vec<Option<String>> {
        self.0.variable_errors().to_vec()
    }

    /// Evaluate all expressions for a request in at most `budget` steps; the inputs are JSON. Return the results (JSON,
    /// or None and the message of the error) and the steps left, or None if there were not enough. `authorize` answers
    /// questions to the authorizer, with account, path, verb, group, resource with sub-resource, namespace and name.
    #[pyo3(signature = (object, old, request, namespace="null", params="null", *, budget, authorize=None))]
    #[allow(clippy::too_many_arguments, reason = "they are the inputs of a policy")]
    #[allow(
        clippy::needless_pass_by_value,
        reason = "a reference cannot cross the release of the interpreter"
    )]
    fn evaluate(
        &self,
        py: Python<'_>,
        object: &str,
        old: &str,
        request: &str,
        namespace: &str,
        params: &str,
        budget: u64,
        authorize: Option<Py<PyAny>>,
    ) -> PyResult<Option<(Vec<OutcomeTuple>, u64)>> {
        let inputs = [object, old, request, namespace, params].map(parsed);
        let [object, old, request, namespace, params] = inputs;
        let (object, old, request) = (object?, old?, request?);
        let (namespace, params) = (namespace?, params?);
        let inputs = Inputs {
            object: &object,
            old: &old,
            request: &request,
            namespace: &namespace,
            params: &params,
        };
        let (outcomes, failed) = py.detach(|| {
            let failed = RefCell::new(None);
            let ask = |question: &Question| match &authorize {
                Some(authorize) => answer(authorize, question).unwrap_or_else(|error| {
                    failed.replace(Some(error));
                    Decision::default()
                }),
                None => Decision::default(),
            };
            let ask: Option<&dyn Fn(&Question) -> Decision> = authorize
                .is_some()
                .then_some(&ask as &dyn Fn(&Question) -> Decision);
            let outcomes = guarded(|| self.0.evaluate(inputs, budget, ask));
            (outcomes, failed.into_inner())
        });
        if let Some(failed) = failed {
            return Err(failed);
        }
        let tuple = |outcome| match outcome {
            Ok(value) => (Some(serde_json::Value::to_string(&value)), String::new()),
            Err(message) => (None, message),
        };
        Ok(outcomes?.map(|(outcomes, left)| (outcomes.into_iter().map(tuple).collect(), left)))
    }
}

fn answer(authorize: &Py<PyAny>, question: &Question) -> PyResult<Decision> {
    let account = question
        .account
        .as_ref()
        .map(|(namespace, name)| format!("{namespace}:{name}"));
    let of = question;
    let attributes = (
        account,
        &of.path,
        &of.verb,
        &of.group,
        &of.resource,
        &of.subresource,
        &of.namespace,
        &of.name,
    );
    Python::attach(|py| {
        let (allowed, reason) = authorize.call1(py, attributes)?.extract(py)?;
        Ok(Decision { allowed, reason })
    })
}
