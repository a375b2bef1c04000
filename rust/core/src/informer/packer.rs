//! Compressing the objects of an informer: when to learn a dictionary, and which objects to compress with it.
//!
//! Nothing waits for a dictionary: objects stay plain until it is there. From then on objects are compressed as they
//! come, and a sweep compresses those that came before.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;

use super::Config;
use crate::budget::Account;
use crate::compress::{Codec, Compression, Samples};
use crate::event_log::EventLog;
use crate::memory::release;
use crate::object::{BodyKind, Object};
use crate::store::{Store, Twins};
use crate::sync::Mutex;

/// An informer with more objects than this, and more bytes of them, compresses by itself.
const MANY: usize = 1_000;
const MUCH: usize = 4 << 20;
/// Objects that are compressed before others may write to the store again.
pub(super) const CHUNK: usize = 256;

/// See the module.
pub(super) struct Packer {
    compression: Compression,
    sides: [Side; 2],
    /// The number of objects from which on they are looked at again, for another encoding to learn.
    next_look: AtomicUsize,
    /// Objects entered the store plain that might be compressed.
    unswept: AtomicBool,
    /// The damaged objects that were reported.
    reported: AtomicU64,
    account: Arc<Account>,
    events: Arc<Mutex<Weak<EventLog>>>,
}

/// What is known of one encoding.
#[derive(Default)]
struct Side {
    learning: AtomicBool,
    /// None if it does not pay.
    codec: OnceLock<Option<Arc<Codec>>>,
}

/// Counts since the informer was created, and what dictionaries take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Packed {
    pub(super) dictionaries: u64,
    pub(super) dictionary_bytes: usize,
    pub(super) given_up: u64,
    pub(super) decompressions: u64,
    pub(super) damaged: u64,
}

impl Packer {
    pub(super) fn new(
        config: &Config,
        account: Arc<Account>,
        events: Arc<Mutex<Weak<EventLog>>>,
    ) -> Self {
        // A dictionary outlives the objects from which it was learnt.
        let secret = config.api_version == "v1" && config.kind == "Secret";
        Self {
            compression: if secret {
                Compression::Off
            } else {
                config.compression
            },
            sides: Default::default(),
            next_look: AtomicUsize::new(0),
            unswept: AtomicBool::new(false),
            reported: AtomicU64::new(0),
            account,
            events,
        }
    }

    fn side(&self, kind: BodyKind) -> &Side {
        let [json, proto] = &self.sides;
        match kind {
            BodyKind::Json => json,
            BodyKind::Proto => proto,
        }
    }

    /// Return the object compressed; None if it stays as it is.
    pub(super) fn pack(&self, object: &Object) -> Option<Arc<Object>> {
        self.packed(object).map(Arc::new)
    }

    /// Return the object compressed, as one that has nothing in common with the plain one.
    ///
    /// Plain objects are allocated one after the other, so that a key that stays would keep the pages around it.
    pub(super) fn pack_apart(&self, object: &Object) -> Option<Arc<Object>> {
        let packed = self.packed(object)?.with_own_key();
        Some(Arc::new(packed))
    }

    fn packed(&self, object: &Object) -> Option<Object> {
        if self.compression == Compression::Off || object.is_packed() {
            return None;
        }
        let codec = self.side(object.body_kind()).codec.get()?.as_ref()?;
        object.pack(codec)
    }

    /// Return whether objects are compressed now.
    pub(super) fn is_ready(&self) -> bool {
        let mut codecs = self.sides.iter().map(|side| side.codec.get());
        codecs.any(|codec| codec.is_some_and(Option::is_some))
    }

    /// Return whether a dictionary is to be learnt from so many staged objects.
    pub(super) fn wants(&self, objects: usize, bytes: usize) -> bool {
        self.has_enough(objects, bytes)
            && self.sides.iter().any(Side::is_new)
            && objects >= self.next_look.load(Ordering::Relaxed)
    }

    /// Compress objects that have entered the store; what handlers got stays plain. Those of a list are left to a sweep:
    /// they are many.
    pub(super) fn entered<'a>(
        &self,
        store: &Store,
        objects: impl Iterator<Item = &'a Arc<Object>>,
        is_list: bool,
    ) {
        if self.compression == Compression::Off {
            return;
        }
        if is_list {
            self.next_look.store(0, Ordering::Relaxed);
        }
        if is_list || !self.is_ready() {
            self.unswept.store(true, Ordering::SeqCst);
        } else {
            self.settle(store, objects, Self::pack);
        }
    }

    /// Begin what the content of the store asks for: a sweep, or learning.
    pub(super) fn look(self: &Arc<Self>, store: &Arc<Store>) {
        if self.compression == Compression::Off {
            return;
        }
        if self.is_ready() && self.unswept.swap(false, Ordering::SeqCst) {
            let (this, store) = (self.clone(), Arc::downgrade(store));
            if !spawn(move || this.sweep(&store)) {
                self.unswept.store(true, Ordering::SeqCst);
            }
        }
        if !self.sides.iter().any(Side::is_new) {
            return;
        }
        let objects = store.len();
        if self.has_enough(objects, store.sizes().plain)
            && objects >= self.next_look.load(Ordering::Relaxed)
        {
            let all = store.list();
            self.learn(&all.iter().collect::<Vec<_>>(), store);
        }
    }

    /// Return whether so many objects, with so many bytes, are to be compressed.
    fn has_enough(&self, objects: usize, bytes: usize) -> bool {
        match self.compression {
            Compression::Off => false,
            Compression::Auto => objects > MANY && bytes > MUCH,
            Compression::On => objects >= Samples::LEAST,
        }
    }

    /// Learn from these objects, in each encoding of which there are enough, on a thread that sweeps the store then.
    /// They are not looked at again before there are a quarter more.
    pub(super) fn learn(self: &Arc<Self>, objects: &[&Arc<Object>], store: &Arc<Store>) {
        let count = objects.len();
        self.next_look.store(count + count / 4, Ordering::Relaxed);
        for kind in [BodyKind::Json, BodyKind::Proto] {
            let side = self.side(kind);
            if !side.is_new() {
                continue;
            }
            let of_kind = objects.iter().filter(|object| object.body_kind() == kind);
            let bodies: Vec<_> = of_kind.filter_map(|object| object.sample()).collect();
            let Some(samples) = Samples::draw(&bodies) else {
                continue;
            };
            if side.learning.swap(true, Ordering::SeqCst) {
                continue;
            }
            let (this, store) = (self.clone(), Arc::downgrade(store));
            let begun = spawn(move || {
                let codec = Codec::learn(&samples).map(Arc::new);
                drop(samples);
                let pays = codec.is_some();
                let _ = this.side(kind).codec.set(codec);
                if pays {
                    this.unswept.store(false, Ordering::SeqCst);
                    this.sweep(&store);
                }
            });
            if !begun {
                side.learning.store(false, Ordering::SeqCst);
            }
        }
    }

    /// Compress what is plain in the store and in the event log.
    fn sweep(&self, store: &Weak<Store>) {
        let mut from = Some(0);
        while let (Some(at), Some(store)) = (from, store.upgrade()) {
            let (objects, next) = store.writing().piece(at, CHUNK);
            self.settle(&store, objects.iter(), Self::pack_apart);
            from = next;
        }
    }

    /// Learn from these objects unless it was tried before; return whether a dictionary is coming.
    pub(super) fn learn_early(
        self: &Arc<Self>,
        objects: &[&Arc<Object>],
        store: &Arc<Store>,
    ) -> bool {
        if self.compression != Compression::Off {
            self.learn(objects, store);
        }
        self.sides.iter().any(Side::is_learning)
    }

    /// Compress those of the objects that are in the store.
    fn settle<'a>(
        &self,
        store: &Store,
        objects: impl Iterator<Item = &'a Arc<Object>>,
        pack: fn(&Self, &Object) -> Option<Arc<Object>>,
    ) {
        let twins = objects.filter_map(|object| Some((object.clone(), pack(self, object)?)));
        self.exchange(store, &twins.collect::<Vec<_>>());
    }

    fn exchange(&self, store: &Store, twins: &[Twins]) {
        if twins.is_empty() {
            return;
        }
        store.exchange(twins);
        self.account.recount(|| self.memory_with(store));
        let events = self.events.lock().upgrade();
        if let Some(events) = events {
            events.exchange(twins);
        }
    }

    /// Change one bit of the compressed body of an object of the store; return whether it has one.
    pub(super) fn falsify(&self, store: &Store, key: &str, bit: usize) -> bool {
        let twins = || {
            let object = store.get(key)?;
            let falsified = object.falsified(bit)?;
            Some((object, Arc::new(falsified)))
        };
        twins().is_some_and(|twins| {
            self.exchange(store, &[twins]);
            true
        })
    }

    /// Return how many damaged objects were found since the last call.
    pub(super) fn take_damaged(&self) -> u64 {
        let damaged = self.counts().damaged;
        damaged.saturating_sub(self.reported.swap(damaged, Ordering::Relaxed))
    }

    /// Return what the objects of the store take with the dictionaries.
    pub(super) fn memory_with(&self, store: &Store) -> usize {
        store.memory().sum() + self.counts().dictionary_bytes
    }

    pub(super) fn counts(&self) -> Packed {
        let mut counts = Packed::default();
        for codec in self.sides.iter().filter_map(|side| side.codec.get()) {
            let Some(codec) = codec else {
                counts.given_up += 1;
                continue;
            };
            counts.dictionaries += 1;
            counts.given_up += u64::from(!codec.pays());
            counts.dictionary_bytes += codec.memory();
            counts.decompressions += codec.decompressions();
            counts.damaged += codec.damaged();
        }
        counts
    }
}

impl Side {
    /// Return whether it was never tried to learn.
    fn is_new(&self) -> bool {
        !self.learning.load(Ordering::SeqCst)
    }

    fn is_learning(&self) -> bool {
        !self.is_new() && self.codec.get().is_none()
    }
}

/// Run on a thread of its own, which returns the memory that it has freed to the system; return false if there can be
/// none, so that nothing is compressed now.
fn spawn(work: impl FnOnce() + Send + 'static) -> bool {
    let thread = thread::Builder::new().name("ctrlhost-pack".to_owned());
    let spawned = thread.spawn(move || {
        work();
        release();
    });
    spawned.is_ok()
}
