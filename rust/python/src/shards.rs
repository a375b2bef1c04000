//! The hash of shards, and their selectors.

use std::ops::RangeInclusive;

use ctrlhost_core::shards::{By, Ranges, hash};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Return what of an object is hashed.
pub(crate) fn by_of(name: &str) -> PyResult<By> {
    By::of(name).ok_or_else(|| {
        PyValueError::new_err(format!(
            "shard_by must be \"namespace\", \"name\", \"uid\" or \"owner\", got {name:?}"
        ))
    })
}

/// Read ranges, each from its start to before its end.
pub(crate) fn ranges_of(pairs: Vec<(u64, u128)>) -> PyResult<Ranges> {
    let range = |(start, end): (u64, u128)| {
        let last = end.checked_sub(1).and_then(|last| u64::try_from(last).ok());
        let last = last.filter(|last| *last >= start);
        last.map(|last| RangeInclusive::new(start, last))
            .ok_or_else(|| {
                PyValueError::new_err(format!(
                    "a range must have 0 <= start < end <= 2**64, got ({start}, {end})"
                ))
            })
    };
    pairs.into_iter().map(range).collect()
}

/// Return the API server's hash of a namespace or uid.
#[pyfunction]
pub(crate) fn shard_hash(text: &str) -> u64 {
    hash(text)
}

/// Return the selector for objects in these ranges, and maybe others; empty if the server cannot choose them.
#[pyfunction]
pub(crate) fn shard_selector(by: &str, ranges: Vec<(u64, u128)>) -> PyResult<String> {
    let ranges = ranges_of(ranges)?;
    let field = by_of(by)?.field();
    Ok(field.map_or_else(String::new, |field| ranges.selector(field)))
}
