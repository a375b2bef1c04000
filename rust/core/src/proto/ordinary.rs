//! A quick look at a message: whether it is as servers write it, and all of it is in the table.

use super::map_entry::MapEntry;
use super::quantity::write_canonical;
use super::table::{Form, Message, Spec};
use super::wire::{MAX_MESSAGES, Part, Raw};

/// Return whether every field is in the table, in order, and has a value that JSON can have; false if in doubt.
///
/// In doubt are forms that few kinds have, such as JSON in a message, and whatever stands twice.
pub(super) fn is_ordinary(message: Message, bytes: &[u8]) -> bool {
    let mut look = Look {
        messages: 0,
        text: Vec::new(),
    };
    look.message(message, Part::of(bytes)).is_some()
}

/// Looks at messages; None is in doubt.
struct Look {
    /// The number of open messages.
    messages: usize,
    /// Reused for canonical quantities.
    text: Vec<u8>,
}

impl Look {
    fn message(&mut self, message: Message, mut rest: Part<'_>) -> Option<()> {
        self.messages += 1;
        if self.messages > MAX_MESSAGES {
            return None;
        }
        let fields = message.fields();
        let (mut at, mut number) = (0, 0);
        while let Some(field) = rest.next_field().ok()? {
            let again = field.number == number;
            if field.number < number {
                return None;
            }
            number = field.number;
            at = fields.position(number, at)?;
            let spec = fields.get(at)?;
            spec.expect(field.value, field.start).ok()?;
            let several = spec.has(Spec::REPEATED | Spec::MAP);
            if again && !several {
                return None;
            }
            self.field(spec, field.value)?;
        }
        self.messages -= 1;
        Some(())
    }

    fn field(&mut self, spec: Spec, value: Raw<'_>) -> Option<()> {
        if spec.has(Spec::MAP) {
            let (entry, unknown) = MapEntry::read(spec, value.part()).ok()?;
            return match unknown {
                None => self.value(spec, entry.value),
                Some(_) => None,
            };
        }
        if spec.form().packs()
            && let Raw::Bytes(mut packed) = value
        {
            while !packed.is_empty() {
                let number = spec.form().next_packed(&mut packed).ok()?;
                self.value(spec, number)?;
            }
            return Some(());
        }
        self.value(spec, value)
    }

    fn value(&mut self, spec: Spec, value: Raw<'_>) -> Option<()> {
        match spec.form() {
            Form::String
            | Form::Bytes
            | Form::Bool
            | Form::Int32
            | Form::Int64
            | Form::Uint32
            | Form::Uint64
            | Form::Hidden => Some(()),
            Form::Message | Form::Inline => self.message(spec.message(), value.part()),
            Form::Time | Form::MicroTime => self.small(value.part(), |_, number, value| {
                (number <= 2 && matches!(value, Raw::Varint(_))).then_some(())
            }),
            Form::Quantity => self.small(value.part(), |look, number, value| {
                let text = std::str::from_utf8(value.part().bytes()).ok()?;
                look.text.clear();
                (number == 1 && write_canonical(&mut look.text, text)).then_some(())
            }),
            Form::IntOrString => {
                self.small(value.part(), |_, number, value| match (number, value) {
                    (1, Raw::Varint(0 | 1)) | (2, Raw::Varint(_)) | (3, Raw::Bytes(_)) => Some(()),
                    _ => None,
                })
            }
            _ => None,
        }
    }

    /// Look at the fields of a small message.
    fn small(
        &mut self,
        mut rest: Part<'_>,
        mut see: impl FnMut(&mut Self, u32, Raw<'_>) -> Option<()>,
    ) -> Option<()> {
        if self.messages >= MAX_MESSAGES {
            return None;
        }
        while let Some(field) = rest.next_field().ok()? {
            see(self, field.number, field.value)?;
        }
        Some(())
    }
}
