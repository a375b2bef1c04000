//! The indexed store: writes, lookups, lists.
#![allow(missing_docs, reason = "criterion's macros make public functions")]

mod cpu_time;
mod pods;

use std::hint::black_box;
use std::sync::Arc;

use cpu_time::CpuTime;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ctrlhost_core::json::path::Path;
use ctrlhost_core::object::{Builder, Object};
use ctrlhost_core::store::{IndexFunc, NamespaceIndex, PathIndex, Store, Write};

const OBJECTS: usize = 10_000;

fn store(criterion: &mut Criterion<CpuTime>) {
    let mut builder = Builder::new("v1", "Pod");
    let mut pod = |number, version| -> Arc<Object> {
        builder
            .parse(pods::pod(number, version, false).as_bytes())
            .map(Arc::new)
            .expect("a pod")
    };
    let turns: [Vec<Arc<Object>>; 2] =
        [1, 2].map(|version| (0..OBJECTS).map(|number| pod(number, version)).collect());
    let store = Store::new();
    let namespace: Arc<dyn IndexFunc> = Arc::new(NamespaceIndex);
    let node: Arc<dyn IndexFunc> =
        Arc::new(PathIndex(Path::parse("spec.nodeName").expect("a path")));
    store
        .add_indexes(&[("namespace".into(), namespace)])
        .expect("the store is new");
    let mut group = criterion.benchmark_group("store");
    group.throughput(Throughput::Elements(OBJECTS as u64));
    let mut turn = 0;
    let mut write = || {
        turn += 1;
        for batch in turns[turn % 2].chunks(1000) {
            store.apply(
                batch
                    .iter()
                    .map(|one| Write::Upsert(one.key().clone(), one.clone()))
                    .collect(),
            );
        }
    };
    group.bench_function("upsert in batches, by namespace", |bencher| {
        bencher.iter(&mut write);
    });
    group.bench_function("get", |bencher| {
        bencher.iter(|| {
            for object in &turns[0] {
                black_box(store.get(object.key()));
            }
        });
    });
    group.bench_function("list", |bencher| bencher.iter(|| store.list()));
    group.bench_function("list of a namespace", |bencher| {
        bencher.iter(|| store.by_index("namespace", "team-7"));
    });
    store
        .add_indexes(&[("node".into(), node)])
        .expect("the name is new");
    group.bench_function("upsert in batches, by namespace and a path", |bencher| {
        bencher.iter(&mut write);
    });
    group.finish();
}

criterion_group!(name = benches; config = Criterion::default().with_measurement(CpuTime); targets = store);
criterion_main!(benches);
