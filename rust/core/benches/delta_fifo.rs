//! The delta FIFO: add, update and pop of a key.
#![allow(missing_docs, reason = "criterion's macros make public functions")]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use ctrlhost_core::delta_fifo::DeltaFifo;
use ctrlhost_core::object::{Builder, Object};

/// As many as for the Go peer, and as small: a delta FIFO does not read the content of objects.
const KEYS: usize = 100_000;

fn objects() -> Vec<Arc<Object>> {
    let mut builder = Builder::new("v1", "Pod");
    let parse = |number| {
        let pod = format!(
            r#"{{"metadata":{{"name":"pod-{number:06}","namespace":"namespace-{:02}","resourceVersion":"{number}"}}}}"#,
            number % 20
        );
        builder.parse(pod.as_bytes()).map(Arc::new).expect("a pod")
    };
    (0..KEYS).map(parse).collect()
}

fn delta_fifo(criterion: &mut Criterion) {
    let objects = objects();
    let mut group = criterion.benchmark_group("delta_fifo");
    group
        .throughput(Throughput::Elements(KEYS as u64))
        .sample_size(10);
    let fill = |fifo: &DeltaFifo| {
        for object in &objects {
            fifo.add(object.key().clone(), object.clone());
            fifo.update(object.key().clone(), object.clone());
        }
    };
    group.bench_function("add, update and pop, one key at a time", |bencher| {
        bencher.iter(|| {
            let fifo = DeltaFifo::new(true);
            fill(&fifo);
            for _ in 0..KEYS {
                drop(black_box(fifo.take_ready(1)));
            }
        });
    });
    group.bench_function("add, update and pop, in a batch", |bencher| {
        bencher.iter(|| {
            let fifo = DeltaFifo::new(true);
            fill(&fifo);
            drop(black_box(fifo.take_ready(KEYS)));
        });
    });
    group.bench_function("replace", |bencher| {
        let list = || {
            objects
                .iter()
                .map(|object| (object.key().clone(), object.clone()))
                .collect()
        };
        bencher.iter_batched(
            || (DeltaFifo::new(true), list()),
            |(fifo, list)| {
                fifo.replace(list, None, false);
                fifo
            },
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

criterion_group!(benches, delta_fifo);
criterion_main!(benches);
