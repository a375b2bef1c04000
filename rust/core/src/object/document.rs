//! The text of an object, written once and shared by everything that shows a part of it.

use std::sync::Arc;

use super::place::Place;
use super::{Damaged, Object};
use crate::json::read::Value;

/// The JSON text of an object, or of a part of it.
#[derive(Clone, Debug)]
pub struct Document(Text);

#[derive(Clone, Debug)]
enum Text {
    /// The text in which the object is cached.
    Cached(Arc<Object>),
    /// Text that was written for readers.
    Written(Arc<str>),
}

/// A value in a document.
#[derive(Clone, Debug)]
pub struct Part {
    document: Document,
    place: Place,
}

impl Document {
    /// Return the whole object as text, which is written now if it is not cached as text.
    ///
    /// # Errors
    /// The compressed body is damaged.
    pub fn of(object: &Arc<Object>) -> Result<Self, Damaged> {
        Ok(match object.cached_text() {
            Some(_) => Self::cached(object),
            None => Self::written(&object.json()?),
        })
    }

    pub(super) fn cached(object: &Arc<Object>) -> Self {
        Self(Text::Cached(object.clone()))
    }

    pub(super) fn written(text: &str) -> Self {
        Self(Text::Written(text.into()))
    }

    fn text(&self) -> &str {
        match &self.0 {
            Text::Cached(object) => object.cached_text().unwrap_or_default(),
            Text::Written(text) => text,
        }
    }

    /// Return the whole text as a value.
    pub fn value(&self) -> Value<'_> {
        Value(self.text())
    }

    /// Return `value`, which must lie in this document.
    pub fn part(&self, value: Value<'_>) -> Part {
        Part {
            document: self.clone(),
            place: Place::of(value, self.text()),
        }
    }

    /// Return a value of no document, which is nothing.
    pub fn nothing() -> Part {
        Part {
            document: Self::written(""),
            place: Place::default(),
        }
    }
}

impl Part {
    /// Return the value.
    pub fn value(&self) -> Value<'_> {
        self.place.in_text(self.document.text())
    }

    /// Return a value inside this one.
    #[must_use]
    pub fn inner(&self, value: Value<'_>) -> Self {
        self.document.part(value)
    }
}
