//! What is read of every object: its identity, and where the lists and maps of its metadata are.

use std::borrow::Cow;
use std::ops::Range;

use super::envelope::text;
use super::strip::{NO_METADATA, metadata_of};
use super::time::Moment;
use super::wire::{Part, Raw};
use super::{Message, Problem, ProtoError};
use crate::owner::OwnerReference;

/// The metadata of an object without its managed fields.
#[derive(Clone, Debug, Default)]
pub struct Header<'a> {
    /// `metadata.name`
    pub name: Cow<'a, str>,
    /// `metadata.namespace`
    pub namespace: Cow<'a, str>,
    /// `metadata.uid`
    pub uid: Cow<'a, str>,
    /// `metadata.resourceVersion`
    pub resource_version: Cow<'a, str>,
    /// `metadata.generation`
    pub generation: i64,
    /// `metadata.deletionTimestamp` as JSON has it, without quotes.
    pub deletion_timestamp: Option<String>,
    /// `metadata.labels`
    pub labels: Entries<'a>,
    /// `metadata.annotations`
    pub annotations: Entries<'a>,
    /// `metadata.ownerReferences`
    pub owner_references: Entries<'a>,
    /// `metadata.finalizers`
    pub finalizers: Entries<'a>,
    /// `metadata.managedFields`
    pub managed_fields: Entries<'a>,
}

/// The entries of one list or map of the metadata.
#[derive(Clone, Copy, Debug)]
pub struct Entries<'a> {
    /// From the first entry to the last one; other fields may be between them.
    part: Part<'a>,
    number: u32,
}

impl Default for Entries<'_> {
    fn default() -> Self {
        Self {
            part: Part::of(&[]),
            number: 0,
        }
    }
}

/// Read the header of an object in one pass.
///
/// # Errors
/// The metadata is malformed, or there twice: [`super::strip_managed_fields`] makes one of two.
pub fn header(message: Message, bytes: &[u8]) -> Result<Header<'_>, ProtoError> {
    let body = Part::of(bytes);
    let number = metadata_of(message).ok_or_else(|| body.error(NO_METADATA))?;
    let mut metadata = None;
    let mut rest = body;
    while let Some(field) = rest.next_field()? {
        if field.number != number {
            continue;
        }
        let Raw::Bytes(part) = field.value else {
            let problem = Problem::FieldType("metadata");
            return Err(ProtoError::new(field.start, problem));
        };
        if metadata.replace(part).is_some() {
            let problem = Problem::Value("the metadata is there twice");
            return Err(ProtoError::new(field.start, problem));
        }
    }
    let mut header = Header::default();
    if let Some(part) = metadata {
        header.read(part)?;
    }
    Ok(header)
}

impl<'a> Header<'a> {
    fn read(&mut self, metadata: Part<'a>) -> Result<(), ProtoError> {
        let fields = Message::OBJECT_META.fields();
        let (mut rest, mut last) = (metadata, 0);
        while let Some(field) = rest.next_field()? {
            let Some(at) = fields.position(field.number, last) else {
                continue;
            };
            last = at;
            if let Some(spec) = fields.get(at) {
                spec.expect(field.value, field.start)?;
            }
            let part = field.value.part();
            let entries = match field.number {
                1 => {
                    self.name = text(part);
                    continue;
                }
                3 => {
                    self.namespace = text(part);
                    continue;
                }
                5 => {
                    self.uid = text(part);
                    continue;
                }
                6 => {
                    self.resource_version = text(part);
                    continue;
                }
                7 => {
                    self.generation = field.value.bits().cast_signed();
                    continue;
                }
                9 => {
                    self.deletion_timestamp = time(part)?;
                    continue;
                }
                11 => &mut self.labels,
                12 => &mut self.annotations,
                13 => &mut self.owner_references,
                14 => &mut self.finalizers,
                17 => &mut self.managed_fields,
                _ => continue,
            };
            let start = if entries.is_empty() {
                field.start
            } else {
                entries.part.start()
            };
            *entries = Entries {
                part: metadata.between(start, field.end),
                number: field.number,
            };
        }
        Ok(())
    }
}

/// Return a time as text; None for the zero time.
fn time(mut part: Part<'_>) -> Result<Option<String>, ProtoError> {
    if part.is_empty() {
        return Ok(None);
    }
    let mut moment = Moment {
        seconds: 0,
        nanos: 0,
    };
    while let Some(field) = part.next_field()? {
        if let (1, Raw::Varint(bits)) = (field.number, field.value) {
            moment.seconds = bits.cast_signed();
        }
    }
    let mut out = Vec::with_capacity(20);
    moment.write(&mut out, false);
    Ok(String::from_utf8(out).ok().filter(|_| !moment.is_zero()))
}

impl<'a> Entries<'a> {
    /// Return the entries of a field of `ObjectMeta` again, at a range that [`Entries::range`] gave for the same body.
    pub fn again(body: &'a [u8], range: Range<usize>, number: u32) -> Self {
        let part = Part::of(body).between(range.start, range.end);
        Self { part, number }
    }

    /// Return from where to where the entries are in the body; with other fields between them, if those stand there.
    pub fn range(&self) -> Range<usize> {
        self.part.start()..self.part.end()
    }

    /// Return the number of the field in `ObjectMeta`.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Return whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.part.is_empty()
    }

    /// Iterate over the entries, in the order of the body.
    pub fn iter(&self) -> impl Iterator<Item = Part<'a>> + use<'a> {
        let (mut rest, number) = (self.part, self.number);
        let fields = std::iter::from_fn(move || rest.next_field().ok().flatten());
        fields
            .filter(move |field| field.number == number)
            .map(|field| field.value.part())
    }

    /// Iterate over the entries of a map of strings; of two entries of a key the last one counts.
    pub fn pairs(&self) -> impl Iterator<Item = (Cow<'a, str>, Cow<'a, str>)> + use<'a> {
        self.iter().map(|entry| {
            let [key, value] = strings(entry, [1, 2]);
            (key, value)
        })
    }

    /// Return the value of a key of a map of strings.
    pub fn get(&self, key: &str) -> Option<Cow<'a, str>> {
        let of_key = self.pairs().filter(|(known, _)| known == key);
        of_key.last().map(|(_, value)| value)
    }

    /// Iterate over a list of strings.
    pub fn texts(&self) -> impl Iterator<Item = Cow<'a, str>> + use<'a> {
        self.iter().map(text)
    }

    /// Iterate over the owner references that have a kind and a name.
    pub fn owners(&self) -> impl Iterator<Item = OwnerReference<'a>> + use<'a> {
        self.iter().filter_map(|entry| {
            let [kind, name, uid, api_version] = strings(entry, [1, 3, 4, 5]);
            let [controller, block_owner_deletion] = flags(entry, [6, 7]);
            (!kind.is_empty() && !name.is_empty()).then_some(OwnerReference {
                api_version,
                kind,
                name,
                uid,
                controller,
                block_owner_deletion,
            })
        })
    }
}

/// Return the strings of a message with these numbers.
fn strings<const COUNT: usize>(mut part: Part<'_>, numbers: [u32; COUNT]) -> [Cow<'_, str>; COUNT] {
    let mut texts = [const { Cow::Borrowed("") }; COUNT];
    while let Ok(Some(field)) = part.next_field() {
        let place = numbers.iter().position(|number| *number == field.number);
        if let Some(place) = place.and_then(|place| texts.get_mut(place)) {
            *place = text(field.value.part());
        }
    }
    texts
}

/// Return the booleans of a message with these numbers.
fn flags<const COUNT: usize>(mut part: Part<'_>, numbers: [u32; COUNT]) -> [bool; COUNT] {
    let mut flags = [false; COUNT];
    while let Ok(Some(field)) = part.next_field() {
        let place = numbers.iter().position(|number| *number == field.number);
        if let Some(place) = place.and_then(|place| flags.get_mut(place)) {
            *place = field.value.bits() != 0;
        }
    }
    flags
}
