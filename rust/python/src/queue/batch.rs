//! The keys of one call.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::key::buffer::KeyBuffer;
use crate::key::{Plain, Probe, is_simple};

/// So many keys are hashed before the first of them is used.
const WINDOW: usize = 64;

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
        let none = KeyBuffer::new();
        let mut window = Vec::with_capacity(self.objects.len().min(WINDOW));
        for (first, objects) in (0..).step_by(WINDOW).zip(self.objects.chunks(WINDOW)) {
            // All are hashed before the first is used: the look-ups do not wait for each other then.
            window.clear();
            window.extend(objects.iter().map(Plain::read));
            for ((place, object), plain) in (first..).zip(objects).zip(&window) {
                if let Some(plain) = plain {
                    use_key(place, Probe::plain(object, plain, &none));
                } else if let Some((_, buffer)) = special.next_if(|(special, _)| *special == place)
                {
                    use_key(place, Probe::read(object, buffer));
                } else {
                    let mut buffer = KeyBuffer::new();
                    if let Ok(probe) = Probe::new(object, &mut buffer) {
                        use_key(place, probe);
                    }
                }
            }
        }
    }
}
