//! The content of keys as bytes.
//!
//! A `str` is its UTF-8; everything else but a small `int` is a tag, a length where one is needed, and what it is made of.

mod decode;
mod encode;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

pub(crate) use decode::{decode, decode_str, new_tuple};
pub(crate) use encode::{Encoded, StrBytes, encode, encode_request, is_simple};

const TUPLE: u8 = b'(';
const STR: u8 = b's';
const INT: u8 = b'i';
const BIG_INT: u8 = b'I';

/// What stands for a length of 255 and more, which follows in a word of its own. No name in a cluster is that long.
const LONG: usize = 0xff;

/// `ctrlhost.Request`.
pub(crate) fn request_type(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static REQUEST: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    REQUEST.import(py, "ctrlhost.request", "Request")
}
