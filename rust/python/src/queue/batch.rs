//! The keys of one call.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::key::buffer::KeyBuffer;
use crate::key::{Probe, is_simple};

/// Keys that are all checked before the first one is used.
pub(super) struct Batch<'py> {
    pub(super) objects: Vec<Bound<'py, PyAny>>,
    /// The keys that cannot be read under a lock, each with its position and its content. They are few, if any.
    special: Vec<(usize, KeyBuffer)>,
}

impl<'py> Batch<'py> {
    /// Read the keys of an iterable.
    ///
    /// # Errors
    /// `TypeError` for an invalid key, or if this is not an iterable of keys; and exceptions of the iterable.
    pub(super) fn read(keys: &Bound<'py, PyAny>) -> PyResult<Self> {
        if keys.is_instance_of::<PyString>() {
            return Err(PyTypeError::new_err(
                "keys must be an iterable of keys, got a str, which is one key",
            ));
        }
        let mut objects = Vec::with_capacity(keys.len().unwrap_or(0));
        let mut special = Vec::new();
        for object in keys.try_iter()? {
            let object = object?;
            if !is_simple(&object, 0) {
                let mut buffer = KeyBuffer::new();
                Probe::new(&object, &mut buffer)?;
                special.push((objects.len(), buffer));
            }
            objects.push(object);
        }
        Ok(Self { objects, special })
    }

    /// Call `use_key` with the position of each key and the key, in order. Runs no Python, so it may be called under a
    /// lock.
    pub(super) fn for_each(&self, mut use_key: impl FnMut(usize, Probe<'_, 'py>)) {
        let mut special = self.special.iter().peekable();
        for (place, object) in self.objects.iter().enumerate() {
            if let Some((_, buffer)) = special.next_if(|(special, _)| *special == place) {
                use_key(place, Probe::read(object, buffer));
                continue;
            }
            let mut buffer = KeyBuffer::new();
            if let Ok(probe) = Probe::new(object, &mut buffer) {
                use_key(place, probe);
            }
        }
    }
}
