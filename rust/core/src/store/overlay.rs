//! Many writes that readers see at one moment, although nobody has the lock for more than a few of them.
//!
//! They are collected beside the content. From one moment on readers see them over it, and meanwhile they enter it
//! piece by piece. Writers take turns, so nobody else changes the content in between.

use std::sync::Arc;

use super::Write;
use super::content::{Columns, Content};
use super::slots::{Place, index};
use crate::object::{Object, Sizes};

/// See the module.
pub(super) struct Overlay {
    pub(super) content: Content,
    /// The places of the content that readers do not see any more, or not yet.
    hidden: Vec<bool>,
    /// What readers see in all.
    pub(super) len: usize,
    pub(super) sizes: Sizes,
    /// The upserts that have not entered the content.
    pub(super) outstanding: u64,
}

impl Overlay {
    pub(super) fn over(below: &Content) -> Self {
        Self {
            content: below.empty(),
            hidden: vec![false; below.items.end()],
            len: below.items.len(),
            sizes: below.sizes,
            outstanding: 0,
        }
    }

    pub(super) fn hides(&self, place: Place) -> bool {
        self.hidden.get(index(place)).copied().unwrap_or(false)
    }

    /// Collect a write over the content `below`; return its place here, and the object that readers saw before it.
    pub(super) fn collect(
        &mut self,
        below: &Content,
        write: &Write,
        values: &mut Columns,
    ) -> (Option<Place>, Option<Arc<Object>>) {
        let (place, old) = match write {
            Write::Upsert(key, object) => {
                let hidden = self.hide(below, key);
                let (place, old) = self.content.put(key.clone(), object.clone(), values);
                self.outstanding += 1;
                self.len += 1;
                self.sizes += object.sizes();
                (Some(place), old.or(hidden))
            }
            Write::Delete(key, _) => {
                let hidden = self.hide(below, key);
                let old = self.content.remove(key).map(|(_, object)| object);
                (None, old.or(hidden))
            }
        };
        if let Some(old) = &old {
            self.len = self.len.saturating_sub(1);
            self.sizes -= old.sizes();
        }
        (place, old)
    }

    /// Hide the object of the content `below`; return it if readers saw it so far.
    fn hide(&mut self, below: &Content, key: &str) -> Option<Arc<Object>> {
        let place = below.items.find(key)?;
        let hidden = self.hidden.get_mut(index(place))?;
        let item = below.items.get(place)?;
        (!std::mem::replace(hidden, true)).then(|| item.object.clone())
    }

    /// Note that one of the writes has entered the content, where readers do not look for it yet.
    pub(super) fn entered(&mut self, place: Place, upsert: bool) {
        if self.hidden.len() <= index(place) {
            self.hidden.resize(index(place) + 1, false);
        }
        if let Some(hidden) = self.hidden.get_mut(index(place)) {
            *hidden = true;
        }
        self.outstanding = self.outstanding.saturating_sub(u64::from(upsert));
    }
}
