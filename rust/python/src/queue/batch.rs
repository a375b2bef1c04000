//! The keys of a call for many.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::key::buffer::KeyBuffer;
use crate::key::{Probe, is_simple};

/// Keys that were all looked at before anything is done with one of them.
pub(crate) struct Batch<'py> {
    pub(crate) objects: Vec<Bound<'py, PyAny>>,
    /// The keys that can not be read under a lock, each with its place and its content. They are few, if any.
    special: Vec<(usize, KeyBuffer)>,
}

impl<'py> Batch<'py> {
    /// Takes the keys of an iterable.
    ///
    /// # Errors
    /// `TypeError` if one of them is no key, or if this is no iterable of keys; and what the iterable raises.
    pub(crate) fn read(keys: &Bound<'py, PyAny>) -> PyResult<Self> {
        if keys.is_instance_of::<PyString>() {
            return Err(PyTypeError::new_err(
                "a str is one key; a call for many takes an iterable of keys",
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

    /// Gives each key, in order. Runs nothing of the interpreter's, so it may be called under a lock.
    pub(crate) fn for_each(&self, mut give: impl FnMut(usize, Probe<'_, 'py>)) {
        let mut special = self.special.iter().peekable();
        for (place, object) in self.objects.iter().enumerate() {
            if let Some((_, buffer)) = special.next_if(|(special, _)| *special == place) {
                give(place, Probe::read(object, buffer));
                continue;
            }
            let mut buffer = KeyBuffer::new();
            if let Ok(probe) = Probe::new(object, &mut buffer) {
                give(place, probe);
            }
        }
    }
}
