//! The selectors of shards in Python.

use ctrlhost_core::shards::{Field, Ranges, hash};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Selects objects by the hash of their uid or namespace.
#[pyclass(frozen, module = "ctrlhost_sandbox._native")]
pub(crate) struct ShardSelector {
    field: Field,
    ranges: Ranges,
    text: String,
}

#[pymethods]
impl ShardSelector {
    /// Parse the parameter `shardSelector`; ValueError with kube-apiserver's message for an invalid one.
    #[new]
    fn new(text: &str) -> PyResult<Self> {
        let parsed = kube_cel::ShardSelector::parse(text).map_err(PyValueError::new_err)?;
        let field = match parsed.field {
            field if field == Field::Namespace.path() => Field::Namespace,
            _ => Field::Uid,
        };
        let written = parsed.ranges.iter();
        let texts = written.map(|(start, end)| field.range(*start, *end));
        let text = texts.collect::<Vec<_>>().join(" || ");
        // An end is above its start, so it is not 0.
        let last = |end: u128| u64::try_from(end - 1).unwrap_or(u64::MAX);
        let ranges = parsed.ranges.iter().map(|(start, end)| *start..=last(*end));
        Ok(Self {
            field,
            ranges: ranges.collect(),
            text,
        })
    }

    /// The selector in canonical form.
    #[getter]
    fn text(&self) -> &str {
        &self.text
    }

    /// Return whether an object is selected.
    fn selects(&self, namespace: &str, uid: &str) -> bool {
        self.ranges.contains(hash(match self.field {
            Field::Namespace => namespace,
            Field::Uid => uid,
        }))
    }
}
