//! What a bookmark changes.

use super::{Counters, WatchProgress};
use crate::decode::Bookmark;

impl WatchProgress {
    /// Count a bookmark, and advance the version to it, if there is one.
    pub(super) fn note(
        &mut self,
        bookmark: &Bookmark,
        resource_version: Option<&mut String>,
        counters: &Counters,
    ) {
        counters.bookmarks.add(1);
        self.bookmarks += 1;
        self.initial_events_end |= bookmark.ends_initial_events == Some(true);
        self.plain_bookmarks += u64::from(bookmark.ends_initial_events.is_none());
        let version = &bookmark.resource_version;
        let Some(resource_version) = resource_version.filter(|_| !version.is_empty()) else {
            return;
        };
        if is_older(version, resource_version) {
            // The newer version stays: the older one would repeat events.
            counters.backward_bookmarks.add(1);
        } else {
            version.clone_into(resource_version);
        }
    }
}

/// Return whether both are well-formed resource versions and the first one is smaller. Others cannot be compared.
pub(super) fn is_older(version: &str, than: &str) -> bool {
    let formed = |text: &str| {
        !text.is_empty()
            && !text.starts_with('0')
            && text.len() <= 39
            && text.bytes().all(|b| b.is_ascii_digit())
    };
    formed(version) && formed(than) && (version.len(), version) < (than.len(), than)
}
