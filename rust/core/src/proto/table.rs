//! The table of the fields of all built-in kinds, which `tests/go/protobuf` writes from the Go types. It is read where it
//! lies; `tests/go/protobuf/table.go` describes its format.

static BYTES: &[u8] = include_bytes!("fields.table");

const KINDS: usize = offset(0);
const MESSAGES: usize = offset(1);
const FIELDS: usize = offset(2);
const TEXTS: usize = offset(3);
const RELEASE: usize = offset(7);

const KIND_SIZE: usize = 8;
const MESSAGE_SIZE: usize = 4;
const FIELD_SIZE: usize = 8;

#[expect(clippy::cast_possible_truncation, reason = "the table is small")]
const OBJECT_META: u16 = offset(5) as u16;
#[expect(clippy::cast_possible_truncation, reason = "the table is small")]
const SCHEMA: u16 = offset(6) as u16;

// A table of another format does not compile.
const _: () = {
    let magic = b"ctrlhost proto 2";
    let mut at = 0;
    while at < magic.len() {
        assert!(BYTES[at] == magic[at]);
        at += 1;
    }
    assert!(offset(4) == BYTES.len() && BYTES.len() <= 120 << 10);
};

const fn offset(index: usize) -> usize {
    let at = 16 + 4 * index;
    u32::from_le_bytes([BYTES[at], BYTES[at + 1], BYTES[at + 2], BYTES[at + 3]]) as usize
}

fn number(at: usize) -> u16 {
    let bytes = BYTES.get(at..).and_then(<[u8]>::first_chunk);
    bytes.map_or(0, |bytes| u16::from_le_bytes(*bytes))
}

fn text_bytes(at: usize) -> &'static [u8] {
    let (length, rest) = BYTES
        .get(TEXTS + at..)
        .and_then(<[u8]>::split_first)
        .unwrap_or((&0, &[]));
    rest.get(..usize::from(*length)).unwrap_or_default()
}

fn text(at: usize) -> &'static str {
    std::str::from_utf8(text_bytes(at)).unwrap_or_default()
}

/// The table.
#[derive(Debug)]
pub struct Table;

impl Table {
    /// Return the release of `k8s.io/api` that the table describes, such as `v0.36.3`.
    pub fn release() -> &'static str {
        text(RELEASE)
    }

    /// Return the message of a kind; None if the kind has no protobuf form or is not in the table.
    pub fn kind(api_version: &str, kind: &str) -> Option<Message> {
        let (mut low, mut high) = (0, (MESSAGES - KINDS) / KIND_SIZE);
        while low < high {
            let middle = low.midpoint(high);
            let message = Message::of_kind(middle);
            match (message.api_version(), message.kind()).cmp(&(api_version, kind)) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Some(message),
            }
        }
        None
    }

    /// Iterate over the messages of all kinds, sorted by `apiVersion` and kind.
    pub fn kinds() -> impl Iterator<Item = Message> {
        (0..(MESSAGES - KINDS) / KIND_SIZE).map(Message::of_kind)
    }

    /// Iterate over the resources that every API server has, sorted by `apiVersion` and kind.
    pub fn resources() -> impl Iterator<Item = Resource> {
        Self::kinds().enumerate().filter_map(|(position, message)| {
            let path = text(usize::from(number(KINDS + position * KIND_SIZE + 6)));
            let plural = path.trim_start_matches('/');
            (!plural.is_empty()).then(|| Resource {
                api_version: message.api_version(),
                kind: message.kind(),
                plural,
                namespaced: plural == path,
                has_status: message
                    .fields()
                    .iter()
                    .any(|field| field.is_named("status")),
            })
        })
    }
}

/// A kind with its place in the URL of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    /// `apiVersion`
    pub api_version: &'static str,
    /// `kind`
    pub kind: &'static str,
    /// The plural in lower case.
    pub plural: &'static str,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// Whether its objects have a status.
    pub has_status: bool,
}

/// A message of the table; of a kind, unless it stands within another message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    index: u16,
    /// The texts `apiVersion` and kind.
    kind: Option<(u16, u16)>,
}

impl Message {
    /// `k8s.io/apimachinery/pkg/apis/meta/v1.ObjectMeta`
    pub(super) const OBJECT_META: Self = Self::inner(OBJECT_META);
    /// The schema of a custom resource definition.
    pub(super) const SCHEMA: Self = Self::inner(SCHEMA);

    const fn inner(index: u16) -> Self {
        Self { index, kind: None }
    }

    fn of_kind(position: usize) -> Self {
        let at = KINDS + position * KIND_SIZE;
        Self {
            index: number(at + 4),
            kind: Some((number(at), number(at + 2))),
        }
    }

    /// Return `apiVersion`; empty if it is not the message of a kind.
    pub fn api_version(self) -> &'static str {
        self.kind
            .map_or("", |(offset, _)| text(usize::from(offset)))
    }

    /// Return `kind`; empty if it is not the message of a kind.
    pub fn kind(self) -> &'static str {
        self.kind
            .map_or("", |(_, message)| text(usize::from(message)))
    }

    /// Return the name of the Go type, such as `core/v1.Pod`.
    pub fn name(self) -> &'static str {
        text(usize::from(number(self.at())))
    }

    /// Return the message alone: its JSON has no `apiVersion` and `kind`.
    #[must_use]
    pub fn unnamed(self) -> Self {
        Self::inner(self.index)
    }

    fn at(self) -> usize {
        MESSAGES + usize::from(self.index) * MESSAGE_SIZE
    }

    /// Return the fields, sorted by number.
    pub(super) fn fields(self) -> Fields {
        let at = |index: u16| FIELDS + usize::from(index) * FIELD_SIZE;
        let first = at(number(self.at() + 2));
        let end = at(number(self.at() + MESSAGE_SIZE + 2));
        Fields(BYTES.get(first..end).unwrap_or_default().as_chunks().0)
    }

    /// Return whether it is the same message, of whatever kind.
    pub(super) fn is(self, other: Self) -> bool {
        self.index == other.index
    }
}

/// The fields of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields(&'static [[u8; FIELD_SIZE]]);

impl Fields {
    pub(super) fn get(self, index: usize) -> Option<Spec> {
        self.0.get(index).copied().map(Spec)
    }

    pub(super) fn iter(self) -> impl Iterator<Item = Spec> {
        self.0.iter().copied().map(Spec)
    }

    /// Return the position of a field. Messages mostly hold their fields in order, so the search begins at `hint`, the
    /// position of the last one.
    #[inline]
    pub(super) fn position(self, number: u32, hint: usize) -> Option<usize> {
        let number_at = |at: usize| self.get(at).map(Spec::number);
        let mut at = hint;
        if number_at(at).is_none_or(|known| known > number) {
            at = 0;
        }
        while number_at(at)? < number {
            at += 1;
        }
        (number_at(at) == Some(number)).then_some(at)
    }
}

/// A field of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spec([u8; FIELD_SIZE]);

impl Spec {
    pub(super) const REPEATED: u8 = 1;
    pub(super) const MAP: u8 = 2;
    pub(super) const POINTER: u8 = 4;
    pub(super) const OMIT_EMPTY: u8 = 8;
    pub(super) const OMIT_ZERO: u8 = 16;
    pub(super) const CLAIM: u8 = 32;
    const LEFT_OUT: u8 = 64;

    pub(super) fn number(self) -> u32 {
        u32::from(u16::from_le_bytes([self.0[0], self.0[1]]))
    }

    /// Return the member's name as JSON, with a colon.
    pub(super) fn key(self) -> &'static [u8] {
        text_bytes(usize::from(u16::from_le_bytes([self.0[2], self.0[3]])))
    }

    fn name_bytes(self) -> &'static [u8] {
        let key = self.key();
        key.get(1..key.len().saturating_sub(2)).unwrap_or_default()
    }

    /// Return the member's name.
    pub(super) fn name(self) -> &'static str {
        std::str::from_utf8(self.name_bytes()).unwrap_or_default()
    }

    /// Return whether the member has that name.
    pub(super) fn is_named(self, name: &str) -> bool {
        self.name_bytes() == name.as_bytes()
    }

    /// Return the message of the value; only of forms that have one.
    pub(super) fn message(self) -> Message {
        Message::inner(u16::from_le_bytes([self.0[4], self.0[5]]))
    }

    pub(super) fn form(self) -> Form {
        FORMS
            .get(usize::from(self.0[6]))
            .copied()
            .unwrap_or(Form::Hidden)
    }

    /// Return whether JSON has nothing for the field if it is not there.
    pub(super) fn is_left_out(self) -> bool {
        self.has(Self::LEFT_OUT)
    }

    pub(super) fn has(self, flag: u8) -> bool {
        self.0[7] & flag != 0
    }
}

/// How one value stands on the wire and in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    String,
    /// Base64 in JSON.
    Bytes,
    Bool,
    Int32,
    Int64,
    Uint32,
    Uint64,
    Float32,
    Float64,
    Message,
    /// A message whose members are members of the object that has the field.
    Inline,
    /// A message with one repeated string, which is a list in JSON.
    Items,
    Time,
    MicroTime,
    Duration,
    Quantity,
    IntOrString,
    /// A message with one field, which holds JSON text or an envelope.
    Json,
    SchemaOrArray,
    SchemaOrBool,
    SchemaOrStrings,
    /// A field that JSON leaves out.
    Hidden,
}

/// The forms by their number in the table.
const FORMS: [Form; 22] = [
    Form::String,
    Form::Bytes,
    Form::Bool,
    Form::Int32,
    Form::Int64,
    Form::Uint32,
    Form::Uint64,
    Form::Float32,
    Form::Float64,
    Form::Message,
    Form::Inline,
    Form::Items,
    Form::Time,
    Form::MicroTime,
    Form::Duration,
    Form::Quantity,
    Form::IntOrString,
    Form::Json,
    Form::SchemaOrArray,
    Form::SchemaOrBool,
    Form::SchemaOrStrings,
    Form::Hidden,
];
