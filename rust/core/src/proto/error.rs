//! What is wrong with a body.

/// A body that is no message of its kind, or that has no JSON form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {offset}: {problem}")]
pub struct ProtoError {
    /// Bytes from the start of the body.
    pub offset: usize,
    /// What is wrong there.
    pub problem: Problem,
}

/// The ways in which a body can be wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The body ends within a field.
    #[error("protobuf: the message is cut")]
    Truncated,
    /// A number of more than ten bytes or 64 bits.
    #[error("protobuf: a number of more than 64 bits")]
    Varint,
    /// A length that goes beyond the end.
    #[error("protobuf: a length of {0} goes beyond the end of the message")]
    Length(u64),
    /// Field number 0 or over 32 bits.
    #[error("protobuf: an invalid field number")]
    FieldNumber,
    /// A group, or a wire type that does not exist.
    #[error("protobuf: an invalid wire type")]
    WireType,
    /// A known field of a wrong wire type.
    #[error("protobuf: a wrong wire type for `{0}`")]
    FieldType(&'static str),
    /// More than 100 messages in each other.
    #[error("protobuf: messages are nested deeper than 100 levels")]
    Depth,
    /// A value that Go's encoder refuses too.
    #[error("protobuf: {0}")]
    Value(&'static str),
    /// An envelope that is not of a message.
    #[error("protobuf: {0}")]
    Envelope(Box<str>),
}

impl ProtoError {
    #[cold]
    #[inline(never)]
    pub(super) fn new(offset: usize, problem: Problem) -> Self {
        Self { offset, problem }
    }
}
