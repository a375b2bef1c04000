//! Messages that are something else than an object in JSON.

use super::Writer;
use super::value::signed;
use crate::json::scan::whole;
use crate::proto::envelope::{MAGIC, read};
use crate::proto::quantity::write_canonical;
use crate::proto::sink::Sink;
use crate::proto::table::{Form, Message, Spec, Table};
use crate::proto::time::{Moment, write_duration};
use crate::proto::wire::{Part, Raw};
use crate::proto::{Problem, ProtoError};

impl<'a, S: Sink> Writer<'a, '_, S> {
    /// Write a message of a form that has its own JSON.
    #[inline(never)]
    pub(super) fn special(&mut self, spec: Spec, parts: &[Part<'a>]) -> Result<(), ProtoError> {
        match spec.form() {
            Form::Time | Form::MicroTime => {
                let moment = self.last_of(parts, |writer, part| writer.moment(spec, part))?;
                if moment.is_zero() {
                    self.out.put(b"null");
                } else {
                    let micros = spec.form() == Form::MicroTime;
                    self.quoted(|out| moment.write(out, micros));
                }
                Ok(())
            }
            Form::Quantity => {
                let canonical = self.last_of(parts, |writer, part| writer.quantity(spec, part))?;
                self.out.text(&canonical);
                Ok(())
            }
            Form::Duration => {
                let [nanos] = self.numbers(spec, parts)?;
                let nanos = signed(Form::Int64, nanos);
                self.quoted(|out| write_duration(out, nanos));
                Ok(())
            }
            Form::IntOrString => self.int_or_string(spec, parts),
            Form::Json => self.json(spec, parts),
            Form::Items => self.items(spec, parts),
            _ => self.schema(spec, parts),
        }
    }

    /// Read a value of which the last part counts, as in Go, which reads the earlier ones too and may refuse them.
    fn last_of<T>(
        &mut self,
        parts: &[Part<'a>],
        mut read: impl FnMut(&mut Self, Part<'a>) -> Result<T, ProtoError>,
    ) -> Result<T, ProtoError> {
        let (last, earlier) = match parts {
            [earlier @ .., last] => (*last, earlier),
            [] => (Part::of(&[]), parts),
        };
        for part in earlier {
            read(self, *part)?;
        }
        read(self, last)
    }

    fn quoted(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.out.with(|out| {
            out.push(b'"');
            write(out);
            out.push(b'"');
        });
    }

    /// Read the fields of a small message; those with other numbers are unknown.
    fn small(
        &mut self,
        spec: Spec,
        parts: &[Part<'a>],
        mut see: impl FnMut(&mut Self, u32, Raw<'a>) -> Result<Option<bool>, ProtoError>,
    ) -> Result<(), ProtoError> {
        for part in parts {
            let mut rest = *part;
            while let Some(field) = rest.next_field()? {
                match see(self, field.number, field.value)? {
                    Some(true) => {}
                    Some(false) => {
                        let problem = Problem::FieldType(spec.name());
                        return Err(ProtoError::new(field.start, problem));
                    }
                    None if field.value.is_empty() => {}
                    None => self.unknown.add(field.number),
                }
            }
        }
        Ok(())
    }

    /// Read the numbers of a small message, fields 1, 2, ….
    fn numbers<const COUNT: usize>(
        &mut self,
        spec: Spec,
        parts: &[Part<'a>],
    ) -> Result<[u64; COUNT], ProtoError> {
        let mut numbers = [0; COUNT];
        self.small(spec, parts, |_, number, value| {
            let place = numbers.get_mut(number as usize - 1);
            Ok(place.map(|place| {
                *place = value.bits();
                matches!(value, Raw::Varint(_))
            }))
        })?;
        Ok(numbers)
    }

    /// Read a time; no bytes are the zero time.
    pub(super) fn moment(&mut self, spec: Spec, part: Part<'a>) -> Result<Moment, ProtoError> {
        let [seconds, nanos] = self.numbers(spec, &[part])?;
        if part.is_empty() {
            return Ok(Moment::ZERO);
        }
        let nanos = match spec.form() {
            Form::MicroTime => signed(Form::Int32, nanos),
            _ => 0,
        };
        Ok(Moment {
            seconds: signed(Form::Int64, seconds),
            nanos: i32::try_from(nanos).unwrap_or(0),
        })
    }

    /// Read a quantity, in its canonical form.
    fn quantity(&mut self, spec: Spec, part: Part<'a>) -> Result<Vec<u8>, ProtoError> {
        let mut stated = None;
        self.small(spec, &[part], |_, number, value| {
            Ok((number == 1).then(|| {
                stated = Some(value.part());
                matches!(value, Raw::Bytes(_))
            }))
        })?;
        let Some(stated) = stated else {
            return Ok(b"0".to_vec());
        };
        let text = std::str::from_utf8(stated.bytes()).unwrap_or_default();
        let mut canonical = Vec::with_capacity(24);
        if !write_canonical(&mut canonical, text) {
            return Err(stated.error(Problem::Value("not a quantity")));
        }
        Ok(canonical)
    }

    fn int_or_string(&mut self, spec: Spec, parts: &[Part<'a>]) -> Result<(), ProtoError> {
        let (mut kind, mut number, mut string) = (0, 0, Part::of(&[]));
        self.small(spec, parts, |_, field, value| {
            let is_number = matches!(value, Raw::Varint(_));
            Ok(match field {
                1 => {
                    kind = value.bits();
                    Some(is_number)
                }
                2 => {
                    number = value.bits();
                    Some(is_number)
                }
                3 => {
                    string = value.part();
                    Some(!is_number && matches!(value, Raw::Bytes(_)))
                }
                _ => None,
            })
        })?;
        match kind {
            0 => self.integer(signed(Form::Int32, number)),
            1 => self.out.text(string.bytes()),
            _ => {
                let at = parts.first().map_or(0, |part| part.start());
                let problem = Problem::Value("neither a number nor a string");
                return Err(ProtoError::new(at, problem));
            }
        }
        Ok(())
    }

    /// Write a message that holds JSON text, or the envelope of another message.
    fn json(&mut self, spec: Spec, parts: &[Part<'a>]) -> Result<(), ProtoError> {
        let mut raw = Part::of(&[]);
        self.small(spec, parts, |_, number, value| {
            Ok((number == 1).then(|| {
                raw = value.part();
                matches!(value, Raw::Bytes(_))
            }))
        })?;
        if raw.is_empty() {
            self.out.put(b"null");
            return Ok(());
        }
        if raw.bytes().starts_with(&MAGIC) {
            return self.enveloped(raw);
        }
        let text = whole(raw.bytes(), self.levels)
            .map_err(|error| ProtoError::new(raw.start() + error.at, Problem::Value(error.what)))?;
        self.out.put(text.as_bytes());
        Ok(())
    }

    /// Write a message in an envelope; `null` if the table lacks its kind.
    fn enveloped(&mut self, raw: Part<'a>) -> Result<(), ProtoError> {
        let envelope = read(raw)?;
        if let Some(message) = Table::kind(&envelope.api_version, &envelope.kind) {
            return self.object(message, &[envelope.raw]);
        }
        self.unknown.add(1);
        self.out.put(b"null");
        Ok(())
    }

    /// Write a message with one list of strings, as a list.
    fn items(&mut self, spec: Spec, parts: &[Part<'a>]) -> Result<(), ProtoError> {
        self.open(b"[");
        self.small(spec, parts, |writer, number, value| {
            Ok((number == 1).then(|| {
                writer.out.separate();
                writer.out.text(value.part().bytes());
                matches!(value, Raw::Bytes(_))
            }))
        })?;
        self.close(b"]");
        Ok(())
    }

    /// Write a schema that may be something else in JSON: a boolean, or a list of schemas or of strings.
    fn schema(&mut self, spec: Spec, parts: &[Part<'a>]) -> Result<(), ProtoError> {
        let form = spec.form();
        let schema_number = if form == Form::SchemaOrBool { 2 } else { 1 };
        let (mut schema, mut others, mut allows) = (Vec::new(), Vec::new(), false);
        self.small(spec, parts, |_, number, value| {
            Ok(match (number, value) {
                (1 | 2, Raw::Bytes(part)) if number == schema_number => {
                    schema.push(part);
                    Some(true)
                }
                (1, Raw::Varint(bits)) if form == Form::SchemaOrBool => {
                    allows = bits != 0;
                    Some(true)
                }
                (2, Raw::Bytes(part)) => {
                    others.push(part);
                    Some(true)
                }
                (1 | 2, _) => Some(false),
                _ => None,
            })
        })?;
        if !others.is_empty() {
            self.open(b"[");
            for part in others {
                self.out.separate();
                match form {
                    Form::SchemaOrArray => self.object(Message::SCHEMA, &[part])?,
                    _ => self.out.text(part.bytes()),
                }
            }
            self.close(b"]");
        } else if !schema.is_empty() {
            self.object(Message::SCHEMA, &schema)?;
        } else if form == Form::SchemaOrBool {
            self.out.put(if allows { b"true" } else { b"false" });
        } else {
            self.out.put(b"null");
        }
        Ok(())
    }
}
