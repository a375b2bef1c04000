//! Lists and maps.

use super::{Writer, text};
use crate::json::path::Step;
use crate::proto::ProtoError;
use crate::proto::map_entry::MapEntry;
use crate::proto::sink::Sink;
use crate::proto::table::{Form, Spec};
use crate::proto::wire::Raw;

impl<S: Sink> Writer<'_, '_, S> {
    /// Write the list in the entries `from..to`.
    pub(super) fn list(&mut self, spec: Spec, from: usize, to: usize) -> Result<(), ProtoError> {
        let packs = spec.form().packs();
        let elements = self.entries.get(from..to).unwrap_or_default();
        if packs && elements.iter().all(|entry| is_empty_pack(entry.value)) {
            return self.absent(spec);
        }
        self.key(spec);
        self.open(b"[");
        let mut position = 0;
        for at in from..to {
            let raw = self.entries[at].value;
            if let (true, Raw::Bytes(mut packed)) = (packs, raw) {
                while !packed.is_empty() {
                    let raw = spec.form().next_packed(&mut packed)?;
                    self.out.separate();
                    self.value(spec, raw, &[packed])?;
                    position += 1;
                }
                continue;
            }
            let before = self.unknown.count;
            self.out.separate();
            self.value(spec, raw, &[raw.part()])?;
            self.unknown.passed(before, || Step::Index(position));
            position += 1;
        }
        self.close(b"]");
        Ok(())
    }

    /// Write the map in the entries `from..to`, sorted by key; of several entries of a key the last one.
    pub(super) fn map(&mut self, spec: Spec, from: usize, to: usize) -> Result<(), ProtoError> {
        let mut sorted = Vec::with_capacity(to - from);
        for at in from..to {
            let (entry, unknown) = MapEntry::read(spec, self.entries[at].value.part())?;
            if let Some(number) = unknown {
                self.unknown.add(number);
            }
            sorted.push(entry);
        }
        if !sorted.is_sorted_by(|one, next| one.key.bytes() < next.key.bytes()) {
            sorted.sort_by(|one, other| one.key.bytes().cmp(other.key.bytes()));
        }
        if spec.form() == Form::Hidden {
            return Ok(());
        }
        self.key(spec);
        self.open(b"{");
        for (at, entry) in sorted.iter().enumerate() {
            let next = sorted.get(at + 1);
            if next.is_some_and(|next| next.key.bytes() == entry.key.bytes()) {
                continue;
            }
            let before = self.unknown.count;
            self.out.separate();
            self.out.text(entry.key.bytes());
            self.out.put(b":");
            self.value(spec, entry.value, &[entry.value.part()])?;
            self.unknown
                .passed(before, || Step::Key(text(entry.key).into()));
        }
        self.close(b"}");
        Ok(())
    }
}

fn is_empty_pack(value: Raw<'_>) -> bool {
    matches!(value, Raw::Bytes(part) if part.is_empty())
}
