//! What a queue needs to know of its keys.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::FixedState;

/// A key as its owner holds it.
pub trait QueueKey: Eq {
    /// The hash of the content. Equal keys have equal hashes, however they were made.
    fn hash64(&self) -> u64;

    /// A copy of the content alone, without whatever else the key keeps alive.
    #[must_use]
    fn content(&self) -> Self;
}

/// A key as a caller shows it, perhaps only borrowed: enough to find the one that is held.
pub trait KeyRef<K> {
    /// As [`QueueKey::hash64`].
    fn hash64(&self) -> u64;

    /// Whether `key` is the same key.
    fn matches(&self, key: &K) -> bool;

    /// A key of this content to hold.
    fn content(&self) -> K;
}

/// A key as it is added: turned into one to hold only if the queue does not hold an equal one.
pub trait IntoKey<K>: KeyRef<K> {
    /// The key to hold.
    fn into_key(self) -> K;
}

impl<K: QueueKey> KeyRef<K> for K {
    fn hash64(&self) -> u64 {
        QueueKey::hash64(self)
    }

    fn matches(&self, key: &K) -> bool {
        self == key
    }

    fn content(&self) -> K {
        QueueKey::content(self)
    }
}

impl<K: QueueKey> IntoKey<K> for K {
    fn into_key(self) -> K {
        self
    }
}

/// The seed is fixed: names in a cluster are chosen by those who may create objects there, who have cheaper ways to
/// make work than to search for collisions, and the host's memory is theirs to fill anyway.
const HASHER: FixedState = FixedState::with_seed(0x0063_7472_6c68_6f73);

/// The hash of bytes that keys are made of.
#[inline]
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    let mut hasher = HASHER.build_hasher();
    hasher.write(bytes);
    hasher.finish()
}

/// The hash of a number that is a key.
#[inline]
pub fn hash_number(number: u64) -> u64 {
    let mut hasher = HASHER.build_hasher();
    hasher.write_u64(number);
    hasher.finish()
}

impl QueueKey for String {
    fn hash64(&self) -> u64 {
        hash_bytes(self.as_bytes())
    }

    fn content(&self) -> Self {
        self.clone()
    }
}

impl QueueKey for &'static str {
    fn hash64(&self) -> u64 {
        hash_bytes(self.as_bytes())
    }

    fn content(&self) -> Self {
        self
    }
}

impl QueueKey for u64 {
    fn hash64(&self) -> u64 {
        hash_number(*self)
    }

    fn content(&self) -> Self {
        *self
    }
}
