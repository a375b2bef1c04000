//! Rules and patterns of CRD schemas.

mod cel;
mod expressions;
mod pattern;

pub(crate) use cel::CelValidator;
pub(crate) use expressions::CelExpressions;
pub(crate) use pattern::Pattern;

use pyo3::prelude::*;

/// Return whether Go reads a text as the URL of a request.
#[pyfunction]
pub(crate) fn is_url(text: &str) -> bool {
    kube_cel::url::is_url(text)
}
