//! List pages in protobuf: an envelope with the list in it, whose items are passed on one by one.

use std::borrow::Cow;

use super::pieces::{Pieces, Taken};
use super::{DecodeError, ListMeta, RawProto, SHOWN};
use crate::proto::wire::{Part, Raw};
use crate::proto::{self, MAGIC, Problem, ProtoError};

/// What the next bytes belong to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// The mark with which every envelope begins.
    #[default]
    Magic,
    /// The fields of the envelope.
    Envelope,
    /// The fields of the list, of which so many bytes are left.
    List(u64),
}

/// Decodes one list page at a time; holds at most one incomplete item.
#[derive(Debug)]
pub struct ProtoPageDecoder {
    max_object_bytes: usize,
    list_kind: Option<Box<str>>,
    pieces: Pieces,
    page: Page,
}

/// What is known of the page.
#[derive(Debug, Default)]
struct Page {
    place: Place,
    saw_list: bool,
    kind: String,
    first_bytes: Vec<u8>,
    meta: ListMeta,
    /// The bytes besides the items so far.
    others: usize,
}

/// The header of a field, at the beginning of some bytes.
struct Head {
    number: u64,
    /// Bytes of the tag and the length.
    len: usize,
    /// Bytes of the value; numbers have no length of their own.
    value: Option<u64>,
}

/// The type of a list and the fields after it are not longer.
const MAX_ENVELOPE_FIELD: usize = 4096;

impl ProtoPageDecoder {
    /// Create a decoder at the start of a page. It rejects a page of another kind than `list_kind`; if that is
    /// unknown, a `Status`.
    pub fn new(max_object_bytes: usize, list_kind: Option<&str>) -> Self {
        Self {
            max_object_bytes,
            list_kind: list_kind.map(Into::into),
            pieces: Pieces::default(),
            page: Page::default(),
        }
    }

    /// Forget the page: a new one begins.
    pub fn restart(&mut self) {
        self.pieces = Pieces::default();
        self.page = Page::default();
    }

    /// Take more of the page and pass on the items that are complete. `on_item` returns false to drop the rest.
    ///
    /// # Errors
    /// The page is malformed, or an item is too large. The items before it were passed on.
    pub fn feed(
        &mut self,
        chunk: &[u8],
        on_item: &mut dyn FnMut(RawProto<'_>) -> bool,
    ) -> Result<(), DecodeError> {
        let Self {
            max_object_bytes,
            list_kind,
            pieces,
            page,
        } = self;
        let missing = SHOWN.saturating_sub(page.first_bytes.len());
        page.first_bytes.extend(chunk.iter().take(missing));
        pieces.feed(chunk, &mut |bytes, offset| match page.place {
            Place::Magic => page.magic(bytes, offset),
            Place::Envelope => {
                page.envelope(bytes, offset, list_kind.as_deref(), *max_object_bytes)
            }
            Place::List(left) => page.list(bytes, offset, left, *max_object_bytes, on_item),
        })
    }

    /// Note the end of the page.
    ///
    /// # Errors
    /// The page is incomplete: the body was cut.
    pub fn finish(&mut self) -> Result<ListMeta, DecodeError> {
        let complete = self.page.place == Place::Envelope && self.page.saw_list;
        if !complete || !self.pieces.unfinished().is_empty() {
            let what = "unexpected end of the page";
            return Err(DecodeError::new(
                self.pieces.len(),
                what,
                &self.page.first_bytes,
            ));
        }
        Ok(std::mem::take(&mut self.page.meta))
    }
}

impl Page {
    fn error(&self, at: u64, what: impl Into<String>) -> DecodeError {
        DecodeError::new(at, what, &self.first_bytes)
    }

    fn malformed(&self, offset: u64, error: &ProtoError) -> DecodeError {
        self.error(offset + error.offset as u64, error.problem.to_string())
    }

    fn magic(&mut self, bytes: &[u8], offset: u64) -> Result<Taken, DecodeError> {
        let seen = bytes.get(..MAGIC.len()).unwrap_or(bytes);
        if !MAGIC.starts_with(seen) {
            let start = bytes.get(..SHOWN).unwrap_or(bytes);
            let text = start.trim_ascii_start();
            if text.is_empty() && start.len() < SHOWN {
                return Ok(Taken::Needs(bytes.len() + 1));
            }
            return Err(self.error(offset, "no protobuf of Kubernetes: expected `k8s\\0`"));
        }
        if seen.len() < MAGIC.len() {
            return Ok(Taken::Needs(seen.len() + 1));
        }
        self.place = Place::Envelope;
        Ok(Taken::Used(MAGIC.len()))
    }

    /// Read the header of a field; None if more bytes are needed.
    fn head(&self, bytes: &[u8], offset: u64) -> Result<Option<Head>, DecodeError> {
        Head::read(bytes).map_err(|error| self.malformed(offset, &error))
    }

    fn envelope(
        &mut self,
        bytes: &[u8],
        offset: u64,
        expected: Option<&str>,
        most: usize,
    ) -> Result<Taken, DecodeError> {
        let Some(head) = self.head(bytes, offset)? else {
            return Ok(Taken::Needs(bytes.len() + 1));
        };
        let content = head.value.filter(|_| head.number == 2);
        if let Some(length) = content {
            if self.saw_list {
                return Err(self.error(offset, "protobuf: the envelope has two lists"));
            }
            if self.kind != "Status" {
                self.saw_list = true;
                self.check_kind(offset, expected)?;
                self.place = if length == 0 {
                    Place::Envelope
                } else {
                    Place::List(length)
                };
                return Ok(Taken::Used(head.len));
            }
        }
        let size = head.value.and_then(|value| usize::try_from(value).ok());
        let size = size.unwrap_or_default();
        let limit = if self.saw_list || content.is_some() {
            1 << 20
        } else {
            MAX_ENVELOPE_FIELD
        };
        if size > limit || head.value.is_some_and(|value| value > limit as u64) {
            let what = format!("protobuf: a field of the envelope is larger than {limit} bytes");
            return Err(self.error(offset, what));
        }
        let end = head.len + size;
        let Some(value) = bytes.get(head.len..end) else {
            return Ok(Taken::Needs(end));
        };
        self.pass_over(end, offset, most)?;
        self.saw_list |= content.is_some();
        match head.number {
            1 if !self.saw_list => {
                self.kind = type_meta(value, 2).map_err(|error| self.malformed(offset, &error))?;
            }
            1 => return Err(self.error(offset, "protobuf: the type follows the list")),
            2 => return Err(self.status(value)),
            3 if !value.is_empty() => {
                let name = value.escape_ascii();
                return Err(
                    self.error(offset, format!("protobuf: the list is encoded as `{name}`"))
                );
            }
            4 if !value.is_empty()
                && !value.starts_with(b"application/vnd.kubernetes.protobuf") =>
            {
                let name = value.escape_ascii();
                return Err(self.error(
                    offset,
                    format!("protobuf: the list is of the type `{name}`"),
                ));
            }
            _ => {}
        }
        Ok(Taken::Used(end))
    }

    /// Count bytes that belong to no item, of which there may be no more than an object has.
    fn pass_over(&mut self, bytes: usize, offset: u64, most: usize) -> Result<(), DecodeError> {
        self.others += bytes;
        if self.others > most {
            let what = format!("protobuf: more than {most} bytes beside the items");
            return Err(self.error(offset, what));
        }
        Ok(())
    }

    fn check_kind(&self, offset: u64, expected: Option<&str>) -> Result<(), DecodeError> {
        let kind = &*self.kind;
        let any = kind.is_empty() || kind == "List" || kind == "PartialObjectMetadataList";
        if any || expected.is_none_or(|expected| kind == expected) {
            return Ok(());
        }
        Err(self.error(offset, format!("expected a list, got a {kind}")))
    }

    fn status(&self, message: &[u8]) -> DecodeError {
        let mut error = self.error(0, "expected a list, got a Status");
        error.status = proto::status(message).ok();
        error
    }

    fn list(
        &mut self,
        bytes: &[u8],
        offset: u64,
        left: u64,
        limit: usize,
        on_item: &mut dyn FnMut(RawProto<'_>) -> bool,
    ) -> Result<Taken, DecodeError> {
        // As a tag this is always invalid.
        if bytes.starts_with(b"{") {
            return Err(self.error(offset, "protobuf: the list is JSON"));
        }
        let Some(head) = self.head(bytes, offset)? else {
            if bytes.len() as u64 >= left {
                let beyond = ProtoError {
                    offset: 0,
                    problem: Problem::Truncated,
                };
                return Err(self.malformed(offset, &beyond));
            }
            return Ok(Taken::Needs(bytes.len() + 1));
        };
        let length = head.value.unwrap_or_default();
        let total = length.saturating_add(head.len as u64);
        if total > left {
            let beyond = ProtoError {
                offset: 0,
                problem: Problem::Length(length),
            };
            return Err(self.malformed(offset, &beyond));
        }
        let size = usize::try_from(length).ok().filter(|size| *size <= limit);
        let Some(size) = size else {
            return Err(DecodeError::too_large(offset, limit, &self.first_bytes));
        };
        let end = head.len + size;
        let Some(value) = bytes.get(head.len..end) else {
            return Ok(Taken::Needs(end));
        };
        let starts = offset + head.len as u64;
        if head.number != 2 {
            self.pass_over(end, offset, limit)?;
        }
        let mut goes_on = true;
        match (head.number, head.value) {
            (1, Some(_)) => self
                .list_meta(value)
                .map_err(|error| self.malformed(starts, &error))?,
            (2, Some(_)) => {
                let kind = match &*self.kind {
                    "PartialObjectMetadataList" => "PartialObjectMetadata",
                    _ => "",
                };
                self.meta.count += 1;
                goes_on = on_item(RawProto {
                    offset: starts,
                    bytes: value,
                    api_version: Cow::Borrowed(""),
                    kind: Cow::Borrowed(kind),
                });
            }
            _ => {}
        }
        self.place = if total == left {
            Place::Envelope
        } else {
            Place::List(left - total)
        };
        Ok(if goes_on {
            Taken::Used(end)
        } else {
            Taken::Stop
        })
    }

    fn list_meta(&mut self, message: &[u8]) -> Result<(), ProtoError> {
        let mut fields = Part::of(message);
        while let Some(field) = fields.next_field()? {
            match (field.number, field.value) {
                (2, Raw::Bytes(text)) => {
                    self.meta.resource_version = proto::text(text.bytes()).into_owned();
                }
                (3, Raw::Bytes(text)) => {
                    self.meta.continue_token = proto::text(text.bytes()).into_owned();
                }
                (4, Raw::Varint(count)) => {
                    self.meta.remaining_item_count = Some(count.cast_signed());
                }
                (5, Raw::Bytes(mut info)) => {
                    while let Some(field) = info.next_field()? {
                        if let (1, Raw::Bytes(text)) = (field.number, field.value) {
                            self.meta.shard_selector = proto::text(text.bytes()).into_owned();
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Head {
    fn read(bytes: &[u8]) -> Result<Option<Self>, ProtoError> {
        let mut part = Part::of(bytes);
        let number = |part: &mut Part<'_>| match part.varint() {
            Ok(number) => Ok(Some(number)),
            Err(error) if error.problem == Problem::Truncated => Ok(None),
            Err(error) => Err(error),
        };
        let Some(tag) = number(&mut part)? else {
            return Ok(None);
        };
        let field = tag >> 3;
        if field == 0 || field > u64::from(u32::MAX) {
            let problem = Problem::FieldNumber;
            return Err(ProtoError { offset: 0, problem });
        }
        let fixed = |size: usize, part: Part<'_>| Self {
            number: field,
            len: part.start() + size,
            value: None,
        };
        let head = match tag & 7 {
            0 => match number(&mut part)? {
                Some(_) => fixed(0, part),
                None => return Ok(None),
            },
            1 => fixed(8, part),
            5 => fixed(4, part),
            2 => match number(&mut part)? {
                Some(length) => Self {
                    number: field,
                    len: part.start(),
                    value: Some(length),
                },
                None => return Ok(None),
            },
            _ => {
                let problem = Problem::WireType;
                return Err(ProtoError { offset: 0, problem });
            }
        };
        Ok(Some(head))
    }
}

/// Return the field of that number of a `TypeMeta`.
fn type_meta(message: &[u8], number: u32) -> Result<String, ProtoError> {
    let mut fields = Part::of(message);
    let mut value = String::new();
    while let Some(field) = fields.next_field()? {
        if let (true, Raw::Bytes(text)) = (field.number == number, field.value) {
            value = proto::text(text.bytes()).into_owned();
        }
    }
    Ok(value)
}
