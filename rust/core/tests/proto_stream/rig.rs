//! An informer of pods that is fed with bytes.

use std::sync::Arc;

use ctrlhost_core::decode::{DecodeError, ListMeta};
use ctrlhost_core::informer::{Config, FeedError, SharedInformer, WatchProgress};
use ctrlhost_core::projection::Projection;
use ctrlhost_core::store::Store;

use super::wire::Encoding;

pub(crate) const PROTO: Option<&str> = Some("application/vnd.kubernetes.protobuf");
pub(crate) const MAX_OBJECT: usize = 4096;

pub(crate) fn informer() -> SharedInformer {
    informer_of(MAX_OBJECT, None)
}

pub(crate) fn informer_of(
    max_object_bytes: usize,
    projection: Option<Projection>,
) -> SharedInformer {
    let config = Config {
        max_object_bytes,
        projection,
        ..Config::new("pods", "v1", "Pod")
    };
    SharedInformer::new(config, Arc::new(Store::new()))
}

fn malformed(error: FeedError) -> DecodeError {
    match error {
        FeedError::Decode(error) => error,
        FeedError::OverBudget(over) => panic!("{over}, but there is no budget"),
    }
}

/// Feed a page in pieces.
pub(crate) fn page(informer: &SharedInformer, pieces: &[&[u8]]) -> Result<ListMeta, DecodeError> {
    page_in(Encoding::Proto, informer, pieces)
}

/// Feed a page of that encoding in pieces.
pub(crate) fn page_in(
    encoding: Encoding,
    informer: &SharedInformer,
    pieces: &[&[u8]],
) -> Result<ListMeta, DecodeError> {
    informer.begin_page(Some(encoding.media()));
    for piece in pieces {
        informer.feed_list(piece).map_err(malformed)?;
    }
    informer.end_page()
}

/// Feed a watch in pieces, and end it.
pub(crate) fn watch(
    informer: &SharedInformer,
    pieces: &[&[u8]],
) -> Result<WatchProgress, DecodeError> {
    watch_in(Encoding::Proto, informer, pieces)
}

/// Feed a watch of that encoding in pieces, and end it.
pub(crate) fn watch_in(
    encoding: Encoding,
    informer: &SharedInformer,
    pieces: &[&[u8]],
) -> Result<WatchProgress, DecodeError> {
    informer.begin_watch(Some(encoding.media()));
    let mut all = WatchProgress::default();
    for piece in pieces {
        let more = informer.feed_watch(piece).map_err(malformed)?;
        all.events += more.events;
        all.bookmarks += more.bookmarks;
        all.skipped += more.skipped;
        all.resource_version = more.resource_version;
    }
    informer.end_watch().map_err(malformed)?;
    Ok(all)
}

/// Return the objects of the store as text, sorted.
pub(crate) fn content(informer: &SharedInformer) -> Vec<String> {
    informer.process();
    let mut all: Vec<String> = informer
        .store()
        .entries()
        .iter()
        .map(|(_, object)| object.json().expect("plain").into_owned())
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
