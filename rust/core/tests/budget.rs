//! The memory budget of informers: what fits, what ends, and what is given back.
#![expect(clippy::expect_used, reason = "a test")]

use std::sync::{Arc, Mutex};

use ctrlhost_core::budget::{Budget, OverBudget};
use ctrlhost_core::handlers::{Mapping, QueueHandler, RequestRef, RequestSink};
use ctrlhost_core::informer::{Config, FeedError, Handler, Resync, SharedInformer};
use ctrlhost_core::store::{IndexFunc, NamespaceIndex, Store};

const LIMIT: u64 = 1 << 20;
/// The most by which the limit is exceeded: one buffer and one object.
const BEYOND: u64 = (256 << 10) + SIZE as u64;
/// A pod is a little larger.
const SIZE: usize = 2_000;

#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl RequestSink for Heard {
    fn add_requests(&self, requests: &[RequestRef<'_>], _: Option<i32>) {
        let mut heard = self.0.lock().expect("no panic");
        heard.extend(requests.iter().map(|one| one.name.to_owned()));
    }
}

impl Heard {
    fn take(&self) -> Vec<String> {
        let mut heard = std::mem::take(&mut *self.0.lock().expect("no panic"));
        heard.sort_unstable();
        heard
    }
}

struct Rig {
    informer: SharedInformer,
    heard: Arc<Heard>,
}

fn rig(budget: &Arc<Budget>) -> Rig {
    let store = Store::new();
    let index: Arc<dyn IndexFunc> = Arc::new(NamespaceIndex);
    let added = store.add_indexes(&[("namespace".into(), index)]);
    added.expect("a new index");
    let config = Config {
        budget: Some(budget.clone()),
        ..Config::new("pods", "v1", "Pod")
    };
    let informer = SharedInformer::new(config, Arc::new(store));
    let heard = Arc::<Heard>::default();
    let handler = QueueHandler::new(heard.clone(), Mapping::Object);
    informer.add_handler(Handler::Queue(handler), Resync::Informer, 0.0);
    Rig { informer, heard }
}

fn pod(name: usize, version: usize) -> String {
    let meta = format!(
        r#""name":"pod-{name:04}","namespace":"a","uid":"u{name}","resourceVersion":"{version}""#
    );
    let fill = "x".repeat(SIZE);
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{{meta}}},"spec":{{"nodeName":"{fill}"}}}}"#
    )
}

impl Rig {
    fn list(&self, pods: impl Iterator<Item = (usize, usize)>) -> Result<(), FeedError> {
        let items: Vec<_> = pods.map(|(name, version)| pod(name, version)).collect();
        let page = format!(r#"{{"kind":"PodList","items":[{}]}}"#, items.join(","));
        self.informer.begin_list();
        for piece in page.as_bytes().chunks(64 << 10) {
            self.informer.feed_list(piece)?;
        }
        self.informer.end_page().expect("the whole page");
        let replaced = self.informer.replace("9000");
        self.informer.process();
        Ok(replaced?)
    }

    fn event(&self, kind: &str, name: usize, version: usize) -> Result<(), FeedError> {
        let pod = pod(name, version);
        let frame = format!("{{\"type\":\"{kind}\",\"object\":{pod}}}\n");
        let fed = self.informer.feed_watch(frame.as_bytes());
        self.informer.process();
        fed.map(drop)
    }

    fn held(&self) -> u64 {
        self.informer.stats().memory.sum() as u64
    }
}

fn over(result: Result<(), FeedError>) -> OverBudget {
    match result {
        Err(FeedError::OverBudget(over)) => over,
        other => panic!("{other:?}"),
    }
}

// behaviour: scale/SC109
#[test]
fn a_first_list_that_does_not_fit_ends_and_gives_everything_back() {
    let budget = Arc::new(Budget::new(LIMIT));
    let (rig, other) = (rig(&budget), rig(&budget));
    let refused = over(rig.list((0..1_000).map(|name| (name, 1))));
    // A pod takes 2.3 KB with its header and its share of the tables.
    assert!((400..500).contains(&refused.objects), "{refused:?}");
    assert_eq!((refused.limit, refused.made_room), (LIMIT, false));
    assert_eq!((budget.used(), rig.held()), (0, 0));
    assert!(rig.informer.store().is_empty() && !rig.informer.has_synced());
    assert_eq!(rig.heard.take(), Vec::<String>::new());
    other.list((0..100).map(|name| (name, 1))).expect("it fits");
    assert_eq!(other.heard.take().len(), 100);
    assert_eq!(budget.used(), other.held());
}

#[test]
fn the_use_is_what_the_informers_hold_until_they_end() {
    let budget = Arc::new(Budget::new(LIMIT));
    let (one, two) = (rig(&budget), rig(&budget));
    one.list((0..100).map(|name| (name, 1))).expect("it fits");
    two.list((0..200).map(|name| (name, 1))).expect("it fits");
    for name in 0..50 {
        one.event("DELETED", name, 9_001 + name).expect("less");
        two.event("MODIFIED", name, 9_001 + name).expect("as much");
        two.event("ADDED", 500 + name, 9_100 + name)
            .expect("it fits");
    }
    assert_eq!(budget.used(), one.held() + two.held());
    assert_eq!(
        (one.informer.store().len(), two.informer.store().len()),
        (50, 250)
    );
    one.informer.stop();
    one.informer.process();
    assert_eq!(budget.used(), two.held());
    drop(one);
    assert_eq!(budget.used(), two.held());
    drop(two);
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_warning_is_due_once_from_eighty_percent_on() {
    let budget = Arc::new(Budget::new(LIMIT));
    let rig = rig(&budget);
    rig.list((0..330).map(|name| (name, 1))).expect("it fits");
    assert!(!budget.take_warning());
    for name in 330..420 {
        rig.event("ADDED", name, 9_001 + name).expect("it fits");
    }
    assert!(budget.take_warning());
    assert!(!budget.take_warning());
}

// behaviour: scale/SC110
#[test]
fn a_cache_that_grows_over_the_budget_stays_as_of_the_last_version_that_fitted() {
    let budget = Arc::new(Budget::new(LIMIT));
    let rig = rig(&budget);
    rig.list((0..400).map(|name| (name, 1))).expect("it fits");
    rig.heard.take();
    let fitted = (400..500)
        .find(|name| rig.event("ADDED", *name, 9_001 + name).is_err())
        .expect("the budget ends");
    assert_eq!(rig.heard.take().len(), fitted - 400);
    assert!(rig.informer.has_synced());
    // Complete as of that version, of which the server has more.
    assert_eq!(rig.informer.store().len(), fitted);
    let last = (9_000 + fitted).to_string();
    assert_eq!(rig.informer.last_resource_version(), last);
    assert!(budget.used() <= LIMIT + BEYOND);

    // The content is not touched by a list that does not fit, whatever it lacks.
    let refused = over(rig.list((10..1_000).map(|name| (name, 1))));
    assert!(!refused.made_room);
    assert_eq!(rig.informer.store().len(), fitted);
    assert_eq!(rig.heard.take(), Vec::<String>::new());
    assert_eq!(budget.used(), rig.held());

    // A list that fits without what is gone drops this first, and is complete at the second attempt.
    let server =
        || (100..fitted + 50).map(|name| (name, if name < 400 { 1 } else { 9_001 + name }));
    let refused = over(rig.list(server()));
    assert!(refused.made_room);
    assert_eq!(rig.informer.last_resource_version(), last);
    let first = rig.heard.take();
    rig.list(server()).expect("there is room");
    let mut heard = [first, rig.heard.take()].concat();
    heard.sort_unstable();
    let differences = (0..100).chain(fitted..fitted + 50);
    let differences: Vec<_> = differences.map(|name| format!("pod-{name:04}")).collect();
    assert_eq!(heard, differences);
    assert_eq!(rig.informer.store().len(), fitted - 50);
    assert_eq!(rig.informer.last_resource_version(), "9000");
    assert_eq!(budget.used(), rig.held());
}

// behaviour: scale/SC111
#[test]
fn the_informer_whose_event_does_not_fit_waits_and_the_others_go_on() {
    let budget = Arc::new(Budget::new(LIMIT));
    let rigs: Vec<_> = (0..5).map(|_| rig(&budget)).collect();
    for rig in &rigs {
        rig.list((0..80).map(|name| (name, 1))).expect("it fits");
    }
    // All at once.
    std::thread::scope(|scope| {
        for rig in &rigs {
            scope.spawn(|| {
                (80..200)
                    .take_while(|name| rig.event("ADDED", *name, 9_001 + name).is_ok())
                    .count()
            });
        }
    });
    let sum = || rigs.iter().map(Rig::held).sum::<u64>();
    assert!(sum() <= LIMIT + BEYOND, "{}", sum());
    assert!(sum() >= LIMIT - LIMIT / 20, "{}", sum());
    assert_eq!(budget.used(), sum());
    let [first, rest @ ..] = &rigs[..] else {
        panic!("five informers");
    };
    over(first.event("ADDED", 999, 9_999));
    let before = first.informer.store().len();
    for rig in rest {
        // As large as before, and smaller.
        rig.event("MODIFIED", 7, 9_001).expect("it fits");
        rig.event("DELETED", 8, 9_002).expect("it fits");
    }
    assert_eq!(first.informer.store().len(), before);
    first
        .event("ADDED", 999, 9_999)
        .expect("the others made room");
}

// behaviour: findings3/NO14
#[test]
fn a_limit_that_changes_is_that_of_the_next_object_and_warns_again() {
    let budget = Arc::new(Budget::new(LIMIT));
    let rig = rig(&budget);
    over(rig.list((0..1_000).map(|name| (name, 1))));
    budget.set_limit(4 * LIMIT);
    rig.list((0..1_000).map(|name| (name, 1)))
        .expect("room for all");
    assert!(!budget.take_warning());
    budget.set_limit(LIMIT);
    assert_eq!((budget.limit(), budget.used()), (LIMIT, rig.held()));
    assert!(budget.used() > LIMIT && budget.take_warning() && !budget.take_warning());
    over(rig.event("ADDED", 1_000, 2));
    assert_eq!(rig.informer.store().len(), 1_000);
    budget.set_limit(4 * LIMIT);
    rig.event("ADDED", 1_000, 2).expect("room again");
}
