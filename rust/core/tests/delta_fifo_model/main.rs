//! The delta FIFO against a naive twin: every sequence of operations has the same deltas in the same order.

mod twin;

use std::collections::BTreeMap;
use std::sync::Arc;

use ctrlhost_core::delta_fifo::{Delta, DeltaFifo, DeltaObject, DeltaType};
use ctrlhost_core::object::{Builder, Key, Object};
use ctrlhost_core::store::Store;
use proptest::prelude::*;
use twin::{Seen, Twin};

#[derive(Clone, Debug)]
enum Step {
    Add(u8),
    Update(u8),
    Delete(u8),
    DeleteTombstone(u8),
    Replace(Vec<u8>),
    Resync,
    /// Take a key and put its newest state into the known objects, or remove it from them.
    Pop,
    /// Run the inner steps between taking a key and finishing it.
    PopAround(Vec<Step>),
}

fn object(builder: &mut Builder, name: u8, version: u32) -> Arc<Object> {
    let text = format!(r#"{{"metadata":{{"name":"k{name}","resourceVersion":"{version}"}}}}"#);
    Arc::new(builder.parse(text.as_bytes()).expect("an object"))
}

fn seen(delta: &Delta) -> Seen {
    let version = delta
        .object
        .object()
        .expect("never without a state here")
        .resource_version()
        .parse();
    (
        delta.kind,
        matches!(delta.object, DeltaObject::Tombstone(_)),
        version.expect("a number"),
    )
}

struct Both {
    fifo: Arc<DeltaFifo>,
    known: Store,
    twin: Twin,
    builder: Builder,
    version: u32,
}

impl Both {
    fn new() -> Self {
        Self {
            fifo: Arc::new(DeltaFifo::new(true)),
            known: Store::new(),
            twin: Twin::default(),
            builder: Builder::new("", ""),
            version: 0,
        }
    }

    fn next(&mut self, name: u8) -> (Key, Arc<Object>, String, u32) {
        self.version += 1;
        let object = object(&mut self.builder, name, self.version);
        (
            object.key().clone(),
            object,
            format!("k{name}"),
            self.version,
        )
    }

    fn run(&mut self, step: &Step) {
        match step {
            Step::Add(name) => {
                let (key, object, name, version) = self.next(*name);
                self.fifo.add(key, object);
                self.twin.populated = true;
                self.twin.push(&name, (DeltaType::Added, false, version));
            }
            Step::Update(name) => {
                let (key, object, name, version) = self.next(*name);
                self.fifo.update(key, object);
                self.twin.populated = true;
                self.twin.push(&name, (DeltaType::Updated, false, version));
            }
            Step::Delete(name) | Step::DeleteTombstone(name) => {
                let tombstone = matches!(step, Step::DeleteTombstone(_));
                let (key, object, name, version) = self.next(*name);
                let deleted = if tombstone {
                    DeltaObject::Tombstone(Some(object))
                } else {
                    DeltaObject::Live(object)
                };
                self.fifo.delete(key, deleted, Some(&self.known));
                self.twin.populated = true;
                if self.twin.busy(&name) || self.twin.known.contains_key(&name) {
                    self.twin
                        .push(&name, (DeltaType::Deleted, tombstone, version));
                }
            }
            Step::Replace(names) => {
                let listed_objects: Vec<_> = names.iter().map(|name| self.next(*name)).collect();
                let listed: Vec<_> = listed_objects
                    .iter()
                    .map(|(_, _, name, version)| (name.clone(), *version))
                    .collect();
                let objects = listed_objects
                    .into_iter()
                    .map(|(key, listed_objects, ..)| (key, listed_objects))
                    .collect();
                self.fifo.replace(objects, Some(&self.known), false);
                self.twin.replace(&listed);
            }
            Step::Resync => {
                self.fifo.resync(&self.known);
                for (key, version) in self.twin.known.clone() {
                    if !self.twin.busy(&key) {
                        self.twin.push(&key, (DeltaType::Sync, false, version));
                    }
                }
            }
            Step::Pop => self.pop(&[]),
            Step::PopAround(inner) => self.pop(inner),
        }
        self.compare();
    }

    fn pop(&mut self, inner: &[Step]) {
        let fifo = self.fifo.clone();
        let Some(mut batch) = fifo.take_ready(1) else {
            assert!(self.twin.queue.is_empty());
            return;
        };
        let item = batch.take_items().remove(0);
        let (key, deltas) = self.twin.queue.remove(0);
        assert_eq!(*item.key, *key);
        assert_eq!(item.deltas.iter().map(seen).collect::<Vec<_>>(), deltas);
        assert_eq!(item.is_initial, self.twin.initial > 0);
        let newest = *deltas.last().expect("never empty");
        self.twin.in_flight = Some((key.clone(), newest));
        for step in inner {
            self.run(step);
        }
        let object = item
            .deltas
            .last()
            .expect("never empty")
            .object
            .object()
            .expect("a state")
            .clone();
        if newest.0 == DeltaType::Deleted {
            self.known.delete(item.key, None);
            self.twin.known.remove(&key);
        } else {
            self.known.upsert(item.key, object);
            self.twin.known.insert(key, newest.2);
        }
        drop(batch);
        self.twin.in_flight = None;
        self.twin.initial = self.twin.initial.saturating_sub(1);
    }

    fn compare(&self) {
        let keys: Vec<String> = self.fifo.keys().iter().map(ToString::to_string).collect();
        assert_eq!(
            keys,
            self.twin
                .queue
                .iter()
                .map(|(key, _)| key.clone())
                .collect::<Vec<_>>()
        );
        assert_eq!(
            self.fifo.has_synced(),
            self.twin.populated && self.twin.initial == 0
        );
        assert_eq!(self.fifo.len(), self.twin.queue.len());
    }
}

fn plain_step() -> impl Strategy<Value = Step> {
    let name = 0_u8..5;
    prop_oneof![
        3 => name.clone().prop_map(Step::Add),
        3 => name.clone().prop_map(Step::Update),
        3 => name.clone().prop_map(Step::Delete),
        1 => name.clone().prop_map(Step::DeleteTombstone),
        2 => prop::collection::vec(name, 0..5).prop_map(Step::Replace),
        1 => Just(Step::Resync),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => plain_step(),
        4 => Just(Step::Pop),
        1 => prop::collection::vec(plain_step(), 1..4).prop_map(Step::PopAround),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    // behaviour: informers/DF4
    // behaviour: informers/DF9
    // behaviour: informers/DF22
    // behaviour: informers/DF23
    // behaviour: informers/DF25
    // behaviour: informers/DF26
    // behaviour: informers/RF2
    // behaviour: informers/RF3
    // behaviour: informers/RF5
    // behaviour: informers/RF8
    // behaviour: informers/RF9
    // behaviour: informers/RF14
    #[test]
    fn the_fifo_behaves_like_its_naive_twin(steps in prop::collection::vec(step(), 1..60)) {
        let mut both = Both::new();
        for step in &steps {
            both.run(step);
        }
        // Whatever happened, processing the whole queue ends with the objects that the twin knows.
        while !both.twin.queue.is_empty() {
            both.run(&Step::Pop);
        }
        let known: BTreeMap<String, u32> = both.known.entries().into_iter()
            .map(|(key, object)| (key.to_string(), object.resource_version().parse().expect("a number"))).collect();
        prop_assert_eq!(known, both.twin.known);
    }
}

/// Return the batches: each item as key and version, those of the first list with an exclamation mark.
fn batches(fifo: &DeltaFifo, max: usize) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(batch) = fifo.take_ready(max) {
        let items = batch.iter().map(|item| {
            let (.., version) = seen(item.deltas.last().expect("never empty"));
            let flag = if item.is_initial { "!" } else { "" };
            format!("{}@{version}{flag}", item.key)
        });
        all.push(items.collect::<Vec<_>>().join(" "));
    }
    all
}

/// `take_ready` never returns a key twice, since the deltas of a key are one item; so what upstream splits into
/// batches is merged here, and each item instead of the batch has the flag.
// behaviour: informers/RF18
// behaviour: informers/RF19
// behaviour: informers/RF20
// behaviour: informers/RF21
// behaviour: informers/RF23
#[test]
fn a_batch_has_different_keys_and_each_item_is_flagged_if_it_is_of_the_first_list() {
    type Case<'a> = (&'a [u8], &'a [u8], usize, &'a [&'a str]);
    let cases: [Case<'_>; 7] = [
        (&[1, 2, 3], &[], 9, &["k1@1! k2@2! k3@3!"]),
        (&[1, 2], &[3, 4], 2, &["k1@1! k2@2!", "k3@3 k4@4"]),
        (&[1], &[1, 1], 9, &["k1@3!"]),
        (&[1, 2], &[2, 3], 9, &["k1@1! k2@3! k3@4"]),
        (&[1, 2, 3], &[], 2, &["k1@1! k2@2!", "k3@3!"]),
        (&[1, 2, 3], &[4], 2, &["k1@1! k2@2!", "k3@3! k4@4"]),
        (&[], &[1, 2, 3], 2, &["k1@1 k2@2", "k3@3"]),
    ];
    for (listed, updated, max, expected) in cases {
        let mut both = Both::new();
        both.run(&Step::Replace(listed.to_vec()));
        for name in updated {
            both.run(&Step::Update(*name));
        }
        assert_eq!(batches(&both.fifo, max), expected);
    }
}

/// An update of a listed key that was not taken yet is the last delta of its item, for which upstream has a batch of
/// its own; after the list was taken, it is such a batch here too.
// behaviour: informers/RF22
#[test]
fn an_update_of_a_listed_key_comes_after_the_list() {
    let mut both = Both::new();
    both.run(&Step::Replace(vec![1, 2, 3]));
    both.run(&Step::Update(2));
    let items = both.fifo.take_ready(usize::MAX).expect("keys are queued");
    let kinds = |at: usize| items[at].deltas.iter().map(seen).collect::<Vec<Seen>>();
    let (replaced, updated) = (DeltaType::Replaced, (DeltaType::Updated, false, 4));
    assert_eq!(kinds(0), [(replaced, false, 1)]);
    assert_eq!(kinds(1), [(replaced, false, 2), updated]);
    assert_eq!(kinds(2), [(replaced, false, 3)]);
    assert!(items.iter().all(|item| item.is_initial));

    let mut both = Both::new();
    both.run(&Step::Replace(vec![1, 2, 3]));
    assert_eq!(batches(&both.fifo, 9), ["k1@1! k2@2! k3@3!"]);
    let (key, made, ..) = both.next(2);
    both.fifo.update(key, made);
    let items = both.fifo.take_ready(9).expect("a key is queued");
    assert_eq!(items.len(), 1);
    assert_eq!(
        (seen(&items[0].deltas[0]), items[0].is_initial),
        (updated, false)
    );
}
