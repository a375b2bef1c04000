//! The engine of an informer: a feed and a resync at the same time, callbacks that call it, and lists as a whole.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, OnceLock, Weak};
use std::time::Instant;

use ctrlhost_core::handlers::{
    Bounds, Listener, MapFunc, Mapping, OwnedRequest, QueueHandler, RequestRef, RequestSink,
};
use ctrlhost_core::informer::{Config, Handler, Resync, SharedInformer, Transform};
use ctrlhost_core::object::Object;
use ctrlhost_core::store::{IndexFailed, IndexFunc, NamespaceIndex, Store, Values};

struct Discard;

impl RequestSink for Discard {
    fn add_requests(&self, _: &[RequestRef<'_>], _: Option<i32>) {}
}

/// Waits at the object `slow`, and so keeps others from reading the state of the intake: from the first barrier to
/// the second.
struct Slow(Arc<Barrier>);

impl Transform for Slow {
    fn apply(&self, object: &Arc<Object>) -> Option<Arc<Object>> {
        if object.name() == "slow" {
            self.0.wait();
            self.0.wait();
        }
        Some(object.clone())
    }
}

fn informer(transform: Slow) -> SharedInformer {
    let config = Config {
        transform: Some(Arc::new(transform)),
        resync: 1.0,
        ..Config::new("pods", "v1", "Pod")
    };
    let informer = SharedInformer::new(config, Arc::new(Store::new()));
    let handler = QueueHandler::new(Arc::new(Discard), Mapping::Object);
    informer.add_handler(Handler::Queue(handler), Resync::Informer, 0.0);
    informer
}

fn pod(name: &str, version: u32) -> String {
    format!(r#"{{"metadata":{{"name":"{name}","namespace":"n","resourceVersion":"{version}"}}}}"#)
}

/// A watch is reopened at the reached version. If that lagged behind the store, it would go back in time.
#[test]
fn the_processed_version_is_reached_despite_a_concurrent_resync() {
    let meeting = Arc::new(Barrier::new(2));
    let informer = informer(Slow(meeting.clone()));
    informer.begin_list();
    informer.replace("1").unwrap();
    informer.process();
    let event = format!("{{\"type\":\"ADDED\",\"object\":{}}}\n", pod("a", 2));
    informer.feed_watch(event.as_bytes()).unwrap();
    std::thread::scope(|threads| {
        threads.spawn(|| {
            informer.begin_list();
            let list = format!("{{\"items\":[{}]}}", pod("slow", 1));
            informer.feed_list(list.as_bytes()).unwrap();
            informer.abort_list();
        });
        meeting.wait();
        let reflector = threads.spawn(|| {
            informer.process();
            informer.last_resource_version()
        });
        while informer.store().is_empty() {
            std::thread::yield_now();
        }
        // One of these comes after everything was processed and before that was recorded.
        for second in 1..=1_000 {
            informer.resync(f64::from(second) * 10.0);
            std::thread::yield_now();
        }
        meeting.wait();
        assert_eq!(reflector.join().unwrap(), "2");
    });
}

/// A map, a transform and an index function that use everything of the informer that callbacks may use. In debug builds
/// each lock asserts its order, and each call beyond the border that no lock is held.
#[derive(Clone, Default)]
struct Reading(Arc<OnceLock<Weak<SharedInformer>>>, Arc<AtomicUsize>);

impl Reading {
    fn read(&self) {
        let Some(informer) = self.0.get().and_then(Weak::upgrade) else {
            return;
        };
        let objects = informer.store().list().len();
        assert_eq!(
            objects,
            informer.store().by_index("namespace", "n").unwrap().len()
        );
        assert!(
            informer
                .stats()
                .counts
                .contains(&("objects", objects as u64))
        );
        assert!(!informer.is_stopped());
        informer.last_resource_version();
        let count = informer.handler_count();
        for _ in 0..2 {
            let handler =
                Handler::Listener(Arc::new(Listener::new(Bounds::merging_from(1024), None)));
            let id = informer.add_handler(handler, Resync::Never, 0.0).unwrap();
            informer.remove_handler(id);
        }
        assert_eq!(informer.handler_count(), count);
        self.1.fetch_add(1, Ordering::Relaxed);
    }
}

impl MapFunc for Reading {
    fn requests(
        &self,
        _: Option<&Arc<Object>>,
        _: Option<&Arc<Object>>,
        _: &dyn Fn() -> bool,
    ) -> Vec<OwnedRequest> {
        self.read();
        Vec::new()
    }
}

impl Transform for Reading {
    fn apply(&self, object: &Arc<Object>) -> Option<Arc<Object>> {
        self.read();
        Some(object.clone())
    }
}

impl IndexFunc for Reading {
    fn values(&self, _: &Arc<Object>) -> Result<Values, IndexFailed> {
        self.read();
        Err(IndexFailed)
    }
}

// behaviour: findings/FQ10
#[test]
fn callbacks_are_called_without_locks_and_may_read_attach_and_remove() {
    let reading = Reading::default();
    let config = Config {
        transform: Some(Arc::new(reading.clone())),
        ..Config::new("pods", "v1", "Pod")
    };
    let store = Store::new();
    let index: Arc<dyn IndexFunc> = Arc::new(reading.clone());
    let namespace: Arc<dyn IndexFunc> = Arc::new(NamespaceIndex);
    store
        .add_indexes(&[("reading".into(), index), ("namespace".into(), namespace)])
        .unwrap();
    let informer = Arc::new(SharedInformer::new(config, Arc::new(store)));
    reading.0.set(Arc::downgrade(&informer)).unwrap();
    let mapping = Mapping::Custom(Arc::new(reading.clone()));
    let handler = QueueHandler::new(Arc::new(Discard), mapping);
    informer.add_handler(Handler::Queue(handler), Resync::Informer, 0.0);
    informer.begin_list();
    let list = format!("{{\"items\":[{}]}}", pod("a", 1));
    informer.feed_list(list.as_bytes()).unwrap();
    informer.end_page().unwrap();
    informer.replace("1").unwrap();
    informer.process();
    informer.resync(10.0);
    let event = format!("{{\"type\":\"MODIFIED\",\"object\":{}}}\n", pod("a", 2));
    informer.feed_watch(event.as_bytes()).unwrap();
    informer.process();
    // Transform, index and map of the list, of the resync, of the event.
    assert!(reading.1.load(Ordering::Relaxed) >= 7);
}

fn relist(informer: &SharedInformer, version: u32, names: impl Iterator<Item = usize>) {
    informer.begin_list();
    let items: Vec<_> = names.map(|name| pod(&format!("p{name}"), 1)).collect();
    let list = format!("{{\"items\":[{}]}}", items.join(","));
    informer.feed_list(list.as_bytes()).unwrap();
    informer.end_page().unwrap();
    informer.replace(&version.to_string()).unwrap();
    informer.process();
}

// behaviour: findings/FQ21
#[test]
fn a_reader_sees_the_old_list_or_the_new_one() {
    const SIZE: usize = 10_000;
    let store = Arc::new(Store::new());
    let namespace: Arc<dyn IndexFunc> = Arc::new(NamespaceIndex);
    store
        .add_indexes(&[("namespace".into(), namespace)])
        .unwrap();
    let informer = SharedInformer::new(Config::new("pods", "v1", "Pod"), store);
    let rounds = AtomicUsize::new(0);
    std::thread::scope(|threads| {
        let reader = threads.spawn(|| {
            let (store, mut seen) = (informer.store(), [false; 2]);
            while rounds.load(Ordering::SeqCst) < 20 || seen != [true; 2] {
                let list = store.list();
                let half = match list.len() {
                    0 => continue,
                    SIZE => 0,
                    len => {
                        assert_eq!(len, SIZE / 2, "part of a list");
                        1
                    }
                };
                seen[half] = true;
                for count in [store.len(), store.by_index("namespace", "n").unwrap().len()] {
                    assert!([SIZE, SIZE / 2].contains(&count), "{count} objects");
                }
            }
        });
        let mut version = 0;
        while !reader.is_finished() {
            version += 1;
            let step = 1 + version as usize % 2;
            relist(&informer, version, (0..SIZE).step_by(step));
            rounds.fetch_add(1, Ordering::SeqCst);
        }
    });
}

/// Calls the informer when it is dropped, as the finalizer of a plugin's map may.
struct Finalized(Weak<SharedInformer>, Arc<AtomicUsize>);

impl RequestSink for Finalized {
    fn add_requests(&self, _: &[RequestRef<'_>], _: Option<i32>) {}
}

impl Drop for Finalized {
    fn drop(&mut self) {
        let handlers = self.0.upgrade().map(|informer| informer.handler_count());
        self.1
            .fetch_add(usize::from(handlers.is_some()), Ordering::SeqCst);
    }
}

// behaviour: findings/FQ9
#[test]
fn the_end_of_a_handler_may_call_the_informer() {
    let informer = Arc::new(SharedInformer::new(
        Config::new("pods", "v1", "Pod"),
        Arc::new(Store::new()),
    ));
    let ended = Arc::<AtomicUsize>::default();
    let add = || {
        let sink = Finalized(Arc::downgrade(&informer), ended.clone());
        let handler = QueueHandler::new(Arc::new(sink), Mapping::Object);
        let handler = Handler::Queue(handler);
        informer.add_handler(handler, Resync::Never, 0.0).unwrap()
    };
    let (one, two, _) = (add(), add(), add());
    informer.remove_handler(one);
    assert!(informer.wait_removed(one, None));
    assert_eq!(ended.load(Ordering::SeqCst), 1);
    informer.remove_handler(two);
    informer.stop();
    assert_eq!(ended.load(Ordering::SeqCst), 3);
}

/// A map that waits for its test, twice.
struct Waiting(Arc<Barrier>);

impl MapFunc for Waiting {
    fn requests(
        &self,
        _: Option<&Arc<Object>>,
        _: Option<&Arc<Object>>,
        _: &dyn Fn() -> bool,
    ) -> Vec<OwnedRequest> {
        self.0.wait();
        self.0.wait();
        Vec::new()
    }
}

// behaviour: findings/FQ9
#[test]
fn the_end_of_a_notification_can_be_awaited_after_a_stop() {
    let store = Arc::new(Store::new());
    let informer = SharedInformer::new(Config::new("pods", "v1", "Pod"), store);
    let meeting = Arc::new(Barrier::new(2));
    let map = Mapping::Custom(Arc::new(Waiting(meeting.clone())));
    let handler = Handler::Queue(QueueHandler::new(Arc::new(Discard), map));
    let id = informer.add_handler(handler, Resync::Never, 0.0).unwrap();
    std::thread::scope(|threads| {
        threads.spawn(|| relist(&informer, 1, 0..1));
        meeting.wait();
        informer.stop();
        let idle = informer.wait_removed(id, Some(Instant::now()));
        // Before the assertion, which would leave the other thread waiting.
        meeting.wait();
        assert!(!idle);
        assert!(informer.wait_removed(id, None));
    });
}

#[test]
fn a_first_list_of_objects_that_are_known_already_syncs() {
    let informer = informer(Slow(Arc::new(Barrier::new(1))));
    relist(&informer, 1, 0..3);
    let again = SharedInformer::new(Config::new("pods", "v1", "Pod"), informer.store().clone());
    relist(&again, 1, 0..3);
    assert!(again.has_synced());
}
