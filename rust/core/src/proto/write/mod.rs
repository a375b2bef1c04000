//! From a message to JSON, exactly as Go's encoder writes the same object.

mod collection;
mod special;
mod value;

use smallvec::SmallVec;

use super::envelope::text;
use super::ordinary::is_ordinary;
use super::sink::{Nothing, Sink};
use super::table::{Form, Message, Spec};
use super::unknown::Unknown;
use super::wire::{MAX_MESSAGES, Part, Raw};
use super::{Problem, ProtoError};
use crate::json::path::Step;

/// The number of `managedFields` in `ObjectMeta`.
pub(super) const MANAGED_FIELDS: u32 = 17;

/// The parts of one message: a body may hold a message in several parts, which are read as one.
pub(super) type Parts<'a> = SmallVec<[Part<'a>; 1]>;

/// Append a message as JSON, of a kind with `apiVersion` and `kind` first; return the fields that the table lacks.
///
/// Members stand in the order of their field numbers. What Go's encoder leaves out is left out, what it writes for a
/// missing field is written. The managed fields of the object itself are left out if `skip_managed_fields`.
///
/// # Errors
/// The bytes are not such a message, or Go's encoder refuses a value. What was appended is then of no use.
pub fn write_json(
    message: Message,
    bytes: &[u8],
    out: &mut Vec<u8>,
    skip_managed_fields: bool,
) -> Result<Unknown, ProtoError> {
    let mut writer = Writer::new(out);
    writer.entries.reserve(64);
    writer.skip_managed_fields = skip_managed_fields;
    writer.object(message, &[Part::of(bytes)])?;
    Ok(writer.unknown)
}

/// Return the fields that the table lacks. After this [`write_json`] accepts the message.
///
/// # Errors
/// As [`write_json`].
pub fn check(message: Message, bytes: &[u8]) -> Result<Unknown, ProtoError> {
    if is_ordinary(message, bytes) {
        debug_assert_eq!(look_at_all(message, bytes).ok(), Some(Unknown::default()));
        return Ok(Unknown::default());
    }
    look_at_all(message, bytes)
}

fn look_at_all(message: Message, bytes: &[u8]) -> Result<Unknown, ProtoError> {
    let mut nothing = Nothing;
    let mut writer = Writer::new(&mut nothing);
    writer.entries.reserve(64);
    writer.object(message, &[Part::of(bytes)])?;
    Ok(writer.unknown)
}

/// One field of a message that is being written.
#[derive(Clone, Copy)]
struct Entry<'a> {
    /// The position of the field in the table.
    index: usize,
    value: Raw<'a>,
}

/// Writes messages. Recursion is bounded by `MAX_MESSAGES`, in 256 KiB of stack.
pub(super) struct Writer<'a, 'o, S> {
    out: &'o mut S,
    /// The fields of the open messages.
    entries: Vec<Entry<'a>>,
    /// The number of open messages.
    messages: usize,
    /// The number of open objects and lists.
    levels: usize,
    skip_managed_fields: bool,
    unknown: Unknown,
}

impl<'a, 'o, S: Sink> Writer<'a, 'o, S> {
    pub(super) fn new(out: &'o mut S) -> Self {
        Self {
            out,
            entries: Vec::new(),
            messages: 0,
            levels: 0,
            skip_managed_fields: false,
            unknown: Unknown::default(),
        }
    }

    /// Write one field of a message, of which these are the values, as a member; nothing if Go leaves it out.
    pub(super) fn field(&mut self, spec: Spec, values: &[Raw<'a>]) -> Result<(), ProtoError> {
        if values.is_empty() {
            return self.absent(spec);
        }
        let entry = |value: &Raw<'a>| Entry {
            index: 0,
            value: *value,
        };
        self.entries.extend(values.iter().map(entry));
        self.present(spec, 0, values.len())
    }

    /// Write a message as an object.
    pub(super) fn object(
        &mut self,
        message: Message,
        parts: &[Part<'a>],
    ) -> Result<(), ProtoError> {
        self.open(b"{");
        if !message.kind().is_empty() {
            self.types(message.api_version(), message.kind());
        }
        self.members(message, parts)?;
        self.close(b"}");
        Ok(())
    }

    fn types(&mut self, api_version: &str, kind: &str) {
        self.out.put(b"\"apiVersion\":");
        self.out.text(api_version.as_bytes());
        self.out.put(b",\"kind\":");
        self.out.text(kind.as_bytes());
    }

    fn open(&mut self, bracket: &[u8]) {
        self.levels += 1;
        self.out.put(bracket);
    }

    fn close(&mut self, bracket: &[u8]) {
        self.levels -= 1;
        self.out.put(bracket);
    }

    /// Begin a message.
    fn enter(&mut self, parts: &[Part<'a>]) -> Result<(), ProtoError> {
        self.messages += 1;
        if self.messages > MAX_MESSAGES {
            let at = parts.first().map_or(0, |part| part.start());
            return Err(ProtoError::new(at, Problem::Depth));
        }
        Ok(())
    }

    /// Write the members of a message into the open object.
    fn members(&mut self, message: Message, parts: &[Part<'a>]) -> Result<(), ProtoError> {
        self.enter(parts)?;
        let fields = message.fields();
        let first = self.entries.len();
        self.collect(message, parts)?;
        let (mut at, end) = (first, self.entries.len());
        if S::IS_NOTHING {
            while at < end {
                let index = self.entries[at].index;
                let from = at;
                at = self.same(index, from, end);
                if let Some(spec) = fields.get(index) {
                    self.member(spec, from, at)?;
                }
            }
        } else {
            for (index, spec) in fields.iter().enumerate() {
                let from = at;
                at = self.same(index, from, end);
                if from < at {
                    self.member(spec, from, at)?;
                } else if !spec.is_left_out() {
                    self.absent(spec)?;
                }
            }
        }
        self.entries.truncate(first);
        self.messages -= 1;
        Ok(())
    }

    /// Return the end of the entries from `at` on that are of the field at `index` in the table.
    fn same(&self, index: usize, at: usize, end: usize) -> usize {
        let own = self.entries.get(at..end).unwrap_or_default();
        at + own.iter().take_while(|entry| entry.index == index).count()
    }

    /// Write a field that is there, and note the way to an unknown one in it.
    fn member(&mut self, spec: Spec, from: usize, to: usize) -> Result<(), ProtoError> {
        let before = self.unknown.count;
        self.present(spec, from, to)?;
        if spec.form() != Form::Inline {
            self.unknown
                .passed(before, || Step::Key(spec.name().into()));
        }
        Ok(())
    }

    /// Put the fields of a message into `entries`, in the order of the table.
    fn collect(&mut self, message: Message, parts: &[Part<'a>]) -> Result<(), ProtoError> {
        let fields = message.fields();
        let first = self.entries.len();
        let skips =
            self.skip_managed_fields && self.messages == 2 && message.is(Message::OBJECT_META);
        let (mut sorted, mut last) = (true, 0);
        for part in parts {
            let mut rest = *part;
            while let Some(field) = rest.next_field()? {
                let position = fields.position(field.number, last);
                let Some((index, spec)) = position.and_then(|at| Some((at, fields.get(at)?)))
                else {
                    if !field.value.is_empty() {
                        self.unknown.add(field.number);
                    }
                    continue;
                };
                spec.expect(field.value, field.start)?;
                if skips && field.number == MANAGED_FIELDS {
                    continue;
                }
                sorted &= index >= last;
                last = index;
                self.entries.push(Entry {
                    index,
                    value: field.value,
                });
            }
        }
        if !sorted && let Some(own) = self.entries.get_mut(first..) {
            own.sort_by_key(|entry| entry.index);
        }
        Ok(())
    }

    /// Write a field that is there, in the entries `from..to`.
    fn present(&mut self, spec: Spec, from: usize, to: usize) -> Result<(), ProtoError> {
        if spec.has(Spec::MAP) {
            return self.map(spec, from, to);
        }
        if spec.has(Spec::REPEATED) {
            return self.list(spec, from, to);
        }
        let raw = self.entries[to - 1].value;
        match spec.form() {
            Form::Hidden => return Ok(()),
            Form::Inline => {
                let parts = self.parts(from, to);
                return self.members(spec.message(), &parts);
            }
            _ => {}
        }
        let value = spec.has(Spec::POINTER);
        if !value && spec.has(Spec::OMIT_EMPTY) && !spec.form().is_message() && raw.is_empty() {
            return Ok(());
        }
        if spec.has(Spec::OMIT_ZERO) && self.moment(spec, raw.part())?.is_zero() {
            return Ok(());
        }
        self.key(spec);
        let parts = self.parts(from, to);
        self.value(spec, raw, &parts)
    }

    /// Write what Go writes for a field that is not there.
    fn absent(&mut self, spec: Spec) -> Result<(), ProtoError> {
        let form = spec.form();
        let optional = spec.has(Spec::POINTER | Spec::MAP | Spec::REPEATED);
        let nothing = optional || form == Form::Items || form == Form::Bytes;
        if form == Form::Inline {
            return self.members(spec.message(), &[]);
        }
        if spec.is_left_out() {
            return Ok(());
        }
        self.key(spec);
        if nothing {
            self.out.put(b"null");
            return Ok(());
        }
        let raw = match form {
            Form::String => Raw::Bytes(Part::of(&[])),
            _ => Raw::Varint(0),
        };
        self.value(spec, raw, &[])
    }

    fn key(&mut self, spec: Spec) {
        self.out.separate();
        self.out.put(spec.key());
    }

    /// Return the parts of the message in the entries `from..to`.
    fn parts(&self, from: usize, to: usize) -> Parts<'a> {
        let entries = self.entries.get(from..to).unwrap_or_default();
        entries.iter().map(|entry| entry.value.part()).collect()
    }
}
