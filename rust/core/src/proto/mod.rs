//! Protobuf bodies of the built-in kinds: the table of their fields, and readers that need no other schema.
//!
//! Here and everywhere in this module, `bytes` are those of the message itself, without an envelope.

mod cut;
mod envelope;
mod error;
mod forms;
mod header;
mod lookup;
mod map_entry;
mod message;
mod ordinary;
mod quantity;
mod sink;
mod strip;
mod table;
mod time;
mod unknown;
pub mod wire;
mod write;

pub(crate) use cut::cut;
pub use envelope::{Envelope, MAGIC, envelope};
pub use error::{Problem, ProtoError};
pub use header::{Entries, Header, header};
pub use lookup::lookup;
pub use message::{keep_metadata, status, text};
pub use strip::{keep_header, strip_managed_fields};
pub use table::{Message, Resource, Table};
pub use unknown::{Unknown, UnknownField};
pub use write::{check, write_json};
