//! The keys of queues.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;

use foldhash::SharedSeed;
use foldhash::fast::FoldHasher;

/// A key as the queue keeps it.
pub trait QueueKey: Eq {
    /// Return the hash of the content. Equal keys have equal hashes, however they were made.
    fn hash64(&self) -> u64;

    /// Return a copy of the content, without anything else that the key keeps alive.
    #[must_use]
    fn content(&self) -> Self;
}

/// A key in a call, perhaps borrowed: enough to find the kept one.
pub trait KeyRef<K> {
    /// Like [`QueueKey::hash64`].
    fn hash64(&self) -> u64;

    /// Return whether `key` is the same key.
    fn matches(&self, key: &K) -> bool;

    /// Return a key of this content to keep.
    fn content(&self) -> K;
}

/// A key to add: converted into one to keep only if the queue has no equal one.
pub trait IntoKey<K>: KeyRef<K> {
    /// Return the key to keep.
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

/// The seeds of all keys' hashes.
struct Seeds {
    first: u64,
    shared: SharedSeed,
}

/// Random in each process: those who choose names in a cluster could otherwise choose some whose hashes collide, which
/// makes every operation as slow as a search of all keys.
static SEEDS: LazyLock<Seeds> = LazyLock::new(|| {
    // Seeded by the operating system.
    let random = RandomState::new();
    Seeds {
        first: random.hash_one(1),
        shared: SharedSeed::from_u64(random.hash_one(2)),
    }
});

#[inline]
fn hasher() -> FoldHasher<'static> {
    let seeds = &*SEEDS;
    FoldHasher::with_seed(seeds.first, &seeds.shared)
}

/// Return the hash of a key's bytes. It differs from process to process.
#[inline]
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    let mut hasher = hasher();
    hasher.write(bytes);
    hasher.finish()
}

/// Return the hash of a key that is a number. It differs from process to process.
#[inline]
pub fn hash_number(number: u64) -> u64 {
    let mut hasher = hasher();
    hasher.write_u64(number);
    hasher.finish()
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
