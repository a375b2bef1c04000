//! A panic in a call out of the core: the next call neither waits for ever nor loses anything.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ctrlhost_core::clock::SystemClock;
use ctrlhost_core::delta_fifo::{DeltaFifo, KnownObjects, Taken};
use ctrlhost_core::handlers::{Mapping, QueueHandler, RequestRef, RequestSink};
use ctrlhost_core::informer::{Config, Handler, Resync, SharedInformer};
use ctrlhost_core::key::{KeyRef, QueueKey};
use ctrlhost_core::object::{Builder, Key, Object};
use ctrlhost_core::queue::{Options, WorkQueue};
use ctrlhost_core::ratelimit::{LimiterError, RateLimiter};
use ctrlhost_core::store::Store;

/// Panics while it is set.
#[derive(Clone, Default)]
struct Fault(Arc<AtomicBool>);

impl Fault {
    fn set(&self, panics: bool) {
        self.0.store(panics, Ordering::Relaxed);
    }

    fn check(&self) {
        assert!(!self.0.load(Ordering::Relaxed), "injected");
    }
}

/// Assert that the call panics with the injected panic.
fn assert_panics(call: impl FnOnce()) {
    let panic = catch_unwind(AssertUnwindSafe(call)).unwrap_err();
    let text = panic.downcast_ref::<&str>().copied();
    assert_eq!(text, Some("injected"));
}

fn objects(names: &[&str]) -> Vec<(Key, Arc<Object>)> {
    let mut builder = Builder::new("v1", "Pod");
    let mut make = |name: &&str| {
        let text = format!(r#"{{"metadata":{{"name":"{name}"}}}}"#);
        let object = Arc::new(builder.parse(text.as_bytes()).unwrap());
        (object.key().clone(), object)
    };
    names.iter().map(&mut make).collect()
}

/// Take one key without a wait.
fn take(fifo: &DeltaFifo) -> Option<Key> {
    match fifo.take(1, Some(Instant::now())) {
        Taken::Items(batch) => Some(batch[0].key.clone()),
        Taken::Closed | Taken::TimedOut => None,
    }
}

// behaviour: findings/FQ19
#[test]
fn a_batch_whose_processing_panics_is_finished() {
    let fifo = DeltaFifo::new(true);
    for (key, object) in objects(&["a", "b"]) {
        fifo.add(key, object);
    }
    assert_panics(|| {
        let batch = fifo.take_ready(1);
        assert!(batch.is_none(), "injected");
    });
    assert_eq!(fifo.len(), 1);
    assert_eq!(take(&fifo).as_deref(), Some("b"));
    assert!(fifo.is_idle());
}

struct Known(Fault);

impl KnownObjects for Known {
    fn list_keys(&self) -> Option<Vec<Key>> {
        self.0.check();
        Some(Vec::new())
    }

    fn get_by_key(&self, _key: &str) -> Option<Arc<Object>> {
        None
    }
}

// behaviour: findings/FQ19
#[test]
fn a_comparison_that_panics_is_over() {
    let (fifo, known) = (DeltaFifo::new(true), Known(Fault::default()));
    let list = objects(&["a", "b"]);
    fifo.add(list[0].0.clone(), list[0].1.clone());
    known.0.set(true);
    assert_panics(|| fifo.replace(list.clone(), Some(&known), false));
    assert_panics(|| fifo.resync(&known));
    known.0.set(false);
    assert_eq!(take(&fifo).as_deref(), Some("a"));
    fifo.replace(list, Some(&known), false);
    assert_eq!(fifo.len(), 2);
}

struct Sink(Fault);

impl RequestSink for Sink {
    fn add_requests(&self, _: &[RequestRef<'_>], _: Option<i32>) {
        self.0.check();
    }
}

// behaviour: findings/FQ19
#[test]
fn an_informer_processes_the_next_change_after_a_handler_panicked() {
    let informer = Arc::new(SharedInformer::new(
        Config::new("pods", "v1", "Pod"),
        Arc::new(Store::new()),
    ));
    let fault = Fault::default();
    let handler = QueueHandler::new(Arc::new(Sink(fault.clone())), Mapping::Object);
    informer.add_handler(Handler::Queue(handler), Resync::Informer, 0.0);
    let event = |name: &str, version: u32| {
        let metadata = format!(r#"{{"name":"{name}","resourceVersion":"{version}"}}"#);
        let event = format!("{{\"type\":\"ADDED\",\"object\":{{\"metadata\":{metadata}}}}}\n");
        informer.feed_watch(event.as_bytes()).unwrap();
    };
    informer.begin_list();
    informer.replace("1").unwrap();
    informer.process();
    fault.set(true);
    event("a", 2);
    assert_panics(|| {
        informer.process();
    });
    fault.set(false);
    event("b", 3);
    // In a thread, so that a wait for ever fails the test.
    let (send, receive) = std::sync::mpsc::channel();
    let processing = informer.clone();
    std::thread::spawn(move || send.send(processing.process()));
    assert_eq!(receive.recv_timeout(Duration::from_secs(20)), Ok(1));
    assert_eq!(informer.store().keys().len(), 2);
}

/// A key whose hash and comparison panic.
#[derive(Clone)]
struct Fragile(u64, Fault);

impl PartialEq for Fragile {
    fn eq(&self, other: &Self) -> bool {
        self.1.check();
        self.0 == other.0
    }
}

impl Eq for Fragile {}

impl QueueKey for Fragile {
    fn hash64(&self) -> u64 {
        0
    }

    fn content(&self) -> Self {
        self.clone()
    }
}

struct Limiter(Fault);

impl RateLimiter<Fragile> for Limiter {
    fn when(&self, _key: &dyn KeyRef<Fragile>) -> Result<Duration, LimiterError> {
        self.0.check();
        Ok(Duration::ZERO)
    }
}

// behaviour: findings/FQ19
#[test]
fn a_queue_works_on_after_a_panic_of_its_limiter_and_of_a_comparison() {
    let (limits, compares) = (Fault::default(), Fault::default());
    let queue = WorkQueue::new(
        &Options::default(),
        Arc::new(SystemClock),
        Arc::new(Limiter(limits.clone())),
    );
    let key = |number| Fragile(number, compares.clone());
    queue.lock().add(key(1), None, "");
    limits.set(true);
    assert_panics(|| drop(queue.add_rate_limited(&key(2), None)));
    assert_panics(|| drop(queue.add_rate_limited(&key(2), None)));
    assert_eq!(queue.lock().known(), 1);
    limits.set(false);
    compares.set(true);
    assert_panics(|| drop(queue.lock().add(key(2), None, "")));
    assert_panics(|| drop(queue.lock().done(&key(1))));
    compares.set(false);
    queue.add_rate_limited(&key(2), None).unwrap();
    for expected in [1, 2] {
        let (taken, _) = queue.get(None, |key| key.0).unwrap();
        assert_eq!(taken, expected);
        queue.lock().done(&key(expected));
    }
    assert_eq!(queue.lock().known(), 0);
}
