//! The input of an informer: list pages and watch frames become staged objects and deltas.

use std::sync::Arc;

use super::staged::Staged;
use super::{Config, Counters, Transform};
use crate::decode::{
    DecodeError, Frame, FrameDecoder, FrameKind, ListMeta, PageDecoder, RawObject,
};
use crate::delta_fifo::{DeltaFifo, DeltaObject};
use crate::event_log::EventLog;
use crate::json::read::Value;
use crate::object::{Builder, Key, Object, ObjectError};
use crate::store::Store;
use crate::sync::assert_none_held;

/// The content of a piece of a watch stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchProgress {
    /// Objects that were added, modified or deleted.
    pub events: u64,
    /// Bookmarks.
    pub bookmarks: u64,
    /// Bookmarks without any statement on initial events.
    pub plain_bookmarks: u64,
    /// Frames that were skipped since no cache can hold their content.
    pub skipped: u64,
    /// The resource version at which to continue after this piece.
    pub resource_version: String,
    /// The bookmark that ends the initial events of a streaming list has come.
    pub initial_events_end: bool,
    /// The `Status` of an ERROR frame, as JSON. Frames after it are not read.
    pub error: Option<String>,
}

/// What the intake has reported, for other threads than its user's.
#[derive(Default)]
pub(super) struct Input {
    /// The resource version at which the stream continues; everything up to it is in the FIFO.
    pub(super) resource_version: String,
    pub(super) staged: usize,
    pub(super) last_skip: String,
}

pub(super) struct Intake {
    builder: Builder,
    transform: Option<Arc<dyn Transform>>,
    counters: Arc<Counters>,
    pages: PageDecoder,
    frames: FrameDecoder,
    /// The list in progress.
    staged: Option<Staged>,
    resource_version: String,
    /// The version of the last bookmark among staged events, and of what came after the end of the initial ones.
    staged_version: String,
    /// A list has become the content.
    listed: bool,
    /// The initial events are complete; anything staged after that came in one piece with their end.
    initial_over: bool,
    last_skip: String,
}

impl Intake {
    pub(super) fn new(config: &Config, counters: Arc<Counters>) -> Self {
        // The lists of built-in kinds are named after them; a custom resource may name its list freely.
        let custom = config.api_version.contains('.');
        let implied = || (!custom).then(|| format!("{}List", config.kind));
        let list_kind = config.list_kind.clone().or_else(implied);
        Self {
            builder: Builder::new(&config.api_version, &config.kind)
                .strict()
                .project(config.projection.clone()),
            transform: config.transform.clone(),
            counters,
            pages: PageDecoder::new(config.max_object_bytes, list_kind.as_deref()),
            frames: FrameDecoder::new(config.max_object_bytes),
            staged: None,
            resource_version: String::new(),
            staged_version: String::new(),
            listed: false,
            initial_over: false,
            last_skip: String::new(),
        }
    }

    /// Return the version of the content; None before the first list.
    pub(super) fn listed_version(&self) -> Option<&str> {
        self.listed.then_some(&*self.resource_version)
    }

    pub(super) fn begin_list(&mut self) {
        self.pages.restart();
        self.frames.restart();
        self.staged = Some(Staged::default());
        self.staged_version.clear();
        self.initial_over = false;
    }

    pub(super) fn abort_list(&mut self) {
        self.pages.restart();
        self.frames.restart();
        self.staged = None;
    }

    pub(super) fn report(&self, input: &mut Input) {
        self.resource_version
            .clone_into(&mut input.resource_version);
        input.staged = self.staged.as_ref().map_or(0, Staged::len);
        self.last_skip.clone_into(&mut input.last_skip);
    }

    pub(super) fn take_staged(&mut self, resource_version: &str) -> Vec<(Key, Arc<Object>)> {
        resource_version.clone_into(&mut self.resource_version);
        self.listed = true;
        self.staged.take().unwrap_or_default().into_objects()
    }

    pub(super) fn feed_list(&mut self, chunk: &[u8], store: &Store) -> Result<(), DecodeError> {
        let Self {
            builder,
            transform,
            counters,
            pages,
            staged,
            last_skip,
            ..
        } = self;
        counters.bytes_in.add(chunk.len());
        let staged = staged.get_or_insert_default();
        let result = pages.feed(chunk, &mut |item| {
            counters.listed.add(1);
            match build(builder, transform.as_ref(), counters, store, item) {
                Ok(object) => {
                    staged.insert(object);
                }
                Err(error) => skip(counters, last_skip, "a list item", &error),
            }
        });
        count_error(&self.counters, result)
    }

    pub(super) fn end_page(&mut self) -> Result<ListMeta, DecodeError> {
        let result = self.pages.finish();
        self.pages.restart();
        count_error(&self.counters, result)
    }

    pub(super) fn feed_watch(
        &mut self,
        chunk: &[u8],
        store: &Store,
        fifo: &DeltaFifo,
        events: Option<&EventLog>,
    ) -> Result<WatchProgress, DecodeError> {
        self.counters.bytes_in.add(chunk.len());
        self.watch(store, fifo, events, |frames, on_frame| {
            frames.feed(chunk, on_frame)
        })
    }

    pub(super) fn end_watch(
        &mut self,
        store: &Store,
        fifo: &DeltaFifo,
        events: Option<&EventLog>,
    ) -> Result<WatchProgress, DecodeError> {
        let result = self.watch(store, fifo, events, FrameDecoder::finish);
        self.frames.restart();
        result
    }

    fn watch(
        &mut self,
        store: &Store,
        fifo: &DeltaFifo,
        events: Option<&EventLog>,
        run: impl FnOnce(
            &mut FrameDecoder,
            &mut dyn FnMut(Frame<'_>) -> bool,
        ) -> Result<(), DecodeError>,
    ) -> Result<WatchProgress, DecodeError> {
        let Self {
            builder,
            transform,
            counters,
            frames,
            staged,
            resource_version,
            staged_version,
            initial_over,
            last_skip,
            ..
        } = self;
        // Staged objects are not the content yet, so they change only their own version.
        let events = events.filter(|_| staged.is_none());
        let resource_version = if staged.is_some() {
            staged_version
        } else {
            resource_version
        };
        let mut progress = WatchProgress::default();
        let result = run(frames, &mut |frame| {
            match frame.kind {
                FrameKind::Error => {
                    progress.error = Some(frame.value.json().to_owned());
                    return false;
                }
                FrameKind::Unknown => {
                    let error = ObjectError::OtherKind(format!(
                        "frame of type {}",
                        shortened(frame.type_text)
                    ));
                    skip(counters, last_skip, "a watch frame", &error);
                    progress.skipped += 1;
                    return true;
                }
                FrameKind::Bookmark => {
                    counters.bookmarks.add(1);
                    progress.bookmarks += 1;
                    let ends = bookmark(frame.value, resource_version, counters);
                    if let Some(events) = events {
                        events.bookmark(resource_version);
                    }
                    progress.initial_events_end |= ends == Some(true);
                    *initial_over |= ends == Some(true);
                    progress.plain_bookmarks += u64::from(ends.is_none());
                    return true;
                }
                FrameKind::Added | FrameKind::Modified | FrameKind::Deleted => {}
            }
            let object = match build(builder, transform.as_ref(), counters, store, frame.object) {
                Ok(object) => object,
                Err(error) => {
                    skip(counters, last_skip, "the object of a watch frame", &error);
                    progress.skipped += 1;
                    return true;
                }
            };
            counters.events.add(1);
            progress.events += 1;
            let key = object.key().clone();
            // The initial events come in any order of versions; a change after them is the newest.
            if staged.is_none() || *initial_over {
                let version = object.resource_version();
                if !version.is_empty() {
                    resource_version.clear();
                    resource_version.push_str(&version);
                }
            }
            if let Some(staged) = staged {
                if frame.kind == FrameKind::Deleted {
                    staged.remove(&key);
                } else {
                    staged.insert(object);
                }
                return true;
            }
            if let Some(events) = events {
                let new = Some(&object).filter(|_| frame.kind != FrameKind::Deleted);
                events.push(&key, new, &object.resource_version());
            }
            match frame.kind {
                FrameKind::Added => fifo.add(key, object.clone()),
                FrameKind::Deleted => {
                    fifo.delete(key, DeltaObject::Live(object.clone()), Some(store));
                }
                _ => fifo.update(key, object.clone()),
            }
            true
        });
        resource_version.clone_into(&mut progress.resource_version);
        count_error(&self.counters, result).map(|()| progress)
    }
}

/// Return the cached object if it is in the same state, otherwise a new one. Nothing is copied before that is known.
fn build(
    builder: &mut Builder,
    transform: Option<&Arc<dyn Transform>>,
    counters: &Counters,
    store: &Store,
    raw: RawObject<'_>,
) -> Result<Arc<Object>, ObjectError> {
    let identity = Builder::identify(raw)?;
    let known = store.get(&identity.key);
    if let Some(known) =
        known.filter(|known| known.same_state(&identity.uid, &identity.resource_version))
    {
        counters.unchanged.add(1);
        return Ok(known);
    }
    let object = Arc::new(builder.build(identity.key, raw)?);
    let Some(transform) = transform else {
        return Ok(object);
    };
    assert_none_held();
    let Some(changed) = transform.apply(&object) else {
        counters.transform_errors.add(1);
        return Ok(object);
    };
    Ok(object.restore_identity(changed))
}

fn skip(counters: &Counters, last_skip: &mut String, what: &str, error: &ObjectError) {
    counters.skipped.add(1);
    *last_skip = format!("{what}: {error}");
}

fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

fn count_error<T>(counters: &Counters, result: Result<T, DecodeError>) -> Result<T, DecodeError> {
    if result.is_err() {
        counters.decode_errors.add(1);
    }
    result
}

/// Note a bookmark. Return whether it ends the initial events; None if it says nothing about them.
fn bookmark(object: Value<'_>, resource_version: &mut String, counters: &Counters) -> Option<bool> {
    let metadata = object.get("metadata").unwrap_or(Value("null"));
    let version = metadata
        .get("resourceVersion")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if !version.is_empty() {
        if is_older(&version, resource_version) {
            // The newer version stays: the older one would repeat events.
            counters.backward_bookmarks.add(1);
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

/// Return whether both are well-formed resource versions and the first one is smaller. Others cannot be compared.
fn is_older(version: &str, than: &str) -> bool {
    let formed = |text: &str| {
        !text.is_empty()
            && !text.starts_with('0')
            && text.len() <= 39
            && text.bytes().all(|b| b.is_ascii_digit())
    };
    formed(version) && formed(than) && (version.len(), version) < (than.len(), than)
}
