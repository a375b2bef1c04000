//! The counters of an informer.

use std::sync::atomic::{AtomicU64, Ordering};

use super::SharedInformer;
use crate::clock::{Clock, SystemClock, Tick};
use crate::decode::Encoding;
use crate::memory::Memory;

macro_rules! counters {
    ($($name:ident)*) => {
        /// Counts since the informer was created.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)*
        }

        impl Counters {
            fn all(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name.0.load(Ordering::Relaxed))),*]
            }
        }
    };
}

counters!(bytes_in protobuf_bytes_in unknown_fields listed unchanged events bookmarks backward_bookmarks processed relists
          skipped decode_errors transform_errors merged filtered);

#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: usize) {
        self.0.fetch_add(count as u64, Ordering::Relaxed);
    }
}

impl Counters {
    pub(crate) fn received(&self, encoding: &Encoding, bytes: usize) {
        self.bytes_in.add(bytes);
        if *encoding == Encoding::Proto {
            self.protobuf_bytes_in.add(bytes);
        }
    }
}

/// When something arrived last, in nanoseconds of the system's clock; 0 for never.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    byte: AtomicU64,
    event: AtomicU64,
}

impl Arrivals {
    pub(super) fn bytes(&self) {
        let now = SystemClock.coarse().as_nanos();
        self.byte.store(now, Ordering::Relaxed);
    }

    pub(super) fn event(&self) {
        self.event
            .store(self.byte.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// What has arrived; see [`SharedInformer::arrived`].
#[derive(Clone, Copy, Debug)]
pub struct Arrived {
    /// Objects that watches added, modified or deleted.
    pub events: u64,
    /// Objects of the list in progress.
    pub staged: usize,
    /// When the last byte arrived, on the system's clock.
    pub last_byte: Option<Tick>,
    /// When the last event arrived.
    pub last_event: Option<Tick>,
}

/// A copy of the counts; see [`SharedInformer::stats`].
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Name and value, in a fixed order.
    pub counts: Vec<(&'static str, u64)>,
    /// What the store and the list in progress take.
    pub memory: Memory,
    /// Why the last skipped object was skipped.
    pub last_skip: String,
    /// The last field that the table of fields lacked.
    pub last_unknown: String,
    /// The encoding of the last answer; empty if it could not be read.
    pub encoding: &'static str,
}

impl SharedInformer {
    /// Return what has arrived so far.
    pub fn arrived(&self) -> Arrived {
        let tick = |time: &AtomicU64| match time.load(Ordering::Relaxed) {
            0 => None,
            nanos => Some(Tick::from_nanos(nanos)),
        };
        Arrived {
            events: self.counters.events.0.load(Ordering::Relaxed),
            staged: self.input.lock().staged,
            last_byte: tick(&self.arrivals.byte),
            last_event: tick(&self.arrivals.event),
        }
    }

    /// Return what the informer has seen and what it holds.
    pub fn stats(&self) -> Stats {
        let input = self.input.lock();
        let (staged, encoding) = (input.staged, input.encoding);
        let mut memory = input.staged_memory;
        let (last_skip, last_unknown) = (input.last_skip.clone(), input.last_unknown.clone());
        drop(input);
        let (sizes, packed) = (self.store.sizes(), self.packer.counts());
        memory += self.store.memory();
        memory.dictionary += packed.dictionary_bytes;
        let mut counts = vec![
            ("objects", self.store.len() as u64),
            ("bytes", sizes.memory.sum() as u64),
            ("queued", self.fifo.len() as u64),
            ("handlers", self.handler_count() as u64),
            ("staged", staged as u64),
            ("pending", self.pending() as u64),
            ("plain_bytes", sizes.plain as u64),
            ("compressed_objects", sizes.packed as u64),
            ("dictionaries_learnt", packed.dictionaries),
            ("compression_given_up", packed.given_up),
            ("decompressions", packed.decompressions),
            ("damaged", packed.damaged),
        ];
        counts.extend(self.counters.all());
        Stats {
            counts,
            memory,
            last_skip,
            last_unknown,
            encoding,
        }
    }
}
