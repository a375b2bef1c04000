//! List pages: `{"kind": …, "metadata": …, "items": […]}`, the members in any order, the items passed on one by one.

use super::{DecodeError, RawJson, SHOWN};
use crate::json::read::{Kind, Value};
use crate::json::scan::{Scan, Shape};
use crate::json::text::{StringEnd, quote_into, skip_string, unescape};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Start,
    FirstKey,
    Key,
    Colon,
    Value,
    FirstItem,
    Item,
    AfterItem,
    After,
    Done,
}

/// The content of a page besides its items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListMeta {
    /// The resource version of the whole list.
    pub resource_version: String,
    /// The token for the next page; empty on the last one.
    pub continue_token: String,
    /// The number of items on later pages, if the server sends it.
    pub remaining_item_count: Option<i64>,
    /// The number of items on this page.
    pub count: u64,
    /// The shard selector by which the server has chosen the items; empty if it says none.
    pub shard_selector: String,
}

/// Decodes one list page at a time; holds at most one incomplete item.
#[derive(Debug)]
pub struct PageDecoder {
    max_object_bytes: usize,
    list_kind: Option<Box<str>>,
    state: State,
    /// Bytes not yet consumed.
    held: Vec<u8>,
    /// How many of the current bytes are consumed.
    pos: usize,
    /// Bytes of the page before the current ones.
    offset: u64,
    first_bytes: Vec<u8>,
    key: String,
    /// The members besides the items, as text, and their total size.
    others: Vec<(String, String)>,
    others_len: usize,
    saw_items: bool,
    in_value: bool,
    scan: Scan,
    count: u64,
}

/// A larger chunk is processed in pieces, so that no copy of a whole page is ever held.
const PIECE: usize = 256 << 10;

/// A cut item is completed by so many bytes at a time.
const COMPLETION: usize = 8 << 10;

impl PageDecoder {
    /// Create a decoder at the start of a page. It rejects a page of another kind than `list_kind`; if that is
    /// unknown, a `Status` or a `Table`.
    pub fn new(max_object_bytes: usize, list_kind: Option<&str>) -> Self {
        Self {
            max_object_bytes,
            list_kind: list_kind.map(Into::into),
            state: State::Start,
            held: Vec::new(),
            pos: 0,
            offset: 0,
            first_bytes: Vec::new(),
            key: String::new(),
            others: Vec::new(),
            others_len: 0,
            saw_items: false,
            in_value: false,
            scan: Scan::new(Shape::Object),
            count: 0,
        }
    }

    /// Forget the page: a new one begins.
    pub fn restart(&mut self) {
        self.state = State::Start;
        self.held.clear();
        self.pos = 0;
        self.offset = 0;
        self.first_bytes.clear();
        self.others.clear();
        self.others_len = 0;
        self.in_value = false;
        self.saw_items = false;
        self.count = 0;
    }

    /// Take more of the page and pass on the items that are complete.
    ///
    /// # Errors
    /// The page is malformed, or an item is too large. The items before it were passed on.
    pub fn feed(
        &mut self,
        chunk: &[u8],
        on_item: &mut dyn FnMut(RawJson<'_>),
    ) -> Result<(), DecodeError> {
        for piece in chunk.chunks(PIECE) {
            let missing = SHOWN.saturating_sub(self.first_bytes.len());
            self.first_bytes.extend(piece.iter().take(missing));
            let mut rest = piece;
            // A cut item is completed step by step, and everything after it is read in place.
            while !self.held.is_empty() && !rest.is_empty() {
                let cut = self.held.len();
                let (bit, after) = rest.split_at(rest.len().min(COMPLETION));
                let mut held = std::mem::take(&mut self.held);
                held.extend_from_slice(bit);
                let used = self.read(&held, on_item)?;
                if used < cut {
                    held.drain(..used);
                    rest = after;
                } else {
                    held.clear();
                    rest = rest.get(used - cut..).unwrap_or_default();
                }
                self.held = held;
            }
            if !rest.is_empty() {
                let used = self.read(rest, on_item)?;
                self.held
                    .extend_from_slice(rest.get(used..).unwrap_or_default());
            }
            if self.in_value && self.held.len() > self.max_object_bytes {
                return Err(self.too_large());
            }
        }
        Ok(())
    }

    /// Continue in `bytes`, which begin where the last call ended. Return how many of them are consumed.
    fn read(
        &mut self,
        bytes: &[u8],
        on_item: &mut dyn FnMut(RawJson<'_>),
    ) -> Result<usize, DecodeError> {
        while self.step(bytes, on_item)? {}
        let used = std::mem::take(&mut self.pos);
        self.offset += used as u64;
        Ok(used)
    }

    fn error(&self, at: usize, what: &str) -> DecodeError {
        DecodeError::new(self.offset + at as u64, what, &self.first_bytes)
    }

    fn too_large(&self) -> DecodeError {
        self.error(
            self.pos,
            &format!("the object is larger than {} bytes", self.max_object_bytes),
        )
    }

    /// Do one step; return false if more bytes are needed.
    fn step(
        &mut self,
        bytes: &[u8],
        on_item: &mut dyn FnMut(RawJson<'_>),
    ) -> Result<bool, DecodeError> {
        let Some(&byte) = bytes.get(self.pos) else {
            return Ok(false);
        };
        if byte.is_ascii_whitespace() && !self.in_value {
            self.pos += 1;
            return Ok(true);
        }
        let next = match (self.state, byte) {
            (State::Start, b'{') => State::FirstKey,
            (State::FirstKey | State::Key, b'"') => return self.read_key(bytes),
            (State::FirstKey | State::After, b'}') => State::Done,
            (State::Colon, b':') => State::Value,
            (State::Value, b'[') if self.key == "items" => State::FirstItem,
            (State::Value, _) => return self.read_other(bytes),
            (State::FirstItem | State::AfterItem, b']') => State::After,
            (State::FirstItem | State::Item, b'{') => return self.read_item(bytes, on_item),
            (State::AfterItem, b',') => State::Item,
            (State::After, b',') => State::Key,
            (State::Start, _) => return Err(self.error(self.pos, "not JSON: expected `{`")),
            (State::FirstItem | State::Item, _) => {
                return Err(self.error(self.pos, "an item is not an object"));
            }
            (State::Done, _) => return Err(self.error(self.pos, "unexpected data after the list")),
            _ => return Err(self.error(self.pos, "not JSON: expected punctuation")),
        };
        self.pos += 1;
        self.state = next;
        Ok(true)
    }

    fn read_key(&mut self, bytes: &[u8]) -> Result<bool, DecodeError> {
        match skip_string(bytes, self.pos + 1) {
            StringEnd::At(end) => {
                let raw = bytes.get(self.pos + 1..end - 1).unwrap_or_default();
                let raw =
                    std::str::from_utf8(raw).map_err(|_| self.error(self.pos, "not UTF-8"))?;
                self.key = unescape(raw).into_owned();
                self.saw_items |= self.key == "items";
                self.pos = end;
                self.state = State::Colon;
                Ok(true)
            }
            StringEnd::Unfinished(at) if at - self.pos > 4096 => {
                Err(self.error(self.pos, "key too long"))
            }
            StringEnd::Unfinished(_) => Ok(false),
            StringEnd::Invalid(at, what) => Err(self.error(at, &format!("not JSON: {what}"))),
        }
    }

    /// Scan the value at `pos`; return its end once it has arrived.
    fn scan_value(&mut self, bytes: &[u8]) -> Result<Option<usize>, DecodeError> {
        if !self.in_value {
            self.scan.restart();
            self.in_value = true;
        }
        let bytes = bytes.get(self.pos..).unwrap_or_default();
        match self.scan.advance(bytes) {
            Ok(end) => {
                self.in_value = end.is_none();
                if end.is_some_and(|end| end > self.max_object_bytes) {
                    return Err(self.too_large());
                }
                Ok(end)
            }
            Err(error) => {
                self.in_value = false;
                Err(self.error(self.pos + error.at, &format!("not JSON: {}", error.what)))
            }
        }
    }

    fn read_other(&mut self, bytes: &[u8]) -> Result<bool, DecodeError> {
        let Some(len) = self.scan_value(bytes)? else {
            return Ok(false);
        };
        let raw = bytes.get(self.pos..self.pos + len).unwrap_or_default();
        let raw = std::str::from_utf8(raw).map_err(|_| self.error(self.pos, "not UTF-8"))?;
        if self.key == "items" && Value(raw).kind() != Kind::Null {
            return Err(self.error(self.pos, "`items` is not a list"));
        }
        self.others_len += raw.len() + self.key.len();
        if self.others_len > self.max_object_bytes {
            return Err(self.too_large());
        }
        self.others
            .push((std::mem::take(&mut self.key), raw.to_owned()));
        self.pos += len;
        self.state = State::After;
        Ok(true)
    }

    fn read_item(
        &mut self,
        bytes: &[u8],
        on_item: &mut dyn FnMut(RawJson<'_>),
    ) -> Result<bool, DecodeError> {
        let Some(len) = self.scan_value(bytes)? else {
            return Ok(false);
        };
        let bytes = bytes.get(self.pos..self.pos + len).unwrap_or_default();
        let text = std::str::from_utf8(bytes)
            .map_err(|error| self.error(self.pos + error.valid_up_to(), "not UTF-8"))?;
        on_item(RawJson {
            text,
            root: self.scan.members(0),
            metadata: self.scan.members(1),
        });
        self.count += 1;
        self.pos += len;
        self.state = State::AfterItem;
        Ok(true)
    }

    /// Note the end of the page.
    ///
    /// # Errors
    /// The page is incomplete: the body was cut. Or it is not a list of the expected kind, but for example a
    /// `Status`.
    pub fn finish(&mut self) -> Result<ListMeta, DecodeError> {
        if self.state != State::Done {
            let at = self.held.len();
            return Err(self.error(at, "unexpected end of the page"));
        }
        let other = |name: &str| {
            self.others
                .iter()
                .rev()
                .find(|(key, _)| key == name)
                .map(|(_, raw)| Value(raw))
        };
        let kind = other("kind").and_then(Value::as_str).unwrap_or_default();
        let fits = match &self.list_kind {
            _ if kind.is_empty() || kind == "List" || kind == "PartialObjectMetadataList" => true,
            Some(expected) => *kind == **expected,
            None => kind != "Status" && kind != "Table",
        };
        if !fits {
            let mut error = self.error(0, &format!("expected a list, got a {kind}"));
            error.status = (kind == "Status").then(|| self.joined());
            return Err(error);
        }
        // Every list has the member, empty or null. A body without it must not be mistaken for an empty list.
        if !self.saw_items {
            return Err(self.error(0, "expected a list, but the body has no items"));
        }
        let metadata = other("metadata").unwrap_or(Value("null"));
        let string = |name| {
            metadata
                .get(name)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .into_owned()
        };
        Ok(ListMeta {
            resource_version: string("resourceVersion"),
            continue_token: string("continue"),
            remaining_item_count: metadata
                .get("remainingItemCount")
                .and_then(|count| count.0.parse().ok()),
            count: self.count,
            shard_selector: metadata
                .get("shardInfo")
                .and_then(|info| info.get("selector"))
                .and_then(Value::as_str)
                .unwrap_or_default()
                .into_owned(),
        })
    }

    fn joined(&self) -> String {
        let mut out = vec![b'{'];
        for (index, (key, raw)) in self.others.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            quote_into(&mut out, key);
            out.push(b':');
            out.extend_from_slice(raw.as_bytes());
        }
        out.push(b'}');
        String::from_utf8(out).unwrap_or_default()
    }
}
