//! The event log of an informer: order, resumption at any version, the window, and what ends a reader.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use ctrlhost_core::event_log::{EventLog, EventReader, Next, NoReader, Window};
use ctrlhost_core::informer::{Config, SharedInformer};
use ctrlhost_core::store::Store;

const WINDOW: Window = Window {
    events: 10_000,
    bytes: 16 << 20,
};

fn informer() -> SharedInformer {
    SharedInformer::new(Config::new("pods", "v1", "Pod"), Arc::new(Store::new()))
}

fn pod(name: &str, version: u64) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"ns","uid":"{name}","resourceVersion":"{version}"}}}}"#
    )
}

fn list(informer: &SharedInformer, version: u64, names: &[&str]) {
    informer.begin_list();
    let items: Vec<_> = names.iter().map(|name| pod(name, version)).collect();
    let page = format!(
        r#"{{"kind":"PodList","metadata":{{"resourceVersion":"{version}"}},"items":[{}]}}"#,
        items.join(",")
    );
    informer.feed_list(page.as_bytes()).unwrap();
    informer
        .replace(&informer.end_page().unwrap().resource_version)
        .unwrap();
}

fn change(informer: &SharedInformer, kind: &str, name: &str, version: u64) {
    let frame = format!(
        "{{\"type\":\"{kind}\",\"object\":{}}}\n",
        pod(name, version)
    );
    informer.feed_watch(frame.as_bytes()).unwrap();
}

/// Return the events that a reader has not read, as `+a1` (new), `~a2` (changed), `-a3` (deleted), `=4` (bookmark).
fn unread(reader: &mut EventReader) -> Vec<String> {
    let mut all = Vec::new();
    let context = Context::from_waker(Waker::noop());
    while let Poll::Ready(Next::Events(events)) = reader.poll_next(&context, 1) {
        for event in events {
            let object = event.new.as_ref().or(event.old.as_ref());
            let sign = match (&event.old, &event.new) {
                (None, Some(_)) => '+',
                (Some(_), Some(_)) => '~',
                (Some(_), None) => '-',
                (None, None) => '=',
            };
            let name = object.map_or("", |object| object.name());
            all.push(format!("{sign}{name}{}", event.version));
        }
    }
    all
}

fn ended(reader: &mut EventReader) -> Poll<Next> {
    unread(reader);
    reader.poll_next(&Context::from_waker(Waker::noop()), 1)
}

fn names(log: &Arc<EventLog>) -> Vec<String> {
    let listed = log.list("").unwrap().objects;
    let mut names: Vec<_> = listed
        .iter()
        .map(|object| format!("{}{}", object.name(), object.resource_version()))
        .collect();
    names.sort();
    names
}

// behaviour: supervision/FD1
#[test]
fn changes_come_in_the_order_of_the_server_although_the_fifo_merges_them() {
    let informer = informer();
    let log = informer.event_log(WINDOW);
    assert!(log.list("").is_none());
    list(&informer, 5, &["a", "b"]);
    let mut reader = log.list("").unwrap().reader;
    assert_eq!(&**reader.version(), "5");
    // Nothing is processed meanwhile.
    change(&informer, "MODIFIED", "a", 6);
    change(&informer, "ADDED", "c", 7);
    change(&informer, "MODIFIED", "a", 8);
    change(&informer, "DELETED", "b", 9);
    change(&informer, "DELETED", "unknown", 10);
    let bookmark = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"12"}}}"#;
    informer
        .feed_watch(format!("{bookmark}\n").as_bytes())
        .unwrap();
    assert_eq!(unread(&mut reader), ["~a6", "+c7", "~a8", "-b9", "=12"]);
    assert_eq!(&**reader.version(), "12");
    assert_eq!(names(&log), ["a8", "c7"]);
    assert_eq!(log.list("other").unwrap().objects.len(), 0);
}

// behaviour: supervision/FD1
#[test]
fn a_log_that_begins_late_has_what_is_not_processed_yet() {
    let informer = informer();
    list(&informer, 5, &["a", "b", "c"]);
    informer.process();
    change(&informer, "MODIFIED", "a", 6);
    change(&informer, "DELETED", "b", 7);
    change(&informer, "ADDED", "d", 8);
    let log = informer.event_log(WINDOW);
    assert_eq!(names(&log), ["a6", "c5", "d8"]);
    let mut reader = log.resume("8").unwrap();
    change(&informer, "MODIFIED", "c", 9);
    informer.process();
    assert_eq!(unread(&mut reader), ["~c9"]);
    assert!(Arc::ptr_eq(&log, &informer.event_log(WINDOW)));
}

// behaviour: supervision/FD2
#[test]
fn a_reader_that_resumes_anywhere_misses_nothing() {
    let informer = informer();
    let log = informer.event_log(WINDOW);
    list(&informer, 1, &["a", "b"]);
    let mut expected = Vec::new();
    for version in (3..2_003).step_by(2) {
        let name = if version % 3 == 0 { "a" } else { "b" };
        change(&informer, "MODIFIED", name, version);
        expected.push(format!("~{name}{version}"));
    }
    // Versions between two events exist: other kinds have them.
    for cut in 0..1_000 {
        for version in [2 * cut + 1, 2 * cut + 2] {
            let mut reader = log.resume(&version.to_string()).unwrap();
            let skipped = usize::try_from(cut).unwrap();
            assert_eq!(unread(&mut reader), expected[skipped..], "from {version}");
        }
    }
    let mut ahead = log.resume("2005").unwrap();
    change(&informer, "MODIFIED", "a", 2_003);
    change(&informer, "MODIFIED", "a", 2_005);
    assert_eq!(unread(&mut ahead), [""; 0]);
    change(&informer, "MODIFIED", "a", 2_007);
    assert_eq!(unread(&mut ahead), ["~a2007"]);
}

// behaviour: supervision/FD3
#[test]
fn a_version_before_the_window_has_expired() {
    let informer = informer();
    let log = informer.event_log(Window {
        events: 3,
        ..WINDOW
    });
    list(&informer, 1, &["a"]);
    assert!(log.resume("1").is_ok());
    let mut behind = log.resume("1").unwrap();
    for version in 2..7 {
        change(&informer, "MODIFIED", "a", version);
    }
    assert_eq!(log.resume("2").err(), Some(NoReader::Expired(3)));
    assert!(log.resume("none").is_err());
    assert_eq!(unread(&mut log.resume("3").unwrap()), ["~a4", "~a5", "~a6"]);
    assert!(matches!(ended(&mut behind), Poll::Ready(Next::Expired)));
    assert!(log.lag(behind.id()).unwrap().lost);
}

// behaviour: supervision/FD3
#[test]
fn the_window_is_bounded_in_bytes() {
    let informer = informer();
    let log = informer.event_log(Window { bytes: 1, ..WINDOW });
    list(&informer, 1, &["a"]);
    let mut reader = log.resume("1").unwrap();
    change(&informer, "MODIFIED", "a", 2);
    // The newest event stays even if it alone is larger.
    assert_eq!(unread(&mut reader), ["~a2"]);
    change(&informer, "MODIFIED", "a", 3);
    assert!(log.resume("1").is_err());
    assert!(log.resume("2").is_ok());
}

// behaviour: supervision/FD4
#[test]
fn a_list_and_a_step_back_in_time_end_the_readers() {
    let informer = informer();
    let log = informer.event_log(WINDOW);
    list(&informer, 5, &["a"]);
    let mut reader = log.list("").unwrap().reader;
    list(&informer, 5, &["a"]);
    assert!(matches!(ended(&mut reader), Poll::Ready(Next::Expired)));
    let mut reader = log.resume("5").unwrap();
    change(&informer, "MODIFIED", "a", 4);
    assert!(matches!(ended(&mut reader), Poll::Ready(Next::Expired)));
    assert_eq!(names(&log), ["a4"]);
    list(&informer, 9, &["b"]);
    assert_eq!(log.resume("5").err(), Some(NoReader::Expired(9)));
    assert_eq!(names(&log), ["b9"]);
}

// behaviour: supervision/FD15
#[test]
fn readers_end_with_the_informer() {
    let informer = informer();
    let log = informer.event_log(WINDOW);
    list(&informer, 5, &["a"]);
    let mut reader = log.resume("5").unwrap();
    change(&informer, "DELETED", "a", 6);
    assert_eq!(unread(&mut reader), ["-a6"]);
    informer.stop();
    assert!(matches!(ended(&mut reader), Poll::Ready(Next::Closed)));
    assert!(log.list("").is_none());
    assert_eq!(log.resume("6").err(), Some(NoReader::NotListed));
    assert!(informer.event_log(WINDOW).list("").is_none());
}

struct Counted(AtomicUsize);

impl Wake for Counted {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

// behaviour: supervision/FD13
#[test]
fn a_reader_that_does_not_read_is_woken_and_its_lag_is_known() {
    let informer = informer();
    let log = informer.event_log(WINDOW);
    list(&informer, 1, &["a"]);
    let mut reader = log.resume("1").unwrap();
    let woken = Arc::new(Counted(AtomicUsize::new(0)));
    let waker = Waker::from(woken.clone());
    assert!(
        reader
            .poll_next(&Context::from_waker(&waker), 1)
            .is_pending()
    );
    for version in 2..5 {
        change(&informer, "MODIFIED", "a", version);
    }
    assert_eq!(woken.0.load(Ordering::Relaxed), 3);
    let lag = log.lag(reader.id()).unwrap();
    assert_eq!((lag.events, lag.lost), (3, false));
    assert!(lag.bytes > 100);
    unread(&mut reader);
    let after = log.lag(reader.id()).unwrap();
    assert_eq!((after.events, after.bytes), (0, 0));
    assert!(after.at > lag.at);
    let id = reader.id();
    drop(reader);
    assert_eq!((log.lag(id), log.reader_count()), (None, 0));
}
