//! Compression of cached bodies: zstd with a dictionary for each resource and encoding.
//!
//! What a frame could say of itself is known outside: frames have no magic number, no content size, no checksum and no
//! dictionary id.

mod codec;
mod samples;

pub use codec::Codec;
pub(crate) use codec::hash;
pub use samples::Samples;

/// When an informer compresses the bodies of its objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Never.
    #[default]
    Off,
    /// Once it holds many objects, as long as it pays.
    Auto,
    /// As soon as there are enough objects to learn from, as long as it pays.
    On,
}
