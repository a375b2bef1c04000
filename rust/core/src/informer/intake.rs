//! The input of an informer: list pages and watch frames become staged objects and deltas.

use std::sync::Arc;

use super::staged::Staged;
use super::{Config, Counters, Transform};
use crate::decode::{
    DecodeError, Encoding, Event, FrameKind, ListDecoder, ListMeta, RawObject, WatchDecoder,
};
use crate::delta_fifo::{DeltaFifo, DeltaObject};
use crate::event_log::EventLog;
use crate::object::{Builder, Key, Object, ObjectError, Taken};
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
    /// Fields of objects that the table of fields lacks.
    pub unknown_fields: u64,
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
    /// The encoding of the last answer, and what its table of fields lacked last.
    pub(super) encoding: &'static str,
    pub(super) last_unknown: String,
}

pub(super) struct Intake {
    builder: Builder,
    transform: Option<Arc<dyn Transform>>,
    counters: Arc<Counters>,
    pages: ListDecoder,
    frames: WatchDecoder,
    /// The list in progress.
    staged: Option<Staged>,
    resource_version: String,
    /// The version of the last bookmark among staged events, and of what came after the end of the initial ones.
    staged_version: String,
    /// A list has become the content.
    listed: bool,
    /// The initial events are complete; anything staged after that came in one piece with their end.
    initial_over: bool,
    /// The encoding of the last answer.
    encoding: Encoding,
    notes: Notes,
}

/// What is told of objects that were not taken as they came.
#[derive(Default)]
struct Notes {
    last_skip: String,
    unknown_fields: u64,
    last_unknown: String,
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
            pages: ListDecoder::new(config.max_object_bytes, list_kind.as_deref()),
            frames: WatchDecoder::new(config.max_object_bytes),
            staged: None,
            resource_version: String::new(),
            staged_version: String::new(),
            listed: false,
            initial_over: false,
            encoding: Encoding::Json,
            notes: Notes::default(),
        }
    }

    /// Return the version of the content; None before the first list.
    pub(super) fn listed_version(&self) -> Option<&str> {
        self.listed.then_some(&*self.resource_version)
    }

    pub(super) fn begin_list(&mut self) {
        self.pages.restart(Encoding::Json);
        self.frames.restart(Encoding::Json);
        self.staged = Some(Staged::default());
        self.staged_version.clear();
        self.initial_over = false;
    }

    pub(super) fn abort_list(&mut self) {
        self.pages.restart(Encoding::Json);
        self.frames.restart(Encoding::Json);
        self.staged = None;
    }

    /// Begin a page in that encoding; without this it is JSON.
    pub(super) fn begin_page(&mut self, encoding: Encoding) {
        self.encoding = encoding.clone();
        self.pages.restart(encoding);
    }

    /// Begin a watch stream in that encoding; without this it is JSON.
    pub(super) fn begin_watch(&mut self, encoding: Encoding) {
        self.encoding = encoding.clone();
        self.frames.restart(encoding);
    }

    pub(super) fn report(&self, input: &mut Input) {
        self.resource_version
            .clone_into(&mut input.resource_version);
        input.staged = self.staged.as_ref().map_or(0, Staged::len);
        self.notes.last_skip.clone_into(&mut input.last_skip);
        self.notes.last_unknown.clone_into(&mut input.last_unknown);
        input.encoding = self.encoding.name();
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
            notes,
            encoding,
            ..
        } = self;
        counters.received(encoding, chunk.len());
        let staged = staged.get_or_insert_default();
        let mut malformed = None;
        let result = pages.feed(chunk, &mut |item| {
            counters.listed.add(1);
            match build(builder, transform.as_ref(), counters, notes, store, item) {
                Ok(object) => staged.insert(object),
                Err(ObjectError::Malformed(error)) => {
                    malformed = Some(*error);
                    return false;
                }
                Err(error) => notes.skip(counters, "a list item", &error),
            }
            true
        });
        count_error(&self.counters, malformed.map_or(result, Err))
    }

    pub(super) fn end_page(&mut self) -> Result<ListMeta, DecodeError> {
        let result = self.pages.finish();
        self.pages.restart(Encoding::Json);
        count_error(&self.counters, result)
    }

    pub(super) fn feed_watch(
        &mut self,
        chunk: &[u8],
        store: &Store,
        fifo: &DeltaFifo,
        events: Option<&EventLog>,
    ) -> Result<WatchProgress, DecodeError> {
        self.counters.received(&self.encoding, chunk.len());
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
        let result = self.watch(store, fifo, events, WatchDecoder::finish);
        self.frames.restart(Encoding::Json);
        result
    }

    fn watch(
        &mut self,
        store: &Store,
        fifo: &DeltaFifo,
        events: Option<&EventLog>,
        run: impl FnOnce(
            &mut WatchDecoder,
            &mut dyn FnMut(Event<'_>) -> bool,
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
            notes,
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
        let unknown_before = notes.unknown_fields;
        let mut malformed = None;
        let result = run(frames, &mut |frame| {
            match frame.kind {
                FrameKind::Error => {
                    progress.error = Some(frame.status());
                    return false;
                }
                FrameKind::Unknown => {
                    let what = format!("frame of type {}", shortened(&frame.type_text));
                    let error = ObjectError::OtherKind(what);
                    notes.skip(counters, "a watch frame", &error);
                    progress.skipped += 1;
                    return true;
                }
                FrameKind::Bookmark => {
                    let bookmark = frame.bookmark();
                    progress.note(&bookmark, resource_version, counters);
                    *initial_over |= bookmark.ends_initial_events == Some(true);
                    if let Some(events) = events {
                        events.bookmark(resource_version);
                    }
                    return true;
                }
                FrameKind::Added | FrameKind::Modified | FrameKind::Deleted => {}
            }
            let built = build(
                builder,
                transform.as_ref(),
                counters,
                notes,
                store,
                frame.object,
            );
            let object = match built {
                Ok(object) => object,
                Err(ObjectError::Malformed(error)) => {
                    malformed = Some(*error);
                    return false;
                }
                Err(error) => {
                    notes.skip(counters, "the object of a watch frame", &error);
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
        progress.unknown_fields = notes.unknown_fields - unknown_before;
        let result = malformed.map_or(result, Err);
        count_error(&self.counters, result).map(|()| progress)
    }
}

/// Return the cached object if it is in the same state, otherwise a new one.
fn build(
    builder: &mut Builder,
    transform: Option<&Arc<dyn Transform>>,
    counters: &Counters,
    notes: &mut Notes,
    store: &Store,
    raw: RawObject<'_>,
) -> Result<Arc<Object>, ObjectError> {
    let partial = builder.builds_partial();
    let taken = builder.take(raw, &|identity| {
        let known = store.get(&identity.key)?;
        let same = known.same_state(&identity.uid, &identity.resource_version);
        // What was cached without its unknown fields may have come whole now.
        (same && (partial || !known.partial())).then_some(known)
    })?;
    let object = match taken {
        Taken::Known(known) => {
            counters.unchanged.add(1);
            return Ok(known);
        }
        Taken::New(object) => Arc::new(object),
    };
    if let Some(unknown) = builder.take_unknown() {
        counters.unknown_fields.add(unknown.count);
        notes.unknown_fields += unknown.count as u64;
        notes.last_unknown = unknown.to_string();
    }
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

impl Notes {
    fn skip(&mut self, counters: &Counters, what: &str, error: &ObjectError) {
        counters.skipped.add(1);
        self.last_skip = format!("{what}: {error}");
    }
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
