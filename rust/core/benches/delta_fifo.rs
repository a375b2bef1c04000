//! The delta FIFO: add, update and pop of a key.
#![allow(missing_docs, reason = "criterion's macros make public functions")]

mod cpu_time;
mod pods;

use std::hint::black_box;
use std::sync::Arc;

use cpu_time::CpuTime;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use ctrlhost_core::delta_fifo::DeltaFifo;
use ctrlhost_core::object::{Builder, Object};

const KEYS: usize = 1_000;

fn objects() -> Vec<Arc<Object>> {
    let mut builder = Builder::new("v1", "Pod");
    let parse = |number| {
        builder
            .parse(pods::pod(number, number, false).as_bytes())
            .map(Arc::new)
            .expect("a pod")
    };
    (0..KEYS).map(parse).collect()
}

fn delta_fifo(criterion: &mut Criterion<CpuTime>) {
    let objects = objects();
    let mut group = criterion.benchmark_group("delta_fifo");
    group.throughput(Throughput::Elements(KEYS as u64));
    let fill = |fifo: &DeltaFifo| {
        for object in &objects {
            fifo.add(object.key().clone(), object.clone());
            fifo.update(object.key().clone(), object.clone());
        }
    };
    group.bench_function("add, update and pop, one key at a time", |bencher| {
        let fifo = DeltaFifo::new(true);
        bencher.iter(|| {
            fill(&fifo);
            for _ in 0..KEYS {
                black_box(fifo.take_ready(1));
                fifo.finish();
            }
        });
    });
    group.bench_function("add, update and pop, in a batch", |bencher| {
        let fifo = DeltaFifo::new(true);
        bencher.iter(|| {
            fill(&fifo);
            black_box(fifo.take_ready(KEYS));
            fifo.finish();
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

criterion_group!(name = benches; config = Criterion::default().with_measurement(CpuTime); targets = delta_fifo);
criterion_main!(benches);
