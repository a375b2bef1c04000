//! The engine of an informer during a feed and a resync at the same time.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::sync::{Arc, Barrier};

use ctrlhost_core::handlers::{Mapping, QueueHandler, RequestRef, RequestSink};
use ctrlhost_core::informer::{Config, Handler, Resync, SharedInformer, Transform};
use ctrlhost_core::object::Object;
use ctrlhost_core::store::Store;

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
    informer.replace("1");
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
