//! Exchanging objects for the same ones in another form, which is no change.

use std::sync::Arc;

use super::{PIECE, Store};
use crate::object::Object;

/// An object, and the same one in another form.
pub(crate) type Twins = (Arc<Object>, Arc<Object>);

impl Store {
    /// Exchange the objects that are still the first of two twins for the second; indexes and versions stay.
    pub(crate) fn exchange(&self, twins: &[Twins]) {
        let _writing = self.writing();
        for piece in twins.chunks(PIECE) {
            let mut state = self.state.write();
            for (old, new) in piece {
                state.content.exchange(old, new);
            }
        }
    }
}
