//! Lists: all objects as of one version, written piece by piece.

use std::sync::Arc;
use std::vec::IntoIter;

use ctrlhost_core::json::text::quote_into;
use ctrlhost_core::object::{Damaged, Object};
use hyper::body::Bytes;

use super::answers::PIECE;
use super::watch::Style;

/// The body of a list, written while it is sent, so that no copy of all objects is ever held.
pub(super) struct List {
    objects: IntoIter<Arc<Object>>,
    style: Style,
    /// What comes before the next object; None after the end.
    lead: Option<Vec<u8>>,
    first: bool,
}

impl List {
    pub(super) fn new(objects: Vec<Arc<Object>>, style: Style, version: &str) -> Self {
        let mut lead = Vec::new();
        let (api_version, kind) = style.types();
        lead.extend_from_slice(br#"{"kind":"#);
        quote_into(&mut lead, &format!("{kind}List"));
        lead.extend_from_slice(br#","apiVersion":"#);
        quote_into(&mut lead, api_version);
        lead.extend_from_slice(br#","metadata":{"resourceVersion":"#);
        quote_into(&mut lead, version);
        lead.extend_from_slice(br#"},"items":["#);
        Self {
            objects: objects.into_iter(),
            style,
            lead: Some(lead),
            first: true,
        }
    }

    /// Return the next piece, None at the end. A list without a damaged object would be wrong, so it is cut there.
    pub(super) fn next_piece(&mut self) -> Option<Result<Bytes, Damaged>> {
        let mut piece = self.lead.take()?;
        while piece.len() < PIECE {
            let Some(object) = self.objects.find(|object| self.style.selects(object)) else {
                piece.extend_from_slice(b"]}");
                return Some(Ok(piece.into()));
            };
            if !std::mem::take(&mut self.first) {
                piece.push(b',');
            }
            if let Err(damaged) = object.write(self.style.form, None, &mut piece) {
                return Some(Err(damaged));
            }
        }
        self.lead = Some(Vec::with_capacity(PIECE + PIECE / 4));
        Some(Ok(piece.into()))
    }
}
