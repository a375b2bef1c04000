//! Values at a path of a message: what the path does not lead through is skipped, not decoded.

use smallvec::SmallVec;

use super::envelope::text;
use super::map_entry::MapEntry;
use super::table::{Form, Message, Spec};
use super::wire::{MAX_MESSAGES, Part, Raw};
use super::write::Writer;
use super::{Problem, ProtoError};
use crate::json::path::{Step, walk};
use crate::json::read::Value;
use crate::json::text::quote_into;

/// The values of one field, in the order of the body.
type Values<'a> = SmallVec<[Raw<'a>; 2]>;

/// Visit the values at a path, as JSON: none, one, or with `[*]` any number in the order of the body.
///
/// The values are those that [`super::write_json`] would write there.
///
/// # Errors
/// A part of the message that the path leads through is malformed.
pub fn lookup(
    message: Message,
    bytes: &[u8],
    path: &[Step],
    visit: &mut dyn FnMut(Value<'_>),
) -> Result<(), ProtoError> {
    let mut search = Search {
        visit,
        out: Vec::new(),
        messages: 0,
    };
    search.message(message, &[Part::of(bytes)], path)
}

struct Search<'v> {
    visit: &'v mut dyn FnMut(Value<'_>),
    /// The value that is visited, as JSON.
    out: Vec<u8>,
    /// The number of messages that the search is in.
    messages: usize,
}

impl Search<'_> {
    /// Search from a message on.
    fn message(
        &mut self,
        message: Message,
        parts: &[Part<'_>],
        steps: &[Step],
    ) -> Result<(), ProtoError> {
        self.messages += 1;
        if self.messages > MAX_MESSAGES {
            let at = parts.first().map_or(0, |part| part.start());
            return Err(ProtoError::new(at, Problem::Depth));
        }
        match steps.split_first() {
            Some((Step::Key(name), rest)) => self.member(message, parts, name, rest)?,
            Some((Step::Index(_), _)) => {}
            // All members: rare enough to write them.
            Some((Step::All, _)) | None => {
                self.write(0, steps, |writer| writer.object(message, parts))?;
            }
        }
        self.messages -= 1;
        Ok(())
    }

    fn member(
        &mut self,
        message: Message,
        parts: &[Part<'_>],
        name: &str,
        rest: &[Step],
    ) -> Result<(), ProtoError> {
        let own = match name {
            "apiVersion" => message.api_version(),
            "kind" => message.kind(),
            _ => "",
        };
        if !own.is_empty() {
            self.out.clear();
            quote_into(&mut self.out, own);
            self.show(0, rest);
            return Ok(());
        }
        match find(message, parts, name)? {
            Some((spec, values)) => self.field(spec, &values, rest),
            None => Ok(()),
        }
    }

    /// Search from a field on, of which these are the values.
    fn field(&mut self, spec: Spec, values: &[Raw<'_>], steps: &[Step]) -> Result<(), ProtoError> {
        let plain = spec.form() == Form::Message && !spec.has(Spec::CLAIM);
        match steps.first() {
            Some(Step::Key(key)) if spec.has(Spec::MAP) => {
                let mut last = None;
                for value in values {
                    let (entry, _) = MapEntry::read(spec, value.part())?;
                    if text(entry.key) == **key {
                        last = Some(entry.value);
                    }
                }
                let rest = steps.get(1..).unwrap_or_default();
                last.map_or(Ok(()), |value| self.element(spec, value, rest))
            }
            Some(Step::Index(index)) if spec.has(Spec::REPEATED) && plain => {
                let rest = steps.get(1..).unwrap_or_default();
                let item = values.get(*index);
                item.map_or(Ok(()), |value| self.element(spec, *value, rest))
            }
            Some(Step::All) if spec.has(Spec::REPEATED) && plain => {
                let rest = steps.get(1..).unwrap_or_default();
                values
                    .iter()
                    .try_for_each(|value| self.element(spec, *value, rest))
            }
            Some(Step::Key(_)) if plain && !spec.has(Spec::REPEATED | Spec::MAP) => {
                if values.is_empty() && spec.has(Spec::POINTER) {
                    return Ok(());
                }
                let parts: SmallVec<[Part<'_>; 1]> = values.iter().map(|raw| raw.part()).collect();
                self.message(spec.message(), &parts, steps)
            }
            // The rest of the path leads through JSON.
            _ => self.write(1 + spec.key().len(), steps, |writer| {
                writer.field(spec, values)
            }),
        }
    }

    /// Search from an element of a list, or a value of a map, on.
    fn element(&mut self, spec: Spec, value: Raw<'_>, steps: &[Step]) -> Result<(), ProtoError> {
        if spec.form() == Form::Message && !spec.has(Spec::CLAIM) {
            return self.message(spec.message(), &[value.part()], steps);
        }
        self.write(0, steps, |writer| {
            writer.value(spec, value, &[value.part()])
        })
    }

    /// Write a value and search in it. The value begins `at` bytes after the start of an object, if there is one.
    fn write<'a>(
        &mut self,
        at: usize,
        steps: &[Step],
        write: impl FnOnce(&mut Writer<'a, '_, Vec<u8>>) -> Result<(), ProtoError>,
    ) -> Result<(), ProtoError> {
        self.out.clear();
        if at > 0 {
            self.out.push(b'{');
        }
        write(&mut Writer::new(&mut self.out))?;
        if self.out.len() > at {
            self.show(at, steps);
        }
        Ok(())
    }

    fn show(&mut self, at: usize, steps: &[Step]) {
        let bytes = self.out.get(at..).unwrap_or_default();
        if let Ok(json) = std::str::from_utf8(bytes) {
            walk(Value::of_json(json), steps, &mut |value| {
                (self.visit)(value);
            });
        }
    }
}

/// Return the field that is written as the member of that name, with its values.
fn find<'a>(
    message: Message,
    parts: &[Part<'a>],
    name: &str,
) -> Result<Option<(Spec, Values<'a>)>, ProtoError> {
    let fields = message.fields();
    for spec in fields.iter() {
        if spec.form() == Form::Inline {
            if has(spec.message(), name) {
                let inner = values(spec, parts)?;
                let inner: SmallVec<[Part<'a>; 1]> = inner.iter().map(|raw| raw.part()).collect();
                return find(spec.message(), &inner, name);
            }
        } else if spec.is_named(name) {
            let hidden = spec.form() == Form::Hidden;
            return Ok((!hidden).then_some((spec, values(spec, parts)?)));
        }
    }
    Ok(None)
}

/// Return whether the message has a member of that name.
fn has(message: Message, name: &str) -> bool {
    let mut fields = message.fields().iter();
    fields.any(|spec| match spec.form() {
        Form::Inline => has(spec.message(), name),
        Form::Hidden => false,
        _ => spec.is_named(name),
    })
}

/// Return the values of a field in the parts of a message.
fn values<'a>(spec: Spec, parts: &[Part<'a>]) -> Result<Values<'a>, ProtoError> {
    let mut values = Values::new();
    for part in parts {
        let mut rest = *part;
        while let Some(field) = rest.next_field()? {
            if field.number == spec.number() {
                spec.expect(field.value, field.start)?;
                values.push(field.value);
            }
        }
    }
    Ok(values)
}
