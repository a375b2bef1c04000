//! Strings that recur in objects: the keys of JSON, kinds and versions.
//!
//! Not `sys.intern`, which keeps a string for ever from Python 3.12 on: anybody who writes objects chooses their keys.

use ctrlhost_core::key::hash_bytes;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// Recent strings, each in the place of its hash. Locked only while attached to the interpreter.
static RECENT: Mutex<Vec<Option<Py<PyString>>>> = Mutex::new(Vec::new());

const PLACES: usize = 16_384;

/// Longer strings are not shared, so that the cache is small.
const LONGEST: usize = 64;

/// Return a string, as a rule the same object as the last time.
pub(crate) fn recurring<'py>(py: Python<'py>, text: &str) -> Bound<'py, PyString> {
    if text.len() > LONGEST {
        return PyString::new(py, text);
    }
    let place = usize::try_from(hash_bytes(text.as_bytes())).unwrap_or_default() % PLACES;
    let mut recent = RECENT.lock();
    if recent.is_empty() {
        recent.resize_with(PLACES, || None);
    }
    let slot = &mut recent[place];
    if let Some(known) = slot.as_ref().map(|known| known.bind(py))
        && known.to_str().is_ok_and(|known| known == text)
    {
        return known.clone();
    }
    let fresh = PyString::new(py, text);
    *slot = Some(fresh.clone().unbind());
    fresh
}
