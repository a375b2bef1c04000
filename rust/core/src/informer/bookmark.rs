//! Bookmarks: the version to go on from, and the end of the initial events.

use std::sync::atomic::Ordering;

use super::Counters;
use crate::json::read::Value;

/// Note a bookmark, and tell whether it ends the initial events; None if it does not speak of them.
pub(super) fn bookmark(
    object: Value<'_>,
    resource_version: &mut String,
    counters: &Counters,
) -> Option<bool> {
    let metadata = object.get("metadata").unwrap_or(Value("null"));
    let version = metadata
        .get("resourceVersion")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if !version.is_empty() {
        if is_older(&version, resource_version) {
            // Going on from there would bring events a second time; the newer version stands.
            counters.backward_bookmarks.fetch_add(1, Ordering::Relaxed);
        } else {
            resource_version.clear();
            resource_version.push_str(&version);
        }
    }
    let annotations = metadata.get("annotations").unwrap_or(Value("null"));
    annotations
        .get("k8s.io/initial-events-end")
        .map(|value| value.as_str().is_some_and(|value| value == "true"))
}

/// Whether both are well-formed resource versions and the first is the smaller one. Others can not be compared.
fn is_older(version: &str, than: &str) -> bool {
    let formed = |text: &str| {
        !text.is_empty()
            && !text.starts_with('0')
            && text.len() <= 39
            && text.bytes().all(|b| b.is_ascii_digit())
    };
    formed(version) && formed(than) && (version.len(), version) < (than.len(), than)
}
