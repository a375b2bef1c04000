//! Allocations of the core: the exact counts that docs/performance.md states.
#![expect(clippy::expect_used, reason = "a test")]

use std::fmt::Write as _;
use std::sync::Arc;

use allocation_counter::{AllocationInfo, measure};
use ctrlhost_core::clock::SystemClock;
use ctrlhost_core::delta_fifo::DeltaFifo;
use ctrlhost_core::handlers::{Mapping, QueueHandler, RequestRef, RequestSink};
use ctrlhost_core::informer::{Config, Handler, Resync, SharedInformer};
use ctrlhost_core::json::path::Path;
use ctrlhost_core::object::{Builder, Object};
use ctrlhost_core::queue::{Options, WorkQueue};
use ctrlhost_core::ratelimit::ItemExponentialFailureRateLimiter;
use ctrlhost_core::store::{IndexFunc, NamespaceIndex, PathIndex, Store};

#[path = "../benches/pods/mod.rs"]
mod pods;

const KEYS: u32 = 1_000;

fn queue(metrics: bool) -> Arc<WorkQueue<u64>> {
    let options = Options {
        metrics,
        ..Options::default()
    };
    WorkQueue::new(
        &options,
        Arc::new(SystemClock),
        Arc::new(ItemExponentialFailureRateLimiter::default()),
    )
}

fn cycles(queue: &WorkQueue<u64>) {
    for key in 0..u64::from(KEYS) {
        queue.lock().add(key, None, "");
        let (taken, _) = queue.lock().take(|key| *key).expect("a key is queued");
        queue
            .limiter()
            .forget(&taken)
            .expect("the limiter never fails");
        queue.lock().done(&taken);
    }
}

fn burst(queue: &WorkQueue<u64>) {
    for _ in 0..2 {
        let mut locked = queue.lock();
        for key in 0..u64::from(KEYS) {
            locked.add(key, None, "");
        }
    }
    let mut locked = queue.lock();
    while let Some((key, _)) = locked.take(|key| *key) {
        locked.done(&key);
    }
}

#[test]
fn a_cycle_of_the_queue_allocates_nothing() {
    for metrics in [false, true] {
        let queue = queue(metrics);
        cycles(&queue);
        assert_eq!(
            measure(|| cycles(&queue)).count_total,
            0,
            "metrics: {metrics}"
        );
    }
}

#[test]
fn a_burst_that_follows_another_allocates_nothing() {
    let queue = queue(true);
    burst(&queue);
    assert_eq!(measure(|| burst(&queue)).count_total, 0);
}

#[test]
fn a_first_burst_allocates_only_as_its_tables_double() {
    let queue = queue(true);
    let counted = measure(|| burst(&queue));
    assert!(counted.count_total <= 32, "{counted:?}");
}

#[test]
fn a_failure_and_its_delay_allocate_nothing_once_the_tables_have_grown() {
    let queue = queue(true);
    let fail = || {
        for key in 0..u64::from(KEYS) {
            queue
                .add_rate_limited(&key, None)
                .expect("the limiter never fails");
            queue.forget(&key).expect("the limiter never fails");
        }
    };
    fail();
    assert_eq!(measure(fail).count_total, 0);
}

fn objects() -> Vec<Arc<Object>> {
    let mut builder = Builder::new("v1", "Pod");
    (0..KEYS)
        .map(|number| {
            let pod = format!(r#"{{"metadata":{{"name":"pod-{number}","namespace":"default"}}}}"#);
            Arc::new(builder.parse(pod.as_bytes()).expect("a pod"))
        })
        .collect()
}

#[test]
fn a_key_of_the_delta_fifo_allocates_once() {
    let objects = objects();
    let fifo = DeltaFifo::new(true);
    let round = || {
        for object in &objects {
            fifo.add(object.key().clone(), object.clone());
            fifo.update(object.key().clone(), object.clone());
        }
        for _ in &objects {
            drop(fifo.take_ready(1));
        }
    };
    round();
    let counted = measure(round).count_total;
    assert_eq!(counted, u64::from(KEYS));
}

struct Discard;

impl RequestSink for Discard {
    fn add_requests(&self, _: &[RequestRef<'_>], _: Option<i32>) {}
}

fn frames(version: u32) -> Vec<u8> {
    let mut text = String::new();
    for number in 0..KEYS {
        let meta =
            format!(r#""name":"pod-{number}","namespace":"default","resourceVersion":"{version}""#);
        let pod = format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{{meta}}},"spec":{{"nodeName":"{version}"}}}}"#
        );
        writeln!(text, r#"{{"type":"MODIFIED","object":{pod}}}"#).expect("text takes all");
    }
    text.into_bytes()
}

/// Return the allocations from the bytes of one event to a queued key.
fn allocations_of_an_event(store: Store) -> u64 {
    let config = Config::new("pods", "v1", "Pod");
    let informer = SharedInformer::new(config, Arc::new(store));
    let handler = QueueHandler::new(Arc::new(Discard), Mapping::Object);
    informer.add_handler(Handler::Queue(handler), Resync::Informer, 0.0);
    let feed = |frames: &[u8]| {
        informer.feed_watch(frames).expect("the frames are good");
        assert_eq!(informer.process(), KEYS as usize);
    };
    feed(&frames(1));
    let next = frames(2);
    let counted = measure(|| feed(&next)).count_total;
    // All events share the allocations of the batch itself.
    let (own, shared) = (counted / u64::from(KEYS), counted % u64::from(KEYS));
    assert!(shared < 40, "{counted} for {KEYS} events");
    own
}

#[test]
fn a_watch_event_to_queued_key_allocates_five_times() {
    assert_eq!(allocations_of_an_event(Store::new()), 5);
}

#[test]
fn the_namespace_index_allocates_nothing_more_for_an_event() {
    let store = Store::new();
    let index: Arc<dyn IndexFunc> = Arc::new(NamespaceIndex);
    store
        .add_indexes(&[("namespace".into(), index)])
        .expect("a new index");
    assert_eq!(allocations_of_an_event(store), 5);
}

/// Return the bytes that a store takes for each object besides the object, with so many indexes by namespace.
fn bytes_of_a_key(indexes: usize) -> i64 {
    let objects = objects();
    let counted = measure(|| {
        let store = Store::new();
        for number in 0..indexes {
            let index: Arc<dyn IndexFunc> = Arc::new(NamespaceIndex);
            let name = number.to_string();
            store
                .add_indexes(&[(name.into(), index)])
                .expect("a new index");
        }
        for object in &objects {
            store.upsert(object.key().clone(), object.clone());
        }
        std::mem::forget(store);
    });
    counted.bytes_current / i64::from(KEYS)
}

// behaviour: findings/FQ14
#[test]
fn the_kept_index_values_take_four_bytes_and_a_reference_of_an_object() {
    let (without, one, four) = (bytes_of_a_key(0), bytes_of_a_key(1), bytes_of_a_key(4));
    // 24 for key and object, 4 for its place, as tables double; then 4 for the value, 4 for the place under the value.
    assert!(without <= 36, "{without} bytes without an index");
    assert!(one - without <= 20, "{} bytes for one index", one - without);
    assert!(
        four - without <= 80,
        "{} bytes for four indexes",
        four - without
    );
}

/// Return a page of pods of about 600 bytes, those of every hundredth with another version.
fn page(pods: usize, version: u32, changed: u32) -> Vec<u8> {
    let pod = |number: usize| {
        let version = if number.is_multiple_of(100) {
            changed
        } else {
            version
        };
        let meta = format!(
            r#""name":"pod-{number}","namespace":"ns-{}","uid":"u{number}","resourceVersion":"{version}""#,
            number % 20
        );
        let fill = "x".repeat(500);
        format!(r#"{{"metadata":{{{meta}}},"spec":{{"nodeName":"{fill}"}}}}"#)
    };
    let items: Vec<_> = (0..pods).map(pod).collect();
    format!(r#"{{"kind":"PodList","items":[{}]}}"#, items.join(",")).into_bytes()
}

fn relist(informer: &SharedInformer, page: &[u8], version: &str) {
    informer.begin_list();
    informer.feed_list(page).expect("a good page");
    informer.end_page().expect("the whole page");
    informer.replace(version).expect("there is no budget");
    informer.process();
}

fn indexed() -> SharedInformer {
    let store = Store::new();
    let index: Arc<dyn IndexFunc> = Arc::new(NamespaceIndex);
    store
        .add_indexes(&[("namespace".into(), index)])
        .expect("a new index");
    let informer = SharedInformer::new(Config::new("pods", "v1", "Pod"), Arc::new(store));
    let handler = QueueHandler::new(Arc::new(Discard), Mapping::Object);
    informer.add_handler(Handler::Queue(handler), Resync::Informer, 0.0);
    informer
}

fn by_key(informer: &SharedInformer) -> Vec<Arc<Object>> {
    let mut all = informer.store().list();
    all.sort_unstable_by(|one, other| one.key().cmp(other.key()));
    all
}

// behaviour: scale/SC104
#[test]
fn a_relist_takes_no_memory_for_what_has_not_changed() {
    const PODS: usize = 100_000;
    let (first, equal, partly) = (page(PODS, 1, 1), page(PODS, 1, 1), page(PODS, 1, 2));
    let informer = indexed();
    let steady = measure(|| relist(&informer, &first, "1"));
    let before = by_key(&informer);
    for (page, changed) in [(&equal, 0), (&partly, PODS / 100)] {
        let counted = measure(|| relist(&informer, page, "2"));
        let after = by_key(&informer);
        let others = before
            .iter()
            .zip(&after)
            .filter(|(one, other)| !Arc::ptr_eq(one, other));
        assert_eq!(others.count(), changed);
        // The keys of the list, while it is compared, and the objects that have changed; the old ones are given back.
        let peak = steady.bytes_current / 5;
        assert!(
            counted.bytes_max <= u64::try_from(peak).expect("memory was taken"),
            "{counted:?}"
        );
        assert!(
            counted.bytes_current <= steady.bytes_current / 50,
            "{counted:?}"
        );
    }
}

/// The counts of the allocator, with its header and the rounding of each block.
fn allocated(counted: &AllocationInfo) -> i64 {
    counted.bytes_current + 16 * counted.count_current
}

// behaviour: scale/SC101
#[test]
fn the_memory_by_part_is_what_the_allocator_counts() {
    const PODS: usize = 50_000;
    let near = |counted: usize, allocated: i64| {
        let counted = i64::try_from(counted).expect("a small number");
        assert!(
            (counted - allocated).abs() <= allocated / 10,
            "{counted} counted, {allocated} allocated"
        );
    };
    // By part: the objects alone, the table beside them, one more index beside both.
    let mut objects = Vec::with_capacity(PODS);
    let counted = measure(|| {
        let mut builder = Builder::new("v1", "Pod");
        for number in 0..PODS {
            let pod = pods::pod(number, number, false);
            objects.push(Arc::new(builder.parse(pod.as_bytes()).expect("a pod")));
        }
    });
    let sizes = objects.iter().map(|object| object.memory());
    let (headers, bodies) = sizes.fold((0, 0), |(headers, bodies), one| {
        (headers + one.header, bodies + one.body)
    });
    near(headers + bodies, allocated(&counted));
    let texts: usize = objects
        .iter()
        .map(|object| object.json().expect("a plain body").len())
        .sum();
    near(bodies, i64::try_from(texts).expect("a small number"));

    let store = Store::new();
    let counted = measure(|| {
        for object in &objects {
            store.upsert(object.key().clone(), object.clone());
        }
    });
    near(store.memory().table, allocated(&counted));
    let path = Path::parse("spec.nodeName").expect("a path");
    let indexes: [Arc<dyn IndexFunc>; 2] = [Arc::new(NamespaceIndex), Arc::new(PathIndex(path))];
    let counted = measure(|| {
        for (name, index) in ["namespace", "node"].into_iter().zip(indexes) {
            let added = store.add_indexes(&[(name.into(), index)]);
            added.expect("a new index");
        }
    });
    near(store.memory().index, allocated(&counted));
    assert_eq!(store.memory().dictionary, 0);
    drop((store, objects));

    // All of it, of an informer; what is in the list so far counts.
    let informer = indexed();
    let counted = measure(|| {
        informer.begin_list();
        for first in (0..PODS).step_by(500) {
            let page = pods::page(first..first + 500, false);
            informer.feed_list(page.as_bytes()).expect("a good page");
            informer.end_page().expect("the whole page");
        }
    });
    near(informer.stats().memory.sum(), allocated(&counted));
    let rest = measure(|| {
        informer.replace("1").expect("there is no budget");
        informer.process();
    });
    near(
        informer.stats().memory.sum(),
        allocated(&counted) + allocated(&rest),
    );
}

/// Begin a list, take `pods` by `feed`, a hundred at a time, and make them the content.
fn first_list(pods: usize, feed: impl Fn(&SharedInformer, std::ops::Range<usize>)) -> (u64, i64) {
    let informer = indexed();
    let counted = measure(|| {
        informer.begin_list();
        for first in (0..pods).step_by(100) {
            feed(&informer, first..first + 100);
        }
        informer.replace("1").expect("there is no budget");
        informer.process();
    });
    assert_eq!(informer.store().len(), pods);
    (counted.bytes_max, counted.bytes_current)
}

// behaviour: scale/SC103
#[test]
fn a_first_list_takes_hardly_more_than_what_it_leaves() {
    const PODS: usize = 100_000;
    let pages = first_list(PODS, |informer, numbers| {
        let page = pods::page(numbers, false);
        informer.feed_list(page.as_bytes()).expect("a good page");
        informer.end_page().expect("the whole page");
    });
    let stream = first_list(PODS, |informer, numbers| {
        for number in numbers {
            let frame = pods::frame(number, number, false);
            informer.feed_watch(frame.as_bytes()).expect("a good frame");
        }
    });
    for (peak, steady) in [pages, stream] {
        let steady = u64::try_from(steady).expect("memory was taken");
        assert!(peak <= steady + steady / 5, "{peak} at most, {steady} left");
    }
}

// behaviour: scale/SC105
#[test]
fn a_store_that_has_become_empty_takes_as_much_as_a_new_one() {
    let (full, empty) = (page(100_000, 1, 1), page(0, 1, 1));
    let informer = indexed();
    let counted = measure(|| {
        relist(&informer, &full, "1");
        relist(&informer, &empty, "2");
    });
    assert_eq!(informer.store().len(), 0);
    assert!(counted.bytes_current < 500_000, "{counted:?}");
    // By events, too.
    let counted = measure(|| {
        relist(&informer, &full, "3");
        for number in 0..100_000 {
            let meta = format!(r#""name":"pod-{number}","namespace":"ns-{}""#, number % 20);
            let event =
                format!("{{\"type\":\"DELETED\",\"object\":{{\"metadata\":{{{meta}}}}}}}\n");
            informer.feed_watch(event.as_bytes()).expect("a good frame");
        }
        informer.process();
    });
    assert_eq!(informer.store().len(), 0);
    assert!(counted.bytes_current < 500_000, "{counted:?}");
}
