//! Compressed bodies: what is read of every object stays plain, the whole is in a frame.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Object;
use super::body::{Body, BodyKind};
use crate::compress::{self, Codec};
use crate::json::path::Step;
use crate::memory::block;

/// Smaller bodies stay plain, and larger ones.
const SIZES: std::ops::RangeInclusive<usize> = 256..=1 << 20;
/// Bytes of what is kept of a hundred, above which a body stays plain.
const PAYS: usize = 90;

/// The cached state of an object does not decompress to what was compressed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cached state of {0} is damaged")]
pub struct Damaged(pub String);

/// A whole body, compressed. Beside it the object has the part that is read of every object.
#[derive(Debug)]
pub(super) struct Frame {
    bytes: Box<[u8]>,
    codec: Arc<Codec>,
    /// The hash and the length of the plain body.
    hash: u64,
    len: u32,
    annotations: bool,
    finalizers: bool,
    /// It was found to be damaged.
    damaged: AtomicBool,
}

/// A plain body: the cached one, or what was decompressed for a reader.
pub(super) enum Content<'a> {
    Cached(&'a Body),
    Unpacked(Body),
}

impl Deref for Content<'_> {
    type Target = Body;

    fn deref(&self) -> &Body {
        match self {
            Self::Cached(body) => body,
            Self::Unpacked(body) => body,
        }
    }
}

impl Object {
    /// Return the body if it is plain and of a size that is compressed.
    pub(crate) fn sample(&self) -> Option<&[u8]> {
        let packable = self.frame.is_none() && SIZES.contains(&self.body.len());
        packable.then(|| self.body.bytes())
    }

    /// Return the encoding of the body.
    pub(crate) fn body_kind(&self) -> BodyKind {
        match self.body {
            Body::Json(_) => BodyKind::Json,
            Body::Proto(_) => BodyKind::Proto,
        }
    }

    /// Return the object with a compressed body; None if it is better left as it is.
    pub fn pack(&self, codec: &Arc<Codec>) -> Option<Self> {
        let plain = self.sample()?;
        let bytes = codec.compress(plain)?;
        let head = self.body.head();
        if (bytes.len() + head.len()) * 100 > plain.len() * PAYS {
            return None;
        }
        let frame = Frame {
            bytes,
            codec: codec.clone(),
            hash: compress::hash(plain),
            len: u32::try_from(plain.len()).ok()?,
            annotations: self.body.has_annotations(),
            finalizers: self.body.has_finalizers(),
            damaged: AtomicBool::new(false),
        };
        Some(self.with(head, Some(frame)))
    }

    /// Return the object with a key that no other object shares.
    #[must_use]
    pub(crate) fn with_own_key(self) -> Self {
        Self {
            key: (*self.key).into(),
            ..self
        }
    }

    /// Return the object with a plain body: itself, or a decompressed copy.
    ///
    /// # Errors
    /// The frame is damaged.
    pub fn plain(self: &Arc<Self>) -> Result<Arc<Self>, Damaged> {
        match self.content()? {
            Content::Cached(_) => Ok(self.clone()),
            Content::Unpacked(body) => Ok(Arc::new(self.with(body, None))),
        }
    }

    /// Return the plain body.
    pub(super) fn content(&self) -> Result<Content<'_>, Damaged> {
        let Some(frame) = &self.frame else {
            return Ok(Content::Cached(&self.body));
        };
        let plain = frame
            .codec
            .decompress(&frame.bytes, frame.len(), frame.hash);
        let body = plain.and_then(|plain| self.body.same_kind(plain));
        body.map(Content::Unpacked).ok_or_else(|| {
            if !frame.damaged.swap(true, Ordering::Relaxed) {
                frame.codec.count_damaged();
            }
            Damaged(self.describe())
        })
    }

    /// Return whether the body is compressed.
    pub fn is_packed(&self) -> bool {
        self.frame.is_some()
    }

    /// Return whether `object` is this one, or this one in another form.
    pub(crate) fn is_twin(&self, object: &Arc<Self>) -> bool {
        std::ptr::eq(self, &raw const **object)
            || (self.is_packed() != object.is_packed()
                && !self.is_damaged()
                && self.same_state(&object.uid(), &object.resource_version())
                && self.partial == object.partial
                && self.has_equal_bytes(object))
    }

    /// Return whether the body was found to be damaged.
    pub(crate) fn is_damaged(&self) -> bool {
        let frame = self.frame.as_ref();
        frame.is_some_and(|frame| frame.damaged.load(Ordering::Relaxed))
    }

    /// Return whether a path can be followed without decompressing.
    pub fn is_in_head(&self, path: &[Step]) -> bool {
        let [Step::Key(first), Step::Key(second), ..] = path else {
            return false;
        };
        let Some(frame) = self.frame.as_ref().filter(|_| **first == *"metadata") else {
            return false;
        };
        match &**second {
            "uid" | "resourceVersion" | "generation" | "deletionTimestamp" | "labels"
            | "ownerReferences" => true,
            "annotations" => !frame.annotations,
            "finalizers" => !frame.finalizers,
            _ => false,
        }
    }

    /// Return whether the plain body may have finalizers.
    pub fn may_have_finalizers(&self) -> bool {
        self.frame.as_ref().is_none_or(|frame| frame.finalizers)
    }

    /// Return whether the plain body may have annotations.
    pub(super) fn may_have_annotations(&self) -> bool {
        self.frame.as_ref().is_none_or(|frame| frame.annotations)
    }

    /// Return whether the plain body has neither annotations nor finalizers, as far as can be told without it.
    pub(crate) fn lacks_marks(&self) -> bool {
        !self.may_have_annotations() && !self.may_have_finalizers()
    }

    /// Return the length and the hash of the plain body.
    pub(super) fn digest(&self) -> (usize, u64) {
        match &self.frame {
            Some(frame) => (frame.len(), frame.hash),
            None => (self.body.len(), compress::hash(self.body.bytes())),
        }
    }

    /// Return the bytes that the plain body takes.
    pub fn plain_len(&self) -> usize {
        self.frame.as_ref().map_or(self.body.len(), |one| one.len())
    }

    /// Return a copy whose frame differs in one bit; None for a plain body. For tests of damage.
    #[must_use]
    pub fn falsified(&self, bit: usize) -> Option<Self> {
        let frame = self.frame.as_ref()?;
        let mut bytes = frame.bytes.clone();
        let at = (bit / 8) % bytes.len().max(1);
        *bytes.get_mut(at)? ^= 1 << (bit % 8);
        let frame = Frame {
            bytes,
            codec: frame.codec.clone(),
            damaged: AtomicBool::new(false),
            ..**frame
        };
        Some(self.with(self.body.head(), Some(frame)))
    }
}

impl Frame {
    fn len(&self) -> usize {
        self.len as usize
    }

    /// Return the bytes of the frame with its description.
    pub(super) fn memory(&self) -> usize {
        block(size_of::<Self>()) + block(self.bytes.len())
    }
}
