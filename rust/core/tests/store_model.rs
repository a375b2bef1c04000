//! The store and its indexes against a naive twin that scans every object.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ctrlhost_core::json::path::Path;
use ctrlhost_core::object::{Builder, Object};
use ctrlhost_core::store::{
    IndexFailed, IndexFunc, NamespaceIndex, PathIndex, Store, StoreError, Values, Write,
};
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Thing {
    name: u8,
    namespace: u8,
    values: Vec<u8>,
}

#[derive(Clone, Debug)]
enum Step {
    Upsert(Thing),
    Delete(u8, u8),
    Batch(Vec<Thing>),
    Replace(Vec<Thing>),
    AddIndex,
}

/// Like an index function in Python: it fails for some objects.
struct Picky;

impl IndexFunc for Picky {
    fn values(&self, object: &Arc<Object>) -> Result<Values, IndexFailed> {
        let texts = values_of(object);
        if texts.len() > 3 {
            Err(IndexFailed)
        } else {
            Ok(texts.iter().map(|text| Arc::from(&**text)).collect())
        }
    }
}

fn values_of(object: &Arc<Object>) -> Vec<String> {
    let path = Path::parse("values[*]").expect("a path");
    let texts = object.texts(&path).expect("plain").into_iter();
    texts.map(String::from).collect()
}

fn made(thing: &Thing) -> Arc<Object> {
    let values: Vec<String> = thing
        .values
        .iter()
        .map(|value| format!("\"v{value}\""))
        .collect();
    let namespace = if thing.namespace == 0 {
        String::new()
    } else {
        format!(r#","namespace":"ns{}""#, thing.namespace)
    };
    let text = format!(
        r#"{{"metadata":{{"name":"t{}"{namespace}}},"values":[{}]}}"#,
        thing.name,
        values.join(",")
    );
    Arc::new(
        Builder::new("v1", "Thing")
            .parse(text.as_bytes())
            .expect("an object"),
    )
}

fn thing() -> impl Strategy<Value = Thing> {
    (0_u8..6, 0_u8..3, prop::collection::vec(0_u8..5, 0..6)).prop_map(
        |(name, namespace, values)| Thing {
            name,
            namespace,
            values,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => thing().prop_map(Step::Upsert),
        3 => (0_u8..6, 0_u8..3).prop_map(|(name, namespace)| Step::Delete(name, namespace)),
        2 => prop::collection::vec(thing(), 0..6).prop_map(Step::Batch),
        1 => prop::collection::vec(thing(), 0..6).prop_map(Step::Replace),
        1 => Just(Step::AddIndex),
    ]
}

/// Return the keys that a full scan finds for each value.
fn scan(
    store: &Store,
    values: impl Fn(&Arc<Object>) -> Vec<String>,
) -> BTreeMap<String, BTreeSet<String>> {
    let mut index: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (key, object) in store.entries() {
        for value in values(&object) {
            index.entry(value).or_default().insert(key.to_string());
        }
    }
    index
}

fn index(store: &Store, name: &str) -> BTreeMap<String, BTreeSet<String>> {
    let values = store.index_values(name).expect("the index is there");
    let keys = |value: &str| store.index_keys(name, value).expect("the index is there");
    values
        .iter()
        .map(|value| {
            (
                value.to_string(),
                keys(value).iter().map(ToString::to_string).collect(),
            )
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn indexes_contain_what_a_full_scan_finds(steps in prop::collection::vec(step(), 1..40)) {
        let store = Store::new();
        let path = || -> Arc<dyn IndexFunc> { Arc::new(PathIndex(Path::parse("values[*]").expect("a path"))) };
        let first: [(Box<str>, Arc<dyn IndexFunc>); 3] =
            [("namespace".into(), Arc::new(NamespaceIndex)), ("path".into(), path()), ("picky".into(), Arc::new(Picky))];
        store.add_indexes(&first).expect("the store is new");
        let mut twin: BTreeMap<String, String> = BTreeMap::new();
        let mut late = false;
        for step in &steps {
            match step {
                Step::Upsert(thing) => {
                    let object = made(thing);
                    let old = store.upsert(object.key().clone(), object.clone());
                    let before = twin.insert(object.key().to_string(), object.json().expect("plain").into_owned());
                    prop_assert_eq!(old.map(|old| old.json().expect("plain").into_owned()), before);
                }
                Step::Delete(name, namespace) => {
                    let object = made(&Thing { name: *name, namespace: *namespace, values: Vec::new() });
                    let old = store.delete(object.key().clone(), None);
                    prop_assert_eq!(old.map(|old| old.json().expect("plain").into_owned()), twin.remove(&**object.key()));
                }
                Step::Batch(things) => {
                    let objects: Vec<_> = things.iter().map(made).collect();
                    store.apply(objects.iter().map(|one| Write::Upsert(one.key().clone(), one.clone())).collect());
                    twin.extend(objects.iter().map(|one| (one.key().to_string(), one.json().expect("plain").into_owned())));
                }
                Step::Replace(things) => {
                    let objects: Vec<_> = things.iter().map(made).collect();
                    store.replace(objects.iter().map(|one| (one.key().clone(), one.clone())).collect(), Some("9"));
                    twin = objects.iter().map(|one| (one.key().to_string(), one.json().expect("plain").into_owned())).collect();
                }
                Step::AddIndex => {
                    let added = store.add_indexes(&[("late".into(), path())]);
                    prop_assert_eq!(added.is_err(), late);
                    late = true;
                }
            }
            let content: BTreeMap<String, String> =
                store.entries().into_iter().map(|(key, object)| (key.to_string(), object.json().expect("plain").into_owned())).collect();
            prop_assert_eq!(&content, &twin);
            prop_assert_eq!(index(&store, "namespace"), scan(&store, |object| vec![object.namespace().to_owned()]));
            prop_assert_eq!(index(&store, "path"), scan(&store, values_of));
            let few = |object: &Arc<Object>| { let all = values_of(object); if all.len() > 3 { Vec::new() } else { all } };
            prop_assert_eq!(index(&store, "picky"), scan(&store, few));
            if late {
                prop_assert_eq!(index(&store, "late"), scan(&store, values_of));
            }
            let memory = store.memory();
            prop_assert_eq!(memory.header + memory.body, store.list().iter().map(|object| object.memory().sum()).sum::<usize>());
        }
    }
}

/// The scan copies pointers; selectors are applied by the lister (ST20, in `test_indexer.py`).
#[test]
fn a_list_of_many_objects_has_each_once() {
    let store = Store::new();
    let namespace: Arc<dyn IndexFunc> = Arc::new(NamespaceIndex);
    store
        .add_indexes(&[("namespace".into(), namespace)])
        .expect("the store is new");
    let mut builder = Builder::new("v1", "Thing");
    let objects = (0..100_000).map(|number| {
        let namespace = if number % 10 == 0 {
            "matching"
        } else {
            "other"
        };
        let text = format!(r#"{{"metadata":{{"name":"t{number}","namespace":"{namespace}"}}}}"#);
        let object = Arc::new(builder.parse(text.as_bytes()).expect("an object"));
        (object.key().clone(), object)
    });
    store.replace(objects.collect(), None);
    let names: BTreeSet<String> = store
        .list()
        .iter()
        .map(|object| object.name().to_owned())
        .collect();
    assert_eq!(names.len(), 100_000);
    let count = |value| {
        store
            .by_index("namespace", value)
            .map(|listed| listed.len())
    };
    assert_eq!((count("matching"), count("none")), (Ok(10_000), Ok(0)));
    assert_eq!(
        store.by_index("none", "x"),
        Err(StoreError::UnknownIndex("none".into()))
    );
}

/// Counts how often each state of an object was evaluated.
#[derive(Default)]
struct Counted(AtomicUsize);

impl IndexFunc for Counted {
    fn values(&self, object: &Arc<Object>) -> Result<Values, IndexFailed> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(values_of(object)
            .iter()
            .map(|text| Arc::from(&**text))
            .collect())
    }
}

// behaviour: findings/FQ14
#[test]
fn each_index_evaluates_each_state_of_an_object_once() {
    let funcs: Vec<Arc<Counted>> = (0..3).map(|_| Arc::default()).collect();
    let named = |(number, func): (usize, &Arc<Counted>)| -> (Box<str>, Arc<dyn IndexFunc>) {
        (number.to_string().into(), func.clone())
    };
    let store = Store::new();
    let indexes: Vec<_> = funcs.iter().enumerate().map(named).collect();
    store.add_indexes(&indexes).expect("new names");
    let thing = |values: &[u8]| {
        made(&Thing {
            name: 1,
            namespace: 1,
            values: values.to_vec(),
        })
    };
    let states = [&[1][..], &[1], &[2, 3], &[3, 4, 4], &[], &[5]];
    for (count, values) in states.into_iter().enumerate() {
        let object = thing(values);
        store.upsert(object.key().clone(), object);
        for (number, func) in funcs.iter().enumerate() {
            // Neither the old state nor the new one is evaluated under the lock.
            assert_eq!(func.0.load(Ordering::Relaxed), count + 1);
            let mut evaluated = store
                .index_values(&number.to_string())
                .expect("it is there");
            evaluated.sort();
            let mut wanted: Vec<_> = values.iter().map(|value| format!("v{value}")).collect();
            wanted.dedup();
            assert_eq!(
                evaluated.iter().map(|one| &**one).collect::<Vec<_>>(),
                wanted
            );
        }
    }
    store.delete("ns1/t1".into(), None);
    for (number, func) in funcs.iter().enumerate() {
        assert_eq!(func.0.load(Ordering::Relaxed), states.len());
        assert!(
            store
                .index_values(&number.to_string())
                .expect("it is there")
                .is_empty()
        );
    }
}

/// Lets others write in the middle of a build.
struct Writing(Arc<Store>, AtomicUsize);

impl IndexFunc for Writing {
    fn values(&self, object: &Arc<Object>) -> Result<Values, IndexFailed> {
        // Readers and writers of the store continue during a build, in every round of it.
        let round = self.1.fetch_add(1, Ordering::Relaxed);
        if let 0..20 = round {
            let name = u8::try_from(round).expect("small");
            let new = made(&Thing {
                name: name % 6,
                namespace: 0,
                values: vec![name],
            });
            self.0.upsert(new.key().clone(), new);
            self.0
                .delete(format!("t{}", (name + 3) % 6).as_str().into(), None);
        }
        if round == 10 {
            self.0.replace(self.0.entries(), None);
        }
        Ok(values_of(object)
            .iter()
            .map(|text| Arc::from(&**text))
            .collect())
    }
}

// behaviour: findings/FQ13
#[test]
fn a_build_lets_others_read_and_write_and_is_complete() {
    let store = Arc::new(Store::new());
    for name in 0..6 {
        let object = made(&Thing {
            name,
            namespace: 0,
            values: vec![name],
        });
        store.upsert(object.key().clone(), object);
    }
    let func: Arc<dyn IndexFunc> = Arc::new(Writing(store.clone(), AtomicUsize::new(0)));
    let twice = [
        ("values".into(), func.clone()),
        ("values".into(), func.clone()),
    ];
    assert!(store.add_indexes(&twice).is_err());
    store
        .add_indexes(&[("values".into(), func)])
        .expect("a new name");
    assert_eq!(index(&store, "values"), scan(&store, values_of));
}
