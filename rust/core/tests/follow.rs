//! Following a stream on the decode threads, from its bytes to the handler of a queue.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

use ctrlhost_core::handlers::{Mapping, QueueHandler, RequestRef, RequestSink};
use ctrlhost_core::informer::decoders::{self, Task};
use ctrlhost_core::informer::{
    Body, Config, FollowError, Follower, Handler, Received, Resync, SharedInformer, Source, Told,
    WatchProgress,
};
use ctrlhost_core::store::Store;
use parking_lot::Mutex;

const LONG: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Names {
    names: Mutex<Vec<String>>,
    /// The threads that added them.
    threads: Mutex<Vec<String>>,
}

impl RequestSink for Names {
    fn add_requests(&self, requests: &[RequestRef<'_>], _: Option<i32>) {
        let thread = std::thread::current().name().unwrap().to_owned();
        self.threads.lock().push(thread);
        for request in requests {
            assert_ne!(request.name, "panic", "injected");
            self.names.lock().push(request.name.to_owned());
        }
    }
}

type Step = Result<Received<Vec<u8>>, &'static str>;

/// What a stream gives, one after the other; then nothing.
#[derive(Default)]
struct Script(Mutex<VecDeque<Step>>);

impl Source for Script {
    type Piece = Vec<u8>;
    type Error = &'static str;

    fn receive(&self) -> Step {
        let next = self.0.lock().pop_front();
        next.unwrap_or(Ok(Received::Nothing))
    }
}

/// An informer, and the stream that it follows.
struct Rig {
    informer: Arc<SharedInformer>,
    names: Arc<Names>,
    script: Arc<Script>,
    follower: Arc<Follower<Arc<Script>>>,
    task: Arc<Task>,
}

impl Rig {
    fn new(body: Body) -> Self {
        let config = Config::new("pods", "v1", "Pod");
        let informer = Arc::new(SharedInformer::new(config, Arc::new(Store::new())));
        let names = Arc::new(Names::default());
        let handler = QueueHandler::new(names.clone(), Mapping::Object);
        informer.add_handler(Handler::Queue(handler), Resync::Never, 0.0);
        if body != Body::Watch {
            informer.begin_list();
        }
        let script = Arc::<Script>::default();
        let follower = Arc::new(Follower::new(informer.clone(), script.clone(), body));
        let task = Task::new(follower.clone()).unwrap();
        Self {
            informer,
            names,
            script,
            follower,
            task,
        }
    }

    /// Ask what there is to tell.
    fn ask(&self) -> Receiver<Told<&'static str>> {
        let (sender, receiver) = channel();
        self.follower.ask(move |told| sender.send(told).unwrap());
        receiver
    }

    fn gives(&self, step: Step) {
        self.script.0.lock().push_back(step);
        self.task.wake();
    }

    fn piece(&self, bytes: impl Into<Vec<u8>>) {
        self.gives(Ok(Received::Piece(bytes.into())));
    }

    fn told(&self) -> Told<&'static str> {
        self.ask().recv_timeout(LONG).unwrap()
    }

    fn progress(&self) -> WatchProgress {
        match self.told() {
            Told::Progress(progress) => progress,
            other => panic!("not a progress: {other:?}"),
        }
    }

    fn names(&self) -> Vec<String> {
        self.names.names.lock().clone()
    }
}

fn frame(kind: &str, name: &str, version: u32) -> String {
    let object = format!(r#"{{"metadata":{{"name":"{name}","resourceVersion":"{version}"}}}}"#);
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
}

#[test]
fn events_reach_handlers_and_are_told_with_what_is_notable() {
    let rig = Rig::new(Body::Watch);
    let answer = rig.ask();
    for (name, version) in [("a", 1), ("b", 2), ("c", 3)] {
        rig.piece(frame("ADDED", name, version));
    }
    rig.piece(frame("BOOKMARK", "", 7));
    let Told::Progress(progress) = answer.recv_timeout(LONG).unwrap() else {
        panic!("not a progress");
    };
    assert_eq!((progress.events, progress.bookmarks), (3, 1));
    assert_eq!(progress.resource_version, "7");
    assert_eq!(rig.names(), ["a", "b", "c"]);
    assert_eq!(rig.informer.last_resource_version(), "7");
    let threads = rig.names.threads.lock().clone();
    assert!(
        threads
            .iter()
            .all(|name| name.starts_with("ctrlhost-decode-"))
    );
}

#[test]
fn events_alone_are_not_told_but_can_be_asked_for() {
    let rig = Rig::new(Body::Watch);
    let answer = rig.ask();
    rig.piece(frame("ADDED", "a", 1));
    rig.piece(frame("BOOKMARK", "", 2));
    assert!(answer.recv_timeout(LONG).is_ok());
    let answer = rig.ask();
    rig.piece(frame("ADDED", "b", 3));
    let until = std::time::Instant::now() + LONG;
    while rig.names().len() < 2 && std::time::Instant::now() < until {
        std::thread::yield_now();
    }
    let mut events = 0;
    while events < 1 && std::time::Instant::now() < until {
        events += rig.follower.so_far().events;
    }
    assert_eq!(events, 1);
    assert!(answer.try_recv().is_err());
    assert_eq!(rig.informer.arrived().events, 2);
}

#[test]
fn the_end_of_a_stream_is_told_after_its_events() {
    for (step, cut) in [(Ok(Received::End), false), (Err("cut"), true)] {
        let rig = Rig::new(Body::Watch);
        rig.piece(frame("ADDED", "a", 1));
        rig.gives(step);
        let answer = rig.ask().recv_timeout(LONG).unwrap();
        // The end may come before or after the question.
        let end = match answer {
            Told::Progress(progress) => {
                assert_eq!(progress.events, 1);
                rig.told()
            }
            end => end,
        };
        match end {
            Told::End => assert!(!cut),
            Told::Failed(FollowError::Source("cut")) => assert!(cut),
            other => panic!("unexpected: {other:?}"),
        }
        assert!(matches!(rig.told(), Told::End));
    }
}

#[test]
fn nothing_is_read_after_a_malformed_frame_or_an_error() {
    let rig = Rig::new(Body::Watch);
    rig.piece(frame("ADDED", "a", 1) + "{\"a\":\n");
    rig.piece(frame("ADDED", "b", 2));
    assert!(matches!(rig.told(), Told::Failed(FollowError::Decode(_))));
    assert_eq!(rig.names(), ["a"]);

    let rig = Rig::new(Body::Watch);
    rig.piece("{\"type\":\"ERROR\",\"object\":{\"code\":410}}\n");
    rig.piece(frame("ADDED", "b", 2));
    assert_eq!(rig.progress().error.as_deref(), Some("{\"code\":410}"));
    assert!(matches!(rig.told(), Told::End));
    assert!(rig.names().is_empty());
}

#[test]
fn initial_events_become_the_content_and_the_watch_continues() {
    let rig = Rig::new(Body::Initial);
    let end = r#"{"metadata":{"resourceVersion":"5","annotations":{"k8s.io/initial-events-end":"true"}}}"#;
    let end = format!("{{\"type\":\"BOOKMARK\",\"object\":{end}}}\n");
    let after = frame("MODIFIED", "b", 12);
    let (begun, rest) = after.split_at(20);
    // The piece ends in the middle of a frame of the watch.
    rig.piece(frame("ADDED", "a", 9) + &end + begun);
    let progress = rig.progress();
    assert!(progress.initial_events_end);
    assert_eq!(progress.resource_version, "5");
    assert!(rig.informer.has_synced());
    rig.piece(rest);
    rig.piece(frame("BOOKMARK", "", 13));
    assert_eq!(rig.progress().events, 1);
    assert_eq!(rig.names(), ["a", "b"]);
}

#[test]
// behaviour: findings3/NC4
fn a_plain_bookmark_among_the_initial_events_changes_nothing_wherever_it_is_cut() {
    let end = r#"{"metadata":{"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true"}}}"#;
    let end = format!("{{\"type\":\"BOOKMARK\",\"object\":{end}}}\n");
    let stream = frame("BOOKMARK", "", 9) + &frame("ADDED", "a", 4) + &end;
    for cut in 0..=stream.len() {
        let rig = Rig::new(Body::Initial);
        let (first, rest) = stream.split_at(cut);
        rig.piece(first);
        rig.piece(rest);
        let mut all = rig.progress();
        if !all.initial_events_end {
            assert_eq!(all.plain_bookmarks, 1);
            assert_eq!(all.resource_version, "");
            all = rig.progress();
        }
        assert!(all.initial_events_end, "cut at {cut}");
        assert_eq!(all.resource_version, "7");
        assert!(rig.informer.has_synced());
        assert_eq!(rig.names(), ["a"]);
    }
}

#[test]
fn the_last_page_becomes_the_content() {
    let rig = Rig::new(Body::Page);
    rig.piece(r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"3"},"#);
    rig.piece(r#""items":[{"metadata":{"name":"a","resourceVersion":"1"}}]}"#);
    rig.gives(Ok(Received::End));
    let Told::Page(meta) = rig.told() else {
        panic!("not a page");
    };
    assert_eq!((meta.count, &*meta.resource_version), (1, "3"));
    assert!(rig.informer.has_synced());
    assert_eq!(rig.names(), ["a"]);
}

#[test]
fn a_page_with_a_successor_does_not() {
    let rig = Rig::new(Body::Page);
    let meta = r#"{"resourceVersion":"3","continue":"next"}"#;
    rig.piece(format!(
        r#"{{"kind":"PodList","apiVersion":"v1","metadata":{meta},"items":[]}}"#
    ));
    rig.gives(Ok(Received::End));
    assert!(matches!(rig.told(), Told::Page(_)));
    assert!(!rig.informer.has_synced());
}

// Panics are counted for the process, so one test counts them.
#[test]
fn a_panic_ends_its_stream_alone() {
    let (rig, other) = (Rig::new(Body::Watch), Rig::new(Body::Watch));
    let before = decoders::panics();
    for number in 0..10 {
        let rig = Rig::new(Body::Watch);
        rig.piece(frame("ADDED", "panic", number));
        assert!(matches!(rig.told(), Told::Failed(FollowError::Panicked)));
    }
    rig.piece(frame("ADDED", "panic", 1));
    rig.piece(frame("ADDED", "b", 2));
    let Told::Failed(error) = rig.told() else {
        panic!("not a failure");
    };
    assert_eq!(
        error.to_string(),
        "internal error: a decode thread panicked"
    );
    assert_eq!(decoders::panics() - before, 11);
    other.piece(frame("ADDED", "c", 3) + &frame("BOOKMARK", "", 4));
    assert_eq!(other.progress().events, 1);
    assert_eq!(other.names(), ["c"]);
    assert!(rig.names().is_empty());
}

#[test]
fn a_task_ends_with_its_last_user() {
    let rig = Rig::new(Body::Watch);
    let follower: Weak<_> = Arc::downgrade(&rig.follower);
    rig.piece(frame("ADDED", "a", 1) + &frame("BOOKMARK", "", 2));
    assert_eq!(rig.progress().events, 1);
    drop(rig);
    let until = std::time::Instant::now() + LONG;
    // A decode thread may still have it.
    while follower.upgrade().is_some() && std::time::Instant::now() < until {
        std::thread::yield_now();
    }
    assert!(follower.upgrade().is_none());
}
