//! Every interleaving, up to a bound, of writers, readers and a new index of one store, where each write takes the lock for
//! itself: `cargo test --features loom --test store_loom`.

use std::sync::Arc;
use std::time::Duration;

use ctrlhost_core::json::path::Path;
use ctrlhost_core::object::{Builder, Object};
use ctrlhost_core::store::{IndexFunc, PathIndex, Store, Write};
use loom::thread;

fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.max_duration = Some(Duration::from_secs(60));
    builder.check(model);
}

fn thing(name: &str, version: u32) -> Arc<Object> {
    let text = format!(
        r#"{{"metadata":{{"name":"{name}","resourceVersion":"{version}"}},"value":"v{version}"}}"#
    );
    let thing = Builder::new("v1", "Thing").parse(text.as_bytes());
    Arc::new(thing.expect("an object"))
}

fn upsert(name: &str, version: u32) -> Write {
    let object = thing(name, version);
    Write::Upsert(object.key().clone(), object)
}

fn delete(name: &str) -> Write {
    Write::Delete(name.into(), None)
}

fn value() -> [(Box<str>, Arc<dyn IndexFunc>); 1] {
    let path = Path::parse("value").expect("a path");
    [("value".into(), Arc::new(PathIndex(path)))]
}

fn shown(objects: Vec<Arc<Object>>) -> Vec<String> {
    let show = |one: Arc<Object>| format!("{}{}", one.name(), one.resource_version());
    let mut all: Vec<_> = objects.into_iter().map(show).collect();
    all.sort();
    all
}

fn by_value(store: &Store, value: &str) -> Vec<String> {
    shown(store.by_index("value", value).expect("there is the index"))
}

/// A store with `a` and `b` at version 1, which become `a`, `c` and `d` at version 2 in one step.
fn store() -> Arc<Store> {
    let store = Store::new();
    store.add_indexes(&value()).expect("the store is new");
    store.apply(vec![upsert("a", 1), upsert("b", 1)]);
    Arc::new(store)
}

fn step() -> Vec<Write> {
    vec![upsert("a", 2), delete("b"), upsert("c", 2), upsert("d", 2)]
}

const BEFORE: [&str; 2] = ["a1", "b1"];
const AFTER: [&str; 3] = ["a2", "c2", "d2"];

#[test]
fn a_reader_sees_all_writes_of_a_step_or_none() {
    explore(|| {
        let store = store();
        let writer = thread::spawn({
            let store = store.clone();
            move || store.apply(step())
        });
        let first = shown(store.list());
        let then = [by_value(&store, "v1"), by_value(&store, "v2")];
        let c = store.get("c").is_some();
        let last = shown(store.list());
        assert!(first == BEFORE || first == AFTER, "{first:?}");
        assert!(first == BEFORE || last == AFTER, "back in time");
        assert!(then[0] == BEFORE || then[0].is_empty(), "{then:?}");
        assert!(then[1].is_empty() || then[1] == AFTER, "{then:?}");
        assert!(!c || last == AFTER);
        assert_eq!(writer.join().expect("no panic").len(), 4);
        assert_eq!(shown(store.list()), AFTER);
        assert_eq!(by_value(&store, "v2"), AFTER);
        assert_eq!(store.len(), 3);
    });
}

#[test]
fn an_index_that_is_added_beside_a_step_is_complete() {
    explore(|| {
        let store = Store::new();
        store.apply(vec![upsert("a", 1), upsert("b", 1)]);
        let store = Arc::new(store);
        let writer = thread::spawn({
            let store = store.clone();
            move || store.apply(step())
        });
        store.add_indexes(&value()).expect("a new index");
        // Complete as soon as it is there, whatever is on its way.
        let states = [by_value(&store, "v1"), by_value(&store, "v2")];
        assert!(states[0] == BEFORE || states[1] == AFTER, "{states:?}");
        writer.join().expect("no panic");
        assert_eq!(by_value(&store, "v2"), AFTER);
        assert!(by_value(&store, "v1").is_empty());
    });
}

#[test]
fn two_writers_take_turns() {
    explore(|| {
        let store = store();
        let other = thread::spawn({
            let store = store.clone();
            move || store.apply(vec![delete("a"), upsert("b", 3), upsert("c", 3)])
        });
        store.apply(step());
        other.join().expect("no panic");
        let last = shown(store.list());
        let orders = [vec!["b3", "c3", "d2"], AFTER.to_vec()];
        assert!(orders.iter().any(|order| last == *order), "{last:?}");
    });
}
