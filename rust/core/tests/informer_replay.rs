//! Handlers that are added while objects are there and change.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ctrlhost_core::handlers::{
    Bounds, Change, Listener, MapFunc, Mapping, Next, OwnedRequest, QueueHandler, RequestRef,
    RequestSink,
};
use ctrlhost_core::informer::{Config, Handler, HandlerId, Resync, SharedInformer};
use ctrlhost_core::object::Object;
use ctrlhost_core::store::{NamespaceIndex, Store};

const PIECE: usize = 1_000;

fn informer() -> SharedInformer {
    let store = Store::new();
    store
        .add_indexes(&[("namespace".into(), Arc::new(NamespaceIndex))])
        .unwrap();
    SharedInformer::new(Config::new("pods", "v1", "Pod"), Arc::new(store))
}

fn pod(name: usize, version: usize) -> String {
    format!(r#"{{"metadata":{{"name":"p{name}","namespace":"n","resourceVersion":"{version}"}}}}"#)
}

fn relist(informer: &SharedInformer, version: usize, pods: impl Iterator<Item = String>) {
    informer.begin_list();
    let list = format!("{{\"items\":[{}]}}", pods.collect::<Vec<_>>().join(","));
    informer.feed_list(list.as_bytes()).unwrap();
    informer.end_page().unwrap();
    informer.replace(&version.to_string()).unwrap();
    informer.process();
}

fn feed(informer: &SharedInformer, kind: &str, name: usize, version: usize) {
    let event = format!(
        "{{\"type\":\"{kind}\",\"object\":{}}}\n",
        pod(name, version)
    );
    informer.feed_watch(event.as_bytes()).unwrap();
    informer.process();
}

fn listen(informer: &SharedInformer) -> (Arc<Listener>, HandlerId) {
    let listener = Arc::new(Listener::new(Bounds::merging_from(1024), None));
    let handler = Handler::Listener(listener.clone());
    let id = informer.add_handler(handler, Resync::Informer, 0.0);
    (listener, id.unwrap())
}

fn version(object: &Object) -> usize {
    object.resource_version().parse().unwrap()
}

/// What a handler was told: the version of each object, and never anything that cannot be.
#[derive(Default)]
struct Heard(Mutex<HashMap<String, usize>>, AtomicUsize);

impl Heard {
    fn hear(&self, old: Option<&Arc<Object>>, new: Option<&Arc<Object>>) {
        let mut known = self.0.lock().unwrap();
        let key = new.or(old).unwrap().key().to_string();
        self.1.fetch_add(1, Ordering::SeqCst);
        match (old, new) {
            (None, Some(new)) => {
                assert_eq!(
                    known.insert(key.clone(), version(new)),
                    None,
                    "a second add of {key}"
                );
            }
            (Some(_), Some(new)) => {
                let before = known.insert(key.clone(), version(new));
                let before = before.unwrap_or_else(|| panic!("an update of {key} before its add"));
                assert!(before <= version(new), "{key} went back from {before}");
            }
            (_, None) => {
                let before = known.remove(&key);
                assert!(
                    before.is_some(),
                    "a deletion of {key}, which it had not heard of"
                );
            }
        }
    }

    fn drain(&self, listener: &Listener) -> bool {
        match listener.next(PIECE, Some(Instant::now() + Duration::from_millis(1))) {
            Next::Batch(changes) => {
                for change in &changes {
                    let (old, new) = change.states();
                    self.hear(old, new);
                }
                true
            }
            Next::TimedOut => true,
            Next::Closed => false,
        }
    }
}

impl MapFunc for Heard {
    fn requests(
        &self,
        old: Option<&Arc<Object>>,
        new: Option<&Arc<Object>>,
        _: &dyn Fn() -> bool,
    ) -> Vec<OwnedRequest> {
        self.hear(old, new);
        Vec::new()
    }
}

struct Discard;

impl RequestSink for Discard {
    fn add_requests(&self, _: &[RequestRef<'_>], _: Option<i32>) {}
}

fn mapped(informer: &SharedInformer, heard: &Arc<Heard>) -> HandlerId {
    let handler = QueueHandler::new(Arc::new(Discard), Mapping::Custom(heard.clone()));
    informer
        .add_handler(Handler::Queue(handler), Resync::Informer, 0.0)
        .unwrap()
}

fn content(informer: &SharedInformer) -> HashMap<String, usize> {
    let objects = informer.store().list().into_iter();
    objects
        .map(|one| (one.key().to_string(), version(&one)))
        .collect()
}

/// Changes of every kind, in places all over the store, and lists that replace all of it.
fn change(informer: &SharedInformer, objects: usize, over: &AtomicBool) {
    let mut version = 2;
    for round in 1.. {
        let mut events = String::new();
        for step in 0..500 {
            version += 1;
            let name = (round * 7_919 + step * 104_729) % objects;
            let kind = match step % 10 {
                0 => "DELETED",
                1 => "ADDED",
                _ => "MODIFIED",
            };
            let one = format!(
                "{{\"type\":\"{kind}\",\"object\":{}}}\n",
                pod(name, version)
            );
            events.push_str(&one);
        }
        informer.feed_watch(events.as_bytes()).unwrap();
        informer.process();
        if round == 20 {
            version += 1;
            let all = (0..objects).step_by(2);
            relist(informer, version, all.map(|name| pod(name, version)));
        }
        if over.load(Ordering::SeqCst) && round > 40 {
            return;
        }
    }
}

/// Ends the loops of other threads, whatever becomes of this one.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

// behaviour: scale/SC122
#[test]
fn late_handlers_hear_each_object_once_and_then_only_newer_states() {
    const OBJECTS: usize = 100_000;
    let informer = informer();
    relist(&informer, 1, (0..OBJECTS).map(|name| pod(name, 1)));
    let (over, ending) = (AtomicBool::new(false), AtomicBool::new(false));
    let early = Arc::new(Heard::default());
    mapped(&informer, &early);
    let (maps, lists) = std::thread::scope(|threads| {
        let (changing, listening) = (Ends(&over), Ends(&ending));
        let changes = threads.spawn(|| change(&informer, OBJECTS, &over));
        // Some are called on the adding thread, some pull on their own.
        let maps = threads.spawn(|| {
            let added = (0..3).map(|_| {
                let heard = Arc::new(Heard::default());
                mapped(&informer, &heard);
                heard
            });
            added.collect::<Vec<_>>()
        });
        let lists: Vec<_> = (0..3)
            .map(|_| {
                threads.spawn(|| {
                    let (listener, _) = listen(&informer);
                    let heard = Heard::default();
                    while !(ending.load(Ordering::SeqCst)
                        && listener.has_synced()
                        && listener.pending() == 0)
                    {
                        assert!(heard.drain(&listener));
                    }
                    heard
                })
            })
            .collect();
        // Some are removed in the middle of their replay, and hear nothing after that.
        for _ in 0..3 {
            let (listener, id) = listen(&informer);
            let heard = Heard::default();
            for _ in 0..5 {
                assert!(heard.drain(&listener));
            }
            assert!(heard.1.load(Ordering::SeqCst) < OBJECTS / 2);
            informer.remove_handler(id);
            assert!(informer.wait_removed(id, None));
            assert!(!heard.drain(&listener));
        }
        let maps = maps.join().unwrap();
        drop(changing);
        changes.join().unwrap();
        drop(listening);
        let lists: Vec<_> = lists.into_iter().map(|one| one.join().unwrap()).collect();
        (maps, lists)
    });
    let wanted = content(&informer);
    assert!(wanted.len() > OBJECTS / 3);
    assert!(*early.0.lock().unwrap() == wanted);
    for heard in maps.iter().map(|one| &**one).chain(&lists) {
        assert!(*heard.0.lock().unwrap() == wanted, "something is missing");
    }
}

// behaviour: scale/SC123
#[test]
fn the_replay_to_a_slow_handler_delays_nobody_and_keeps_few_notifications() {
    const OBJECTS: usize = 10_000;
    let informer = informer();
    let (live, _) = listen(&informer);
    relist(&informer, 1, (0..OBJECTS).map(|name| pod(name, 1)));
    let heard = Heard::default();
    while live.pending() > 0 {
        heard.drain(&live);
    }
    live.done();
    assert_eq!(live.pending(), 0);
    // This one takes nothing yet.
    let (slow, _) = listen(&informer);
    assert_eq!(slow.pending(), PIECE);
    assert!(!slow.has_synced());
    // Changes where it has been told, and where it has not: the live handler hears of them meanwhile.
    for (step, name) in [0, OBJECTS - 1, OBJECTS / 2].into_iter().enumerate() {
        feed(&informer, "MODIFIED", name, 2 + step);
        assert_eq!(live.pending(), 1);
        heard.drain(&live);
        live.done();
    }
    feed(&informer, "DELETED", OBJECTS - 2, 9);
    feed(&informer, "ADDED", OBJECTS, 10);
    // What it has not heard of yet comes with the replay, in the newest state.
    assert_eq!(slow.pending(), PIECE + 1);
    let (told, mut most, mut taken) = (Heard::default(), 0, 0);
    while let Some(change) = slow.take() {
        if let Change::Add { initial, .. } = change {
            assert!(!initial || !slow.has_synced());
        }
        let (old, new) = change.states();
        told.hear(old, new);
        slow.done();
        taken += 1;
        most = most.max(slow.pending());
        // Changes go on while it is told.
        if taken % 100 == 0 {
            feed(&informer, "MODIFIED", taken % 700, 10 + taken);
            assert_eq!(slow.pending().max(2 * PIECE), 2 * PIECE);
        }
    }
    assert!(most < 2 * PIECE, "{most} notifications");
    assert!(slow.has_synced());
    assert!(*told.0.lock().unwrap() == content(&informer));
}
