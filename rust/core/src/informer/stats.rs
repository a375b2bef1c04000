//! The counters of an informer.

use std::sync::atomic::{AtomicU64, Ordering};

use super::SharedInformer;
use crate::decode::Encoding;

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
          skipped decode_errors transform_errors merged);

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

/// A copy of the counts; see [`SharedInformer::stats`].
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Name and value, in a fixed order.
    pub counts: Vec<(&'static str, u64)>,
    /// Why the last skipped object was skipped.
    pub last_skip: String,
    /// The last field that the table of fields lacked.
    pub last_unknown: String,
    /// The encoding of the last answer; empty if it could not be read.
    pub encoding: &'static str,
}

impl SharedInformer {
    /// Return what the informer has seen and what it holds.
    pub fn stats(&self) -> Stats {
        let input = self.input.lock();
        let (staged, encoding) = (input.staged, input.encoding);
        let (last_skip, last_unknown) = (input.last_skip.clone(), input.last_unknown.clone());
        drop(input);
        let mut counts = vec![
            ("objects", self.store.len() as u64),
            ("bytes", self.store.bytes() as u64),
            ("queued", self.fifo.len() as u64),
            ("handlers", self.handler_count() as u64),
            ("staged", staged as u64),
            ("pending", self.pending() as u64),
        ];
        counts.extend(self.counters.all());
        Stats {
            counts,
            last_skip,
            last_unknown,
            encoding,
        }
    }
}
