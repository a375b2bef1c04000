//! The engine of one informer: reads bytes, updates the store, notifies handlers.
//!
//! One thread at a time feeds and processes, mostly a decode thread; every other call may come from any thread. No lock is held during
//! calls beyond the border. What must not happen at once takes turns instead: feeding (the intake is handed over),
//! processing (the FIFO hands out one batch at a time), notifying one handler. Nobody who reads the state of an informer,
//! adds a handler or removes one waits for a turn of another thread.
//!
//! A batch enters the store and its handlers are determined in one turn of the store, so a late handler gets every object
//! exactly once: as initial, or as a change.

mod attached;
mod bookmarks;
pub mod decoders;
mod follow;
mod freed;
mod handlers;
mod incoming;
mod intake;
mod packer;
mod registry;
mod shard;
mod staged;
mod stats;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use attached::{Attached, Noted};
pub use follow::{Body, FollowError, Follower, Received, Source, Told};
use freed::Freed;
pub use intake::{FeedError, WatchProgress};
use intake::{Input, Intake};
use packer::Packer;
use registry::Registry;
pub use registry::{Handler, HandlerId, Resync};
use stats::Arrivals;
pub(crate) use stats::Counters;
pub use stats::{Arrived, Stats};

use crate::budget::{Account, Budget, OverBudget};
use crate::compress::Compression;
use crate::decode::{DecodeError, Encoding, ListMeta, MAX_OBJECT_BYTES};
use crate::delta_fifo::{Batch, Delta, DeltaFifo, DeltaObject, DeltaType};
use crate::event_log::{EventLog, Window};
use crate::handlers::Change;
use crate::object::Object;
use crate::projection::Projection;
use crate::shards::By;
use crate::store::{Store, Write};
use crate::sync::{Mutex, Rank, Turn};

/// Keys that are processed together: one turn of the store, one lock of each queue. The keys of a list become visible
/// together, however many they are.
const BATCH: usize = 1_000;

/// Changes an object before it is cached; its name, namespace, uid and resource version stay as the server sent them.
pub trait Transform: Send + Sync {
    /// Return the object to cache; None keeps the object as it is, for a reason that the transform has reported.
    fn apply(&self, object: &Arc<Object>) -> Option<Arc<Object>>;
}

/// The configuration of an informer.
#[derive(Clone)]
pub struct Config {
    /// The name of the resource in errors, for example `pods`.
    pub resource: String,
    /// Set on objects whose list items have none; objects of another one are skipped.
    pub api_version: String,
    /// Likewise.
    pub kind: String,
    /// The kind of a list; the default is `kind` with `List` for built-in kinds, and any for custom ones.
    pub list_kind: Option<String>,
    /// The part of each object that is kept, unless `set_projection` changes it; None for all of it.
    pub projection: Option<Projection>,
    /// Applied once to each incoming object.
    pub transform: Option<Arc<dyn Transform>>,
    /// The largest accepted object.
    pub max_object_bytes: usize,
    /// When the objects' bodies are compressed.
    pub compression: Compression,
    /// The resync period, in seconds, of handlers without their own; 0 is never.
    pub resync: f64,
    /// What the objects may take together with those of other informers; None for any amount.
    pub budget: Option<Arc<Budget>>,
    /// What of an object decides whether it is held; None to hold all. It begins with nothing, see
    /// [`SharedInformer::hold`].
    pub shard_by: Option<By>,
}

impl Config {
    /// Configure an informer of whole objects without a transform and without resyncs.
    pub fn new(resource: &str, api_version: &str, kind: &str) -> Self {
        Self {
            resource: resource.to_owned(),
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            list_kind: None,
            projection: None,
            transform: None,
            max_object_bytes: MAX_OBJECT_BYTES,
            compression: Compression::Off,
            resync: 0.0,
            budget: None,
            shard_by: None,
        }
    }
}

/// A handler, and the place below which it had heard of everything.
type Hearing = (Arc<Attached>, usize);

/// See the module.
pub struct SharedInformer {
    config: Config,
    store: Arc<Store>,
    fifo: DeltaFifo,
    intake: Turn<Box<Intake>>,
    /// What the intake has reported.
    input: Mutex<Input>,
    registry: Mutex<Registry>,
    /// Written by the intake while somebody keeps it.
    events: Arc<Mutex<Weak<EventLog>>>,
    packer: Arc<Packer>,
    /// The version up to which everything was processed.
    reached: Mutex<String>,
    counters: Arc<Counters>,
    account: Arc<Account>,
    freed: Freed,
    arrivals: Arrivals,
    started: AtomicBool,
    stopped: AtomicBool,
    synced: AtomicBool,
}

impl SharedInformer {
    /// Create an informer. The store should have the namespace index.
    pub fn new(config: Config, store: Arc<Store>) -> Self {
        let counters = Arc::<Counters>::default();
        let account = Arc::new(Account::new(config.budget.clone()));
        let events = Arc::new(Mutex::new(Rank::Events, Weak::new()));
        let packer = Arc::new(Packer::new(&config, account.clone(), events.clone()));
        let intake = Intake::new(&config, counters.clone(), account.clone(), packer.clone());
        Self {
            intake: Turn::new(Box::new(intake)),
            input: Mutex::new(Rank::Input, Input::default()),
            registry: Mutex::new(Rank::Registry, Registry::new(config.resync)),
            events,
            packer,
            fifo: DeltaFifo::new(true),
            config,
            store,
            reached: Mutex::new(Rank::Reached, String::new()),
            counters,
            account,
            freed: Freed::default(),
            arrivals: Arrivals::default(),
            started: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            synced: AtomicBool::new(false),
        }
    }

    /// Return the configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Return the last known state of every object.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Use the intake, and wait for its turn if another thread uses it. No lock is held: transforms may be called.
    fn feed<R>(&self, work: impl FnOnce(&mut Intake, Option<&EventLog>) -> R) -> R {
        let mut intake = self.intake.take();
        let events = self.kept_event_log();
        let result = work(&mut intake, events.as_deref());
        intake.report(&mut self.input.lock());
        if let Some(events) = events {
            events.wake();
        }
        result
    }

    /// Keep this part of each object in place of that of the configuration. Before the first list, so that all objects
    /// have the same parts.
    pub fn set_projection(&self, projection: Option<Projection>) {
        self.feed(|intake, _| intake.set_projection(projection));
    }

    /// Return the log of the changes from now on, which is written while somebody keeps it. The first one who asks
    /// determines the window.
    pub fn event_log(&self, window: Window) -> Arc<EventLog> {
        // Nothing is fed meanwhile, so the log begins exactly where the intake is.
        let intake = self.intake.take();
        if let Some(events) = self.kept_event_log() {
            return events;
        }
        let version = intake.listed_version();
        let content = version.map(|version| (self.fifo.newest(&self.store), version));
        let events = Arc::new(EventLog::new(window, content));
        *self.events.lock() = Arc::downgrade(&events);
        if self.is_stopped() {
            events.close();
        }
        events
    }

    /// Return the log that somebody keeps, if there is one.
    pub fn kept_event_log(&self) -> Option<Arc<EventLog>> {
        self.events.lock().upgrade()
    }

    /// Begin to stage a list; drop what was staged before.
    pub fn begin_list(&self) {
        self.started.store(true, Ordering::Release);
        self.registry.lock().start();
        self.feed(|intake, _| intake.begin_list(None));
    }

    /// Begin a list page whose answer has that `Content-Type`; without one it is JSON.
    pub fn begin_page(&self, content_type: Option<&str>) {
        let encoding = content_type.map(Encoding::of).unwrap_or_default();
        self.feed(|intake, _| intake.begin_page(encoding));
    }

    /// Begin a watch stream whose answer has that `Content-Type`; without one it is JSON.
    pub fn begin_watch(&self, content_type: Option<&str>) {
        let encoding = content_type.map(Encoding::of).unwrap_or_default();
        self.feed(|intake, _| intake.begin_watch(encoding));
    }

    /// Drop what is staged; the store stays as it is.
    pub fn abort_list(&self) {
        self.feed(|intake, _| intake.abort_list());
    }

    /// Take more of a list page.
    ///
    /// # Errors
    /// The page is malformed, or the first list does not fit into the budget: what was staged is dropped.
    pub fn feed_list(&self, chunk: &[u8]) -> Result<(), FeedError> {
        self.arrivals.bytes();
        self.feed(|intake, _| intake.feed_list(chunk, &self.store))
    }

    /// Note the end of a page.
    ///
    /// # Errors
    /// The page is incomplete, or is not a list.
    pub fn end_page(&self) -> Result<ListMeta, DecodeError> {
        self.feed(|intake, _| intake.end_page())
    }

    /// Make the staged objects the whole content: the next `process` notifies handlers of the difference. Those of
    /// [`SharedInformer::begin_range`] are added to it.
    ///
    /// # Errors
    /// The budget has no room for the list beside what the store holds. If it has room without what is gone, the next
    /// `process` drops that, and the list has to be requested again.
    pub fn replace(&self, resource_version: &str) -> Result<(), OverBudget> {
        self.feed(|intake, events| {
            if intake.is_adding() {
                return self.add_range(intake, resource_version);
            }
            let list = intake.take_staged(resource_version, &self.store);
            let over = list.is_incomplete.then(|| OverBudget {
                made_room: list.drops_any(&self.store),
                ..self.account.over_budget(self.store.len())
            });
            if let Some(events) = events {
                events.replace(&list.objects, intake.resource_version());
            }
            self.fifo.replace(list.objects, Some(&*self.store), true);
            self.counters.relists.add(usize::from(over.is_none()));
            over.map_or(Ok(()), Err)
        })
    }

    /// Take more of a watch stream: deltas for `process`, or staged objects between `begin_list` and `replace`.
    ///
    /// # Errors
    /// A frame is malformed, or its object does not fit into the budget. The frames before it were taken.
    pub fn feed_watch(&self, chunk: &[u8]) -> Result<WatchProgress, FeedError> {
        self.arrivals.bytes();
        let progress =
            self.feed(|intake, events| intake.feed_watch(chunk, &self.store, &self.fifo, events))?;
        if progress.events > 0 {
            self.arrivals.event();
        }
        Ok(WatchProgress {
            damaged: self.packer.take_damaged(),
            ..progress
        })
    }

    /// Note the end of the watch stream.
    ///
    /// # Errors
    /// The stream was cut in the middle of a frame, or as for [`SharedInformer::feed_watch`].
    pub fn end_watch(&self) -> Result<WatchProgress, FeedError> {
        self.feed(|intake, events| intake.end_watch(&self.store, &self.fifo, events))
    }

    /// Update the store and notify the handlers; return the number of keys.
    pub fn process(&self) -> usize {
        let mut processed = 0;
        // A resync that came in between is processed too: the caller finds all of it reached afterwards.
        while {
            processed += self.process_batches();
            !self.record_reached()
        } {}
        self.account.settle(|| self.packer.memory_with(&self.store));
        self.counters.processed.add(processed);
        self.packer.look(&self.store);
        self.freed.count(processed, || self.store.memory().sum());
        processed
    }

    fn process_batches(&self) -> usize {
        let mut processed = 0;
        loop {
            let Some(mut batch) = self.fifo.take_whole(BATCH) else {
                break;
            };
            processed += batch.len();
            let is_list = batch.is_list();
            let mut piece = Vec::with_capacity(BATCH.min(batch.len()));
            let (mut changes, handlers) = self.apply(&mut batch);
            let objects = self.store.len();
            while {
                piece.clear();
                piece.extend(changes.by_ref().take(BATCH));
                !piece.is_empty()
            } {
                let notify = |(one, replayed): &Hearing| one.notify(&piece, *replayed, objects);
                self.counters.merged.add(handlers.iter().map(notify).sum());
                let entered = piece.iter().filter_map(Noted::entered);
                self.packer.entered(&self.store, entered, is_list);
            }
        }
        if !self.synced.load(Ordering::Acquire) && self.fifo.has_synced() {
            let handlers = self.registry.lock().informer_synced();
            for handler in &*handlers {
                handler.notify_synced();
            }
            self.synced.store(true, Ordering::Release);
        }
        processed
    }

    /// Record that everything taken in is in the store, so that this is as current as the stream; return false if
    /// not.
    fn record_reached(&self) -> bool {
        let mut reached = self.reached.lock();
        // Read before the FIFO is: what it had up to this version has been processed then.
        let version = self.input.lock().resource_version.clone();
        if !self.fifo.is_idle() {
            return false;
        }
        if !version.is_empty() {
            self.store.bookmark(&version);
            *reached = version;
        }
        true
    }

    /// Write a batch to the store. Return the changes, and the handlers as of that moment.
    fn apply(&self, batch: &mut Batch<'_>) -> (impl Iterator<Item = Noted> + use<>, Vec<Hearing>) {
        let mut writes = Vec::with_capacity(batch.len());
        let mut sources = Vec::with_capacity(batch.len());
        for popped in batch.take_items() {
            for delta in popped.deltas {
                let key = &popped.key;
                let object = delta.object.object().cloned();
                match (&delta.object, delta.kind, object) {
                    (_, DeltaType::Deleted | DeltaType::Dropped, object) => {
                        let version_of =
                            object.filter(|_| matches!(delta.object, DeltaObject::Live(_)));
                        writes.push(Write::Delete(key.clone(), version_of));
                    }
                    (_, _, Some(object)) => writes.push(Write::Upsert(key.clone(), object)),
                    (_, _, None) => continue,
                }
                let Delta { kind, object } = delta;
                sources.push((key.clone(), kind, object, popped.is_initial));
            }
        }
        let mut prepared = self.store.prepare(writes);
        let (written, handlers) = loop {
            let writing = self.store.writing();
            match writing.commit(prepared, batch.is_list()) {
                Ok(written) => {
                    let handlers = self.registry.lock().handlers();
                    let hearing = |one: &Arc<Attached>| (one.clone(), one.replayed(&writing));
                    break (written, handlers.iter().map(hearing).collect());
                }
                Err(writes) => {
                    drop(writing);
                    prepared = self.store.prepare(writes);
                }
            }
        };
        let changes = sources.into_iter().zip(written);
        let changes = changes.filter_map(|((key, kind, object, initial), written)| {
            let change = match (kind, object, written.old) {
                (DeltaType::Dropped, ..) => return None,
                (DeltaType::Deleted, object, _) => Change::Delete { key, object },
                (_, DeltaObject::Live(new), Some(old)) => Change::Update { old, new },
                (_, DeltaObject::Live(object), None) => Change::Add { object, initial },
                (_, DeltaObject::Tombstone(_), _) => return None,
            };
            Some(Noted {
                change,
                sync: kind == DeltaType::Sync,
                place: written.place.map(|place| place as usize),
            })
        });
        (changes, handlers)
    }

    /// Change one bit of the compressed body of a cached object; return whether it has one. For tests of damage.
    pub fn falsify(&self, key: &str, bit: usize) -> bool {
        self.packer.falsify(&self.store, key, bit)
    }

    /// Stop for good: all handlers are removed, listeners are closed, and no further handlers can be added.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.fifo.close();
        self.account.close();
        let events = self.kept_event_log();
        if let Some(events) = events {
            events.close();
        }
        let closed = self.registry.lock().close();
        for handler in closed {
            handler.remove();
        }
        let idle = self.registry.lock().forget_idle();
        drop(idle);
        self.store.close_deferred();
    }

    /// Return whether a list was ever begun.
    pub fn has_started(&self) -> bool {
        self.started.load(Ordering::Acquire)
    }

    /// Return whether it was stopped.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Return whether the store has the first list and the handlers were notified of all of it; never false again
    /// afterwards.
    pub fn has_synced(&self) -> bool {
        self.synced.load(Ordering::Acquire)
    }

    /// Return the resource version of the store of which all handlers were notified; empty before the first list.
    ///
    /// Data fed since the last `process` does not count, so that the objects of a version returned here are in the
    /// store.
    pub fn last_resource_version(&self) -> String {
        self.reached.lock().clone()
    }
}
