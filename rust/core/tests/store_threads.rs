//! A store that many threads use at once, against plain models.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;

use ctrlhost_core::handlers::LabelRequirement;
use ctrlhost_core::json::path::Path;
use ctrlhost_core::object::{Builder, Object};
use ctrlhost_core::store::{IndexFunc, NamespaceIndex, PathIndex, Store, Write};

fn thing(namespace: &str, name: usize, version: usize, value: usize) -> Arc<Object> {
    let text = format!(
        r#"{{"metadata":{{"name":"t{name}","namespace":"{namespace}","resourceVersion":"{version}","labels":{{"n":"{name}"}}}},"value":"v{value}"}}"#
    );
    Arc::new(Builder::new("v1", "Thing").parse(text.as_bytes()).unwrap())
}

fn upsert(object: &Arc<Object>) -> Write {
    Write::Upsert(object.key().clone(), object.clone())
}

fn by_value() -> Arc<dyn IndexFunc> {
    Arc::new(PathIndex(Path::parse("value").unwrap()))
}

fn store() -> Store {
    let store = Store::new();
    let namespace: Arc<dyn IndexFunc> = Arc::new(NamespaceIndex);
    store
        .add_indexes(&[
            ("namespace".into(), namespace),
            ("value".into(), by_value()),
        ])
        .unwrap();
    store
}

/// Numbers that look random, from a seed: the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}

type Model = BTreeMap<usize, Arc<Object>>;

/// Random operations on the objects of one namespace, whose content only this thread changes.
fn operate(store: &Store, number: u64) -> Model {
    let (namespace, mut model) = (format!("ns{number}"), Model::new());
    let mut random = Random(0x9e37_79b9 + number);
    for version in 1..=600 {
        let name = random.below(300);
        let object = thing(&namespace, name, version, random.below(5));
        match random.below(10) {
            0..4 => {
                let old = store.upsert(object.key().clone(), object.clone());
                assert_eq!(old, model.insert(name, object.clone()));
            }
            4..6 => {
                let old = store.delete(object.key().clone(), None);
                assert_eq!(old, model.remove(&name));
            }
            6 => {
                // More than enter the content under one lock: upserts and deletes of the same keys among them.
                let mut writes = Vec::new();
                let mut olds = Vec::new();
                for _ in 0..150 {
                    let name = random.below(300);
                    let object = thing(&namespace, name, version, random.below(5));
                    if random.below(3) == 0 {
                        writes.push(Write::Delete(object.key().clone(), None));
                        olds.push(model.remove(&name));
                    } else {
                        writes.push(upsert(&object));
                        olds.push(model.insert(name, object));
                    }
                }
                assert_eq!(store.apply(writes), olds);
            }
            7 => {
                let index = format!("of {number}");
                store
                    .add_indexes(&[(index.as_str().into(), by_value())])
                    .unwrap();
                check(store, &index, &namespace, &model);
                store.remove_indexes(&[&index]);
            }
            _ => check(store, "value", &namespace, &model),
        }
        assert_eq!(store.get(object.key()), model.get(&name).cloned());
    }
    model
}

/// Compare what the store says of a namespace with its model.
fn check(store: &Store, index: &str, namespace: &str, model: &Model) {
    let named = |objects: Vec<Arc<Object>>| -> BTreeMap<String, Arc<Object>> {
        let mine = objects
            .into_iter()
            .filter(|one| one.namespace() == namespace);
        let keyed = mine.map(|one| (one.key().to_string(), one));
        let mut all = BTreeMap::new();
        for (key, object) in keyed {
            assert!(all.insert(key, object).is_none(), "twice in a list");
        }
        all
    };
    let wanted = named(model.values().cloned().collect());
    assert_eq!(named(store.list()), wanted);
    assert_eq!(
        named(store.by_index("namespace", namespace).unwrap()),
        wanted
    );
    let keys: BTreeSet<_> = store.keys().into_iter().collect();
    assert!(wanted.keys().all(|key| keys.contains(key.as_str())));
    for value in 0..5 {
        let value = format!("v{value}");
        let path = Path::parse("value").unwrap();
        let of = |object: &Arc<Object>| object.texts(&path).expect("plain") == [Box::from(&*value)];
        let wanted: Vec<_> = wanted.values().filter(|one| of(one)).cloned().collect();
        let indexed = named(store.by_index(index, &value).unwrap());
        assert_eq!(indexed.into_values().collect::<Vec<_>>(), wanted);
        if !wanted.is_empty() {
            let values = store.index_values(index).unwrap();
            assert!(values.iter().any(|one| **one == *value));
        }
    }
}

// behaviour: scale/SC121
#[test]
fn random_operations_of_eight_threads_agree_with_plain_models() {
    let store = store();
    let models: Vec<Model> = std::thread::scope(|threads| {
        let operators: Vec<_> = (0..8)
            .map(|number| {
                threads.spawn({
                    let store = &store;
                    move || operate(store, number)
                })
            })
            .collect();
        operators
            .into_iter()
            .map(|one| one.join().unwrap())
            .collect()
    });
    for (number, model) in models.iter().enumerate() {
        check(&store, "value", &format!("ns{number}"), model);
    }
    assert_eq!(store.len(), models.iter().map(BTreeMap::len).sum::<usize>());
    let bytes = |model: &Model| model.values().map(|one| one.memory().sum()).sum::<usize>();
    let memory = store.memory();
    assert_eq!(
        memory.header + memory.body,
        models.iter().map(bytes).sum::<usize>()
    );
    assert_eq!(store.list().len(), store.len());
    assert_eq!(store.entries().len(), store.len());
}

#[test]
fn readers_see_many_writes_at_one_moment() {
    const SIZE: usize = 1_000;
    let (store, over) = (store(), AtomicBool::new(false));
    let all = |version| (0..SIZE).map(move |name| thing("n", name, version, version % 2));
    store.apply(all(1).map(|one| upsert(&one)).collect());
    let seen = AtomicUsize::new(0);
    std::thread::scope(|threads| {
        let reader = || {
            threads.spawn(|| {
                let mut last = 0;
                while !over.load(Ordering::SeqCst) {
                    let objects = store.list();
                    let versions: BTreeSet<usize> = objects
                        .iter()
                        .map(|one| one.resource_version().parse().unwrap())
                        .collect();
                    assert_eq!((versions.len(), objects.len()), (1, SIZE), "a mixture");
                    let version = *versions.first().unwrap();
                    assert!(version >= last, "back in time");
                    last = version;
                    let one = store.get("n/t7").unwrap();
                    assert!(one.resource_version().parse::<usize>().unwrap() >= last);
                    let counts: Vec<_> = ["v0", "v1"]
                        .map(|value| store.by_index("value", value).unwrap().len())
                        .into();
                    assert!(
                        counts.iter().all(|count| [0, SIZE].contains(count)),
                        "{counts:?}"
                    );
                    assert_eq!(store.index_values("value").unwrap().len(), 1);
                    assert_eq!((store.len(), store.keys().len()), (SIZE, SIZE));
                    let version = store.resource_version().parse::<usize>().unwrap();
                    assert!(version >= last);
                    seen.fetch_add(1, Ordering::SeqCst);
                }
            })
        };
        let readers = [reader(), reader()];
        for version in 2.. {
            store.apply(all(version).map(|one| upsert(&one)).collect());
            let enough = version > 100 && seen.load(Ordering::SeqCst) > 100;
            if enough || readers.iter().any(ScopedJoinHandle::is_finished) {
                break;
            }
        }
        over.store(true, Ordering::SeqCst);
    });
}

// behaviour: scale/SC125
#[test]
fn a_selector_looks_at_the_objects_of_its_namespace_only() {
    let store = store();
    let objects = (0..100_000).map(|number| {
        let namespace = if number < 200 { "mine" } else { "others" };
        let object = thing(namespace, number, 1, 0);
        (object.key().clone(), object)
    });
    store.replace(objects.collect(), None);
    // Many values: each is found without a look at the others.
    let values: BTreeSet<String> = (0..20_000)
        .step_by(2)
        .map(|number| number.to_string())
        .collect();
    let requirement = |values: Option<BTreeSet<String>>, key: &str, negated| LabelRequirement {
        key: key.to_owned(),
        values,
        negated,
    };
    let mut wanted = vec![requirement(Some(values), "n", false)];
    wanted.extend((0..20).map(|number| requirement(None, &format!("gone-{number}"), true)));
    let looked = AtomicUsize::new(0);
    let selected = store.select(Some("mine"), |object| {
        looked.fetch_add(1, Ordering::Relaxed);
        LabelRequirement::all_are_met(&wanted, object)
    });
    assert_eq!(selected.unwrap().len(), 100);
    assert_eq!(looked.load(Ordering::Relaxed), 200);
    assert_eq!(store.select(None, |_| true).unwrap().len(), 100_000);
    assert!(store.select(Some("none"), |_| true).unwrap().is_empty());
}

/// Says on which thread it is dropped, as the last of its objects.
struct Ended(std::sync::mpsc::Sender<std::thread::ThreadId>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.send(std::thread::current().id()).unwrap();
    }
}

struct Tagged(Ended);

impl IndexFunc for Tagged {
    fn values(
        &self,
        object: &Arc<Object>,
    ) -> Result<ctrlhost_core::store::Values, ctrlhost_core::store::IndexFailed> {
        let _ = &self.0;
        Ok([Arc::from(object.name())].into_iter().collect())
    }
}

// behaviour: scale/SC127
#[test]
fn a_large_store_is_dropped_on_a_thread_of_its_own_and_its_functions_on_the_callers() {
    let (sender, ended) = std::sync::mpsc::channel();
    let store = Store::new();
    let tagged: Arc<dyn IndexFunc> = Arc::new(Tagged(Ended(sender)));
    store.add_indexes(&[("tagged".into(), tagged)]).unwrap();
    let objects: Vec<_> = (0..20_000).map(|number| thing("n", number, 1, 0)).collect();
    let last = Arc::downgrade(objects.last().unwrap());
    let keyed = objects.into_iter().map(|one| (one.key().clone(), one));
    store.replace(keyed.collect(), None);
    drop(store);
    // A function of Python may end on the thread of its owner only.
    assert_eq!(ended.recv().unwrap(), std::thread::current().id());
    while last.strong_count() > 0 {
        std::thread::yield_now();
    }
}
