//! Every interleaving, up to a bound, of removals and additions of handlers with the delivery of a change:
//! `cargo test --features loom --test informer_loom`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use ctrlhost_core::handlers::{
    MapFunc, Mapping, OwnedRequest, QueueHandler, RequestRef, RequestSink,
};
use ctrlhost_core::informer::{Config, Handler, HandlerId, Resync, SharedInformer};
use ctrlhost_core::object::Object;
use ctrlhost_core::store::Store;
use loom::thread;

const EVENT: &[u8] = br#"{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"2"}}}
"#;

fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.max_duration = Some(Duration::from_secs(60));
    builder.check(model);
}

fn informer() -> Arc<SharedInformer> {
    let config = Config::new("pods", "v1", "Pod");
    Arc::new(SharedInformer::new(config, Arc::new(Store::new())))
}

/// Counts requests, and fails on any that comes after the removal of its handler.
#[derive(Default)]
struct Sink {
    removed: AtomicBool,
    heard: AtomicUsize,
    /// Removes a handler from inside this callback.
    removes: std::sync::Mutex<Option<(Arc<SharedInformer>, HandlerId)>>,
}

impl RequestSink for Sink {
    fn add_requests(&self, requests: &[RequestRef<'_>], _: Option<i32>) {
        assert!(
            !self.removed.load(Ordering::SeqCst),
            "heard after the removal"
        );
        self.heard.fetch_add(requests.len(), Ordering::SeqCst);
        // A yield, so that removals happen during the call, too.
        thread::yield_now();
        let removes = self
            .removes
            .lock()
            .ok()
            .and_then(|mut removes| removes.take());
        if let Some((informer, id)) = removes {
            informer.remove_handler(id);
        }
    }
}

impl Sink {
    fn attach(self: &Arc<Self>, informer: &SharedInformer) -> HandlerId {
        let handler = QueueHandler::new(self.clone(), Mapping::Object);
        let added = informer.add_handler(Handler::Queue(handler), Resync::Informer, 0.0);
        added.expect("the informer is not stopped")
    }

    fn heard(&self) -> usize {
        self.heard.load(Ordering::SeqCst)
    }
}

fn deliver(informer: &Arc<SharedInformer>) -> thread::JoinHandle<()> {
    let informer = informer.clone();
    thread::spawn(move || {
        informer.feed_watch(EVENT).expect("a good frame");
        informer.process();
    })
}

// behaviour: findings/FQ9
#[test]
fn a_handler_hears_nothing_after_its_removal_has_returned() {
    explore(|| {
        let (informer, sink) = (informer(), Arc::new(Sink::default()));
        let id = sink.attach(&informer);
        let delivery = deliver(&informer);
        informer.remove_handler(id);
        assert!(informer.wait_removed(id, None));
        sink.removed.store(true, Ordering::SeqCst);
        // Again, as after a wait that was interrupted.
        informer.remove_handler(id);
        assert!(informer.wait_removed(id, None));
        delivery.join().expect("no panic");
        assert!(sink.heard() <= 1);
        assert_eq!(informer.handler_count(), 0);
    });
}

// behaviour: findings/FQ9
#[test]
fn two_callbacks_remove_each_other_without_a_deadlock() {
    explore(|| {
        let informer = informer();
        let (one, other) = (Arc::new(Sink::default()), Arc::new(Sink::default()));
        let ids = [one.attach(&informer), other.attach(&informer)];
        *one.removes.lock().expect("no panic") = Some((informer.clone(), ids[1]));
        *other.removes.lock().expect("no panic") = Some((informer.clone(), ids[0]));
        let delivery = deliver(&informer);
        // A third one is attached meanwhile, and is called on this thread.
        let late = Arc::new(Sink::default());
        *late.removes.lock().expect("no panic") = Some((informer.clone(), ids[0]));
        late.attach(&informer);
        delivery.join().expect("no panic");
        // Whichever of the first two is called removes the other.
        assert_eq!((one.heard() + other.heard(), late.heard()), (1, 1));
    });
}

// behaviour: findings/FQ10
#[test]
fn a_handler_that_is_attached_during_a_delivery_hears_each_object_once() {
    explore(|| {
        let (informer, early) = (informer(), Arc::new(Sink::default()));
        early.attach(&informer);
        let delivery = deliver(&informer);
        let late = Arc::new(Sink::default());
        late.attach(&informer);
        delivery.join().expect("no panic");
        assert_eq!((early.heard(), late.heard()), (1, 1));
    });
}

/// Notes the states of which it is told.
#[derive(Default)]
struct States(std::sync::Mutex<Vec<(String, String)>>);

impl MapFunc for States {
    fn requests(
        &self,
        old: Option<&Arc<Object>>,
        new: Option<&Arc<Object>>,
        _: &dyn Fn() -> bool,
    ) -> Vec<OwnedRequest> {
        let version = |object: Option<&Arc<Object>>| {
            object.map_or_else(String::new, |one| one.resource_version().into_owned())
        };
        let name = new.or(old).map(|one| one.name().to_owned());
        let step = format!("{}>{}", version(old), version(new));
        let mut told = self.0.lock().expect("no panic");
        told.push((name.expect("a state"), step));
        Vec::new()
    }
}

// behaviour: scale/SC122
#[test]
fn a_replay_in_pieces_beside_changes_tells_each_object_once_and_never_goes_back() {
    explore(|| {
        let informer = informer();
        let event = |kind, name, version| {
            format!(
                r#"{{"type":"{kind}","object":{{"metadata":{{"name":"{name}","resourceVersion":"{version}"}}}}}}
"#
            )
        };
        let feed = |informer: &SharedInformer, text: String| {
            informer.feed_watch(text.as_bytes()).expect("good frames");
            informer.process();
        };
        // A piece each.
        feed(&informer, event("ADDED", "a", 1) + &event("ADDED", "b", 1));
        let changing = {
            let informer = informer.clone();
            let events = event("MODIFIED", "a", 2) + &event("DELETED", "b", 3);
            thread::spawn(move || feed(&informer, events))
        };
        let states = Arc::new(States::default());
        let sink = Arc::new(Sink::default());
        let handler = QueueHandler::new(sink, Mapping::Custom(states.clone()));
        informer.add_handler(Handler::Queue(handler), Resync::Informer, 0.0);
        changing.join().expect("no panic");
        let told = states.0.lock().expect("no panic");
        let of = |name: &str| -> Vec<&str> {
            let mine = told.iter().filter(|(told, _)| told == name);
            mine.map(|(_, step)| &**step).collect()
        };
        assert!(
            [&[">1", "1>2"][..], &[">2"]].contains(&&*of("a")),
            "{told:?}"
        );
        assert!([&[">1", "3>"][..], &[]].contains(&&*of("b")), "{told:?}");
    });
}
