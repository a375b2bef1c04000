//! Pages of a list, in the encoding of each answer.

use super::{DecodeError, Encoding, ListMeta, PageDecoder, ProtoPageDecoder, RawObject};

/// Decodes one page at a time; holds at most one incomplete item.
#[derive(Debug)]
pub struct ListDecoder {
    encoding: Encoding,
    json: PageDecoder,
    proto: ProtoPageDecoder,
}

impl ListDecoder {
    /// Create a decoder at the start of a page in JSON. It rejects a page of another kind than `list_kind`; if that is
    /// unknown, a `Status` or a `Table`.
    pub fn new(max_object_bytes: usize, list_kind: Option<&str>) -> Self {
        Self {
            encoding: Encoding::Json,
            json: PageDecoder::new(max_object_bytes, list_kind),
            proto: ProtoPageDecoder::new(max_object_bytes, list_kind),
        }
    }

    /// Forget the page: a new one begins.
    pub fn restart(&mut self, encoding: Encoding) {
        self.json.restart();
        self.proto.restart();
        self.encoding = encoding;
    }

    /// Take more of the page and pass on the items that are complete. `on_item` returns false to drop the rest.
    ///
    /// # Errors
    /// The page is malformed, or an item is too large. The items before it were passed on.
    pub fn feed(
        &mut self,
        chunk: &[u8],
        on_item: &mut dyn FnMut(RawObject<'_>) -> bool,
    ) -> Result<(), DecodeError> {
        match &self.encoding {
            Encoding::Json => self.json.feed(chunk, &mut |item| {
                on_item(RawObject::Json(item));
            }),
            Encoding::Proto => self
                .proto
                .feed(chunk, &mut |item| on_item(RawObject::Proto(item))),
            foreign @ Encoding::Foreign(_) => foreign.refuse(chunk),
        }
    }

    /// Note the end of the page.
    ///
    /// # Errors
    /// The page is incomplete: the body was cut. Or it is not a list of the expected kind, but for example a
    /// `Status`.
    pub fn finish(&mut self) -> Result<ListMeta, DecodeError> {
        self.encoding.refuse(b"")?;
        if self.encoding == Encoding::Proto {
            self.proto.finish()
        } else {
            self.json.finish()
        }
    }
}

impl Encoding {
    /// Return the error of a stream that cannot be read, with the first bytes of it.
    pub(super) fn refuse(&self, first: &[u8]) -> Result<(), DecodeError> {
        self.problem()
            .map_or(Ok(()), |problem| Err(DecodeError::new(0, problem, first)))
    }
}
