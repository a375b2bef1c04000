//! The input of an informer: list pages and watch frames become staged objects and deltas.

use std::sync::Arc;

use super::incoming::{Incoming, Notes, build};
use super::packer::Packer;
use super::shard::Shard;
use super::staged::{List, Staged, taken_by};
use super::{Config, Counters, Transform};
use crate::budget::{Account, OverBudget};
use crate::decode::{DecodeError, Encoding, Event, FrameKind, ListDecoder, ListMeta, WatchDecoder};
use crate::delta_fifo::{DeltaFifo, DeltaObject};
use crate::event_log::EventLog;
use crate::memory::Memory;
use crate::object::{Builder, Object, ObjectError};
use crate::projection::Projection;
use crate::shards::Ranges;
use crate::store::Store;

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
    /// Damaged objects that were met in the cache since the last piece.
    pub damaged: u64,
    /// The resource version at which to continue after this piece.
    pub resource_version: String,
    /// The bookmark that ends the initial events of a streaming list has come.
    pub initial_events_end: bool,
    /// The `Status` of an ERROR frame, as JSON. Frames after it are not read.
    pub error: Option<String>,
}

/// Why input was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeedError {
    /// It is malformed.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The memory budget has no room for it.
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
}

impl WatchProgress {
    /// Return whether nothing came.
    pub fn is_empty(&self) -> bool {
        let counts = [self.events, self.bookmarks, self.skipped, self.damaged];
        counts == [0; 4] && self.error.is_none()
    }
}

/// What the intake has reported, for other threads than its user's.
#[derive(Default)]
pub(super) struct Input {
    /// The resource version at which the stream continues; everything up to it is in the FIFO.
    pub(super) resource_version: String,
    pub(super) staged: usize,
    /// What the staged objects take that the store does not have.
    pub(super) staged_memory: Memory,
    pub(super) last_skip: String,
    /// The encoding of the last answer, and what its table of fields lacked last.
    pub(super) encoding: &'static str,
    pub(super) last_unknown: String,
}

/// Takes a frame; false ends the stream.
type OnFrame<'a> = &'a mut dyn FnMut(Event<'_>) -> bool;

pub(super) struct Intake {
    builder: Builder,
    transform: Option<Arc<dyn Transform>>,
    counters: Arc<Counters>,
    account: Arc<Account>,
    packer: Arc<Packer>,
    pages: ListDecoder,
    frames: WatchDecoder,
    /// The list in progress.
    staged: Option<Staged>,
    resource_version: String,
    /// The version of the end of the initial events, and of what came after it.
    staged_version: String,
    /// A list has become the content.
    listed: bool,
    /// The initial events are complete; anything staged after that came in one piece with their end.
    initial_over: bool,
    /// The encoding of the last answer.
    encoding: Encoding,
    notes: Notes,
    /// What is taken of what comes; None for all of it.
    pub(super) shard: Option<Shard>,
}

impl Intake {
    pub(super) fn new(
        config: &Config,
        counters: Arc<Counters>,
        account: Arc<Account>,
        packer: Arc<Packer>,
    ) -> Self {
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
            account,
            packer,
            pages: ListDecoder::new(config.max_object_bytes, list_kind.as_deref()),
            frames: WatchDecoder::new(config.max_object_bytes),
            staged: None,
            resource_version: String::new(),
            staged_version: String::new(),
            listed: false,
            initial_over: false,
            encoding: Encoding::Json,
            notes: Notes::default(),
            shard: config.shard_by.map(Shard::new),
        }
    }

    /// Keep this part of each object that is still to come.
    pub(super) fn set_projection(&mut self, projection: Option<Projection>) {
        self.builder.set_projection(projection);
    }

    /// Return the version at which the stream continues.
    pub(super) fn resource_version(&self) -> &str {
        &self.resource_version
    }

    /// Return the version of the content; None before the first list.
    pub(super) fn listed_version(&self) -> Option<&str> {
        self.listed.then_some(&*self.resource_version)
    }

    /// Begin a list, of everything or of ranges to be added to what is held.
    pub(super) fn begin_list(&mut self, adding: Option<Ranges>) {
        if let Some(shard) = &mut self.shard {
            shard.begin_list(adding);
        }
        self.pages.restart(Encoding::Json);
        self.frames.restart(Encoding::Json);
        self.drop_staged();
        self.staged = Some(Staged::default());
        self.staged_version.clear();
        self.initial_over = false;
    }

    pub(super) fn abort_list(&mut self) {
        if let Some(shard) = &mut self.shard {
            shard.begin_list(None);
        }
        self.pages.restart(Encoding::Json);
        self.frames.restart(Encoding::Json);
        self.drop_staged();
    }

    fn drop_staged(&mut self) {
        if let Some(staged) = self.staged.take() {
            staged.dispose();
        }
        self.account.drop_staged();
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
        input.staged_memory = self.staged.as_ref().map(Staged::memory).unwrap_or_default();
        self.notes.last_skip.clone_into(&mut input.last_skip);
        self.notes.last_unknown.clone_into(&mut input.last_unknown);
        input.encoding = self.encoding.name();
    }

    /// Return the staged list. An incomplete one is no new version.
    pub(super) fn take_staged(&mut self, resource_version: &str, store: &Store) -> List {
        let list = self.take_list(store);
        if !list.is_incomplete {
            resource_version.clone_into(&mut self.resource_version);
            self.listed = true;
            if let Some(shard) = &mut self.shard {
                shard.listed();
            }
        }
        list
    }

    /// Return the staged list, which is no new version.
    pub(super) fn take_list(&mut self, store: &Store) -> List {
        let list = self.staged.take().unwrap_or_default().into_list(store);
        self.account.take_staged();
        list
    }

    /// Return whether the list in progress adds to what is held.
    pub(super) fn is_adding(&self) -> bool {
        self.shard.as_ref().is_some_and(Shard::is_adding)
    }

    pub(super) fn feed_list(&mut self, chunk: &[u8], store: &Arc<Store>) -> Result<(), FeedError> {
        let Self {
            builder,
            transform,
            counters,
            account,
            packer,
            pages,
            staged,
            listed,
            notes,
            encoding,
            shard,
            ..
        } = self;
        counters.received(encoding, chunk.len());
        let staged = staged.get_or_insert_default();
        let shard = shard.as_ref();
        // What does not fit is not left out of a part: nothing of the rest makes room for it.
        let listed = *listed && !shard.is_some_and(Shard::is_adding);
        let shard = shard.map(|shard| (shard, true));
        let mut malformed = None;
        let mut over = None;
        let result = pages.feed(chunk, &mut |item| {
            if over.is_some() {
                return false;
            }
            counters.listed.add(1);
            let transform = transform.as_ref();
            match build(builder, transform, counters, notes, store, shard, item) {
                Ok(Incoming::Object(object, known)) => {
                    over = staged.stage(object, known, listed, packer, account).err();
                }
                Ok(Incoming::Left(..)) => {}
                Err(ObjectError::Malformed(error)) => {
                    malformed = Some(*error);
                    return false;
                }
                Err(error) => notes.skip(counters, "a list item", &error),
            }
            true
        });
        staged.pack(packer, store, account);
        count_error(&self.counters, malformed.map_or(result, Err))?;
        self.within_budget(over, store)
    }

    /// Drop what is staged if an object did not fit.
    fn within_budget(
        &mut self,
        over: Option<OverBudget>,
        store: &Arc<Store>,
    ) -> Result<(), FeedError> {
        if let Some(mut over) = over {
            if let Some(staged) = &self.staged {
                over.learning = staged.learn(&self.packer, store);
            }
            self.drop_staged();
            return Err(over.into());
        }
        Ok(())
    }

    pub(super) fn end_page(&mut self) -> Result<ListMeta, DecodeError> {
        let result = self.pages.finish();
        self.pages.restart(Encoding::Json);
        count_error(&self.counters, result)
    }

    pub(super) fn feed_watch(
        &mut self,
        chunk: &[u8],
        store: &Arc<Store>,
        fifo: &DeltaFifo,
        events: Option<&EventLog>,
    ) -> Result<WatchProgress, FeedError> {
        self.counters.received(&self.encoding, chunk.len());
        let progress = self.watch(store, fifo, events, |frames, on_frame| {
            frames.feed(chunk, on_frame)
        });
        if let Some(staged) = &mut self.staged {
            staged.pack(&self.packer, store, &self.account);
        } else if let Some(shard) = &mut self.shard {
            shard.reached(&self.resource_version);
        }
        progress
    }

    pub(super) fn end_watch(
        &mut self,
        store: &Arc<Store>,
        fifo: &DeltaFifo,
        events: Option<&EventLog>,
    ) -> Result<WatchProgress, FeedError> {
        let result = self.watch(store, fifo, events, WatchDecoder::finish);
        self.frames.restart(Encoding::Json);
        result
    }

    fn watch(
        &mut self,
        store: &Arc<Store>,
        fifo: &DeltaFifo,
        events: Option<&EventLog>,
        run: impl FnOnce(&mut WatchDecoder, OnFrame<'_>) -> Result<(), DecodeError>,
    ) -> Result<WatchProgress, FeedError> {
        let Self {
            builder,
            transform,
            counters,
            account,
            packer,
            frames,
            staged,
            resource_version,
            staged_version,
            listed,
            initial_over,
            notes,
            shard,
            ..
        } = self;
        let sieve = shard.as_ref().map(|shard| (shard, staged.is_some()));
        // Staged objects are not the content yet, so they change only their own version.
        let events = events.filter(|_| staged.is_none());
        let resource_version = if staged.is_some() {
            staged_version
        } else {
            resource_version
        };
        let mut progress = WatchProgress::default();
        let unknown_before = notes.unknown_fields;
        let (mut malformed, mut over) = (None, None);
        let result = run(frames, &mut |frame| {
            match frame.kind {
                FrameKind::Error => {
                    progress.error = Some(frame.status());
                    return false;
                }
                FrameKind::Unknown => {
                    notes.skip(counters, "a watch frame", &unknown_type(&frame.type_text));
                    progress.skipped += 1;
                    return true;
                }
                FrameKind::Bookmark => {
                    let bookmark = frame.bookmark();
                    *initial_over |= bookmark.ends_initial_events == Some(true);
                    // One among the initial events says nothing about those that are still to come.
                    let counts = staged.is_none() || *initial_over;
                    progress.note(&bookmark, counts.then_some(resource_version), counters);
                    if let Some(events) = events {
                        events.bookmark(resource_version);
                    }
                    return true;
                }
                FrameKind::Added | FrameKind::Modified | FrameKind::Deleted => {}
            }
            let transform = transform.as_ref();
            let raw = frame.object;
            let built = build(builder, transform, counters, notes, store, sieve, raw);
            let deleted = frame.kind == FrameKind::Deleted;
            // The initial events come in any order of versions; a change after them is the newest.
            let counts = staged.is_none() || *initial_over;
            let (object, known) = match built {
                Ok(Incoming::Object(object, known)) => (object, known),
                Ok(Incoming::Left(left)) => {
                    advance(resource_version, &left.version, counts);
                    match staged {
                        Some(staged) => staged.remove(&left.key, account),
                        None => left.release(deleted, fifo, store),
                    }
                    return true;
                }
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
            let new = Some(&object).filter(|_| !deleted);
            if staged.is_none() && !account.take_in(|| growth(store, object.key(), new)) {
                over = Some(account.over_budget(store.len()));
                return false;
            }
            counters.events.add(1);
            progress.events += 1;
            advance(resource_version, &object.resource_version(), counts);
            if let Some(staged) = staged {
                if deleted {
                    staged.remove(object.key(), account);
                } else {
                    over = staged.stage(object, known, *listed, packer, account).err();
                }
                return over.is_none();
            }
            if let Some(events) = events {
                events.push(object.key(), new, &object.resource_version());
            }
            queue(fifo, frame.kind, object, store);
            true
        });
        resource_version.clone_into(&mut progress.resource_version);
        progress.unknown_fields = notes.unknown_fields - unknown_before;
        count_error(&self.counters, malformed.map_or(result, Err))?;
        self.within_budget(over, store).map(|()| progress)
    }
}

/// Advance to the version of an event, if it `counts` and has one.
fn advance(version: &mut String, event: &str, counts: bool) {
    if counts && !event.is_empty() {
        event.clone_into(version);
    }
}

fn queue(fifo: &DeltaFifo, kind: FrameKind, object: Arc<Object>, store: &Store) {
    let key = object.key().clone();
    match kind {
        FrameKind::Added => fifo.add(key, object),
        FrameKind::Deleted => fifo.delete(key, DeltaObject::Live(object), Some(store)),
        _ => fifo.update(key, object),
    }
}

/// Return by how many bytes a store grows with the new state of an object; None is its deletion.
fn growth(store: &Store, key: &str, new: Option<&Arc<Object>>) -> i64 {
    let size = |object: &Arc<Object>| i64::try_from(taken_by(object).sum());
    let size = |object: Option<&Arc<Object>>| object.map_or(Ok(0), size).unwrap_or(i64::MAX);
    size(new) - size(store.get(key).as_ref())
}

fn unknown_type(text: &str) -> ObjectError {
    let shortened: String = text.chars().take(40).collect();
    ObjectError::OtherKind(format!("frame of type {shortened}"))
}

fn count_error<T>(counters: &Counters, result: Result<T, DecodeError>) -> Result<T, DecodeError> {
    if result.is_err() {
        counters.decode_errors.add(1);
    }
    result
}
