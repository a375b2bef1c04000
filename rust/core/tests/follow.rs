//! Following a watch from the bytes of a stream to the handler of a queue.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use ctrlhost_core::handlers::{Mapping, QueueHandler, RequestRef, RequestSink};
use ctrlhost_core::informer::{
    Config, FollowError, Handler, Received, Resync, SharedInformer, Source,
};
use ctrlhost_core::store::Store;
use parking_lot::Mutex;

const LONG: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Names(Mutex<Vec<String>>);

impl RequestSink for Names {
    fn add_requests(&self, requests: &[RequestRef<'_>], _: Option<i32>) {
        let names = requests.iter().map(|request| request.name.to_owned());
        self.0.lock().extend(names);
    }
}

type Step = Result<Received<Vec<u8>>, &'static str>;

/// What a stream gives, one after the other; then nothing.
#[derive(Default)]
struct Script(RefCell<VecDeque<Step>>);

impl Script {
    fn piece(&self, bytes: impl Into<Vec<u8>>) {
        self.0
            .borrow_mut()
            .push_back(Ok(Received::Piece(bytes.into())));
    }
}

impl Source for Script {
    type Piece = Vec<u8>;
    type Error = &'static str;

    fn receive(&self, _: Duration) -> Step {
        self.0
            .borrow_mut()
            .pop_front()
            .unwrap_or(Ok(Received::Nothing))
    }
}

fn watching() -> (SharedInformer, Arc<Names>) {
    let config = Config::new("pods", "v1", "Pod");
    let informer = SharedInformer::new(config, Arc::new(Store::new()));
    let names = Arc::new(Names::default());
    let handler = QueueHandler::new(names.clone(), Mapping::Object);
    informer.add_handler(Handler::Queue(handler), Resync::Never, 0.0);
    (informer, names)
}

fn frame(kind: &str, name: &str, version: u32) -> String {
    let object = format!(r#"{{"metadata":{{"name":"{name}","resourceVersion":"{version}"}}}}"#);
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
}

#[test]
fn handlers_have_the_events_of_a_stream_when_the_call_returns() {
    let (informer, names) = watching();
    let script = Script::default();
    for (name, version) in [("a", 1), ("b", 2), ("c", 3)] {
        script.piece(frame("ADDED", name, version));
    }
    let followed = informer.follow(&script, LONG, LONG);
    assert!(followed.error.is_none() && !followed.ended);
    assert_eq!(followed.progress.events, 3);
    assert_eq!(followed.progress.resource_version, "3");
    assert_eq!(*names.0.lock(), ["a", "b", "c"]);
    assert_eq!(informer.last_resource_version(), "3");
}

#[test]
fn notable_frames_end_the_call_before_it_has_lingered() {
    let (informer, names) = watching();
    let script = Script::default();
    script.piece(frame("ADDED", "a", 1) + &frame("BOOKMARK", "", 7));
    script.piece("{\"a\":\n");
    script.piece(frame("ADDED", "b", 8));
    let followed = informer.follow(&script, LONG, LONG);
    assert_eq!(followed.progress.events, 1);
    assert_eq!(followed.progress.bookmarks, 1);
    assert_eq!(followed.progress.resource_version, "7");
    let followed = informer.follow(&script, LONG, LONG);
    assert!(matches!(followed.error, Some(FollowError::Decode(_))));
    assert_eq!(*names.0.lock(), ["a"]);
}

#[test]
fn the_end_or_silence_of_a_stream_is_reported_after_its_events() {
    let (informer, _) = watching();
    let script = Script::default();
    let followed = informer.follow(&script, LONG, LONG);
    assert!(matches!(followed.error, Some(FollowError::Idle)));

    script.piece(frame("ADDED", "a", 1));
    script.0.borrow_mut().push_back(Err("cut"));
    let followed = informer.follow(&script, LONG, LONG);
    assert_eq!(followed.progress.events, 1);
    assert!(matches!(followed.error, Some(FollowError::Source("cut"))));

    script.piece(frame("ADDED", "b", 2));
    script.0.borrow_mut().push_back(Ok(Received::End));
    let followed = informer.follow(&script, LONG, LONG);
    assert_eq!(followed.progress.events, 1);
    assert!(followed.error.is_none() && followed.ended);
}

#[test]
fn the_watch_continues_at_the_version_after_the_end_of_the_initial_events() {
    let (informer, _) = watching();
    let end = r#"{"metadata":{"resourceVersion":"5","annotations":{"k8s.io/initial-events-end":"true"}}}"#;
    let end = format!("{{\"type\":\"BOOKMARK\",\"object\":{end}}}\n");
    let script = Script::default();
    script.piece(frame("ADDED", "a", 9) + &end + &frame("MODIFIED", "a", 12));
    informer.begin_list();
    let followed = informer.follow(&script, LONG, LONG);
    assert!(followed.progress.initial_events_end);
    assert_eq!(followed.progress.resource_version, "12");
}

#[test]
fn a_list_is_read_until_its_body_ends_or_the_call_has_lingered() {
    let (informer, _) = watching();
    let script = Script::default();
    script.piece(r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"3"},"#);
    script.piece(r#""items":[{"metadata":{"name":"a","resourceVersion":"1"}}]}"#);
    script.0.borrow_mut().push_back(Ok(Received::End));
    informer.begin_list();
    assert!(informer.list(&script, LONG, Duration::ZERO).unwrap());
    assert!(!informer.list(&script, LONG, LONG).unwrap());
    assert_eq!(informer.end_page().unwrap().count, 1);
    let silent = informer.list(&script, LONG, LONG);
    assert!(matches!(silent, Err(FollowError::Idle)));
}
