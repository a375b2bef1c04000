//! The buffer of a handler: what it merges, and when it is full.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use ctrlhost_core::delta_fifo::DeltaObject;
use ctrlhost_core::handlers::{Bounds, Change, Listener, Next, OnFull};
use ctrlhost_core::object::{Builder, Object};

const HANDLER: Bounds = Bounds {
    merge_from: 1024,
    both_states: false,
    limit: usize::MAX,
    per_object: 0,
};
const MAP: Bounds = Bounds {
    merge_from: 0,
    both_states: true,
    limit: 3,
    per_object: 2,
};

fn pod(name: &str, version: usize) -> Arc<Object> {
    let text = format!(r#"{{"metadata":{{"name":"{name}","resourceVersion":"{version}"}}}}"#);
    Arc::new(Builder::new("v1", "Pod").parse(text.as_bytes()).unwrap())
}

fn add(object: &Arc<Object>, initial: bool) -> Change {
    Change::Add {
        object: object.clone(),
        initial,
    }
}

fn update(old: &Arc<Object>, new: &Arc<Object>) -> Change {
    Change::Update {
        old: old.clone(),
        new: new.clone(),
    }
}

fn delete(object: &Arc<Object>) -> Change {
    Change::Delete {
        key: object.key().clone(),
        object: DeltaObject::Live(object.clone()),
    }
}

fn drain(listener: &Listener) -> Vec<String> {
    let Next::Batch(batch) = listener.next(usize::MAX, Some(Instant::now())) else {
        return Vec::new();
    };
    let version = |object: Option<&Arc<Object>>| {
        object.map_or_else(String::new, |object| object.resource_version().into_owned())
    };
    let show = |change: &Change| {
        let (old, new) = change.states();
        format!("{} {}>{}", change.key(), version(old), version(new))
    };
    batch.iter().map(show).collect()
}

// behaviour: supervision/IN8
#[test]
fn the_backlog_of_a_slow_handler_is_bounded_by_the_number_of_objects() {
    for bounds in [HANDLER, MAP] {
        let listener = Listener::new(
            Bounds {
                limit: usize::MAX,
                ..bounds
            },
            None,
        );
        let events = 100_000;
        let mut known = [pod("a", 0), pod("b", 0), pod("c", 0)];
        listener.push([add(&known[0], true)].iter(), 1);
        assert_eq!(drain(&listener), ["a >0"]);
        let mut merged = 0;
        for version in 1..events {
            let at = version % 3;
            let new = pod(["a", "b", "c"][at], version);
            let change = if known[at].resource_version() == "0" && at > 0 {
                add(&new, false)
            } else {
                update(&known[at], &new)
            };
            known[at] = new;
            merged += listener.push([change].iter(), 3);
            assert!(listener.pending() <= bounds.merge_from + 3 + 1);
        }
        assert_eq!(listener.merged(), merged);
        assert!(merged > events - bounds.merge_from - 5);
        let all = drain(&listener);
        // There is no gap between the handler's state and its first notification, nor between any two.
        for (name, first) in [("a", "0"), ("b", ""), ("c", "")] {
            let mut last = first.to_owned();
            for change in all.iter().filter(|one| one.starts_with(name)) {
                let (old, new) = change[2..].split_once('>').expect("two versions");
                assert_eq!(old, last);
                new.clone_into(&mut last);
            }
            let newest = known.iter().find(|object| object.name() == name);
            assert_eq!(
                newest.map(|object| object.resource_version().into_owned()),
                Some(last)
            );
        }
    }
}

// behaviour: supervision/IN7
#[test]
fn an_addition_is_merged_with_its_deletion_and_a_deletion_is_never_lost() {
    let (a, b, again, short) = (pod("a", 1), pod("b", 2), pod("a", 9), pod("short", 3));
    for both_states in [false, true] {
        let bounds = Bounds {
            both_states,
            limit: usize::MAX,
            ..MAP
        };
        let listener = Listener::new(bounds, None);
        listener.informer_synced();
        listener.push([add(&a, true), add(&b, true)].iter(), 2);
        assert_eq!(drain(&listener), ["a >1", "b >2"]);
        let changes = [
            add(&short, true),
            delete(&short),
            delete(&a),
            add(&again, false),
            update(&b, &pod("b", 4)),
            delete(&pod("b", 5)),
        ];
        listener.push(changes.iter(), 3);
        listener.done();
        // The merged initial add no longer blocks the sync.
        assert!(listener.has_synced());
        // A map also names the requests of the state that it knows, and those of the object that it never saw.
        let expected: &[&str] = if both_states {
            &["short 3>", "a 1>", "a >9", "b 2>5", "b 5>"]
        } else {
            &["a 1>", "a >9", "b 5>"]
        };
        assert_eq!(drain(&listener), expected);
    }
}

#[test]
fn a_listener_that_wants_every_change_gets_every_change() {
    let listener = Listener::new(Bounds::merging_from(usize::MAX), None);
    let a = pod("a", 1);
    let changes = vec![update(&a, &a); 3000];
    listener.push(changes.iter(), 1);
    assert_eq!(listener.pending(), 3000);
    assert_eq!(listener.merged(), 0);
}

// behaviour: supervision/IN9
#[test]
fn a_listener_beyond_its_limit_is_closed_and_says_so_once() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let on_full: OnFull = Box::new(|| {
        CALLS.fetch_add(1, Ordering::SeqCst);
    });
    let listener = Listener::new(MAP, Some(on_full));
    let pods: Vec<_> = (0..7).map(|number| pod(&format!("p{number}"), 1)).collect();
    // Twice as many as the informer has objects are accepted.
    listener.push(
        pods[..6]
            .iter()
            .map(|one| add(one, false))
            .collect::<Vec<_>>()
            .iter(),
        3,
    );
    assert_eq!((listener.pending(), listener.is_closed()), (6, false));
    listener.push([add(&pods[6], false)].iter(), 3);
    listener.push([add(&pods[6], false)].iter(), 3);
    assert_eq!((listener.pending(), listener.is_closed()), (0, true));
    assert_eq!(CALLS.load(Ordering::SeqCst), 1);
}
