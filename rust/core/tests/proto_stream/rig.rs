//! An informer of pods that is fed with bytes.

use std::sync::Arc;

use ctrlhost_core::decode::{DecodeError, ListMeta};
use ctrlhost_core::informer::{Config, SharedInformer, WatchProgress};
use ctrlhost_core::store::Store;

pub(crate) const PROTO: Option<&str> = Some("application/vnd.kubernetes.protobuf");
pub(crate) const MAX_OBJECT: usize = 4096;

pub(crate) fn informer() -> SharedInformer {
    let config = Config {
        max_object_bytes: MAX_OBJECT,
        ..Config::new("pods", "v1", "Pod")
    };
    SharedInformer::new(config, Arc::new(Store::new()))
}

/// Feed a page in pieces.
pub(crate) fn page(informer: &SharedInformer, pieces: &[&[u8]]) -> Result<ListMeta, DecodeError> {
    informer.begin_page(PROTO);
    for piece in pieces {
        informer.feed_list(piece)?;
    }
    informer.end_page()
}

/// Feed a watch in pieces, and end it.
pub(crate) fn watch(
    informer: &SharedInformer,
    pieces: &[&[u8]],
) -> Result<WatchProgress, DecodeError> {
    informer.begin_watch(PROTO);
    let mut all = WatchProgress::default();
    for piece in pieces {
        let more = informer.feed_watch(piece)?;
        all.events += more.events;
        all.bookmarks += more.bookmarks;
        all.skipped += more.skipped;
        all.resource_version = more.resource_version;
    }
    informer.end_watch()?;
    Ok(all)
}

/// Return the objects of the store as text, sorted.
pub(crate) fn content(informer: &SharedInformer) -> Vec<String> {
    informer.process();
    let mut all: Vec<String> = informer
        .store()
        .entries()
        .iter()
        .map(|(_, object)| object.json().into_owned())
        .collect();
    all.sort();
    all
}

pub(crate) fn count(informer: &SharedInformer, name: &str) -> u64 {
    let counts = informer.stats().counts;
    counts
        .iter()
        .find(|(known, _)| *known == name)
        .map_or(0, |(_, count)| *count)
}
