//! The core of the queue without Python: the cost of a cycle, of a burst and of a hand-over between threads.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use ctrlhost_core::clock::SystemClock;
use ctrlhost_core::key::QueueKey;
use ctrlhost_core::queue::{Options, WorkQueue};
use ctrlhost_core::ratelimit::ItemExponentialFailureRateLimiter;

/// Like Go's strings, these are copied by reference.
type Key = &'static str;

fn queue<K: QueueKey + Send + 'static>(options: &Options) -> Arc<WorkQueue<K>> {
    WorkQueue::new(
        options,
        Arc::new(SystemClock),
        Arc::new(ItemExponentialFailureRateLimiter::default()),
    )
}

fn keys(count: usize) -> Vec<Key> {
    (0..count)
        .map(|number| &*format!("namespace-{}/name-{number:06}", number % 20).leak())
        .collect()
}

fn cycle(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("cycle");
    group.throughput(Throughput::Elements(1));
    let fair = Options {
        fair: true,
        ..Options::default()
    };
    let metrics = Options {
        metrics: true,
        ..Options::default()
    };
    for (name, options) in [
        ("nameless", Options::default()),
        ("with metrics", metrics),
        ("fair", fair),
    ] {
        let (queue, keys) = (queue(&options), keys(1000));
        let mut next = keys.iter().copied().cycle();
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                queue.lock().add(next.next().unwrap_or_default(), None, "");
                let taken = queue
                    .lock()
                    .take(|key| *key)
                    .map(|(key, _)| key)
                    .unwrap_or_default();
                black_box(queue.forget(&taken).is_ok());
                queue.lock().done(&taken)
            });
        });
    }
    group.finish();
}

fn burst(criterion: &mut Criterion) {
    const COUNT: usize = 100_000;
    let mut group = criterion.benchmark_group("burst");
    group
        .throughput(Throughput::Elements(COUNT as u64))
        .sample_size(10);
    let all = keys(COUNT);
    for (name, priorities) in [
        ("one priority", 1),
        ("four priorities", 4),
        ("a thousand priorities", 1000),
    ] {
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                || (queue(&Options::default()), all.clone()),
                |(queue, keys)| {
                    let mut locked = queue.lock();
                    for (number, key) in keys.into_iter().enumerate() {
                        locked.add(key, i32::try_from(number % priorities).ok(), "");
                    }
                    while let Some((key, _)) = locked.take(|key| *key) {
                        black_box(locked.done(&key));
                    }
                },
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

fn delays(criterion: &mut Criterion) {
    const COUNT: u64 = 1_000_000;
    let mut group = criterion.benchmark_group("delays");
    group
        .throughput(Throughput::Elements(COUNT))
        .sample_size(10);
    group.bench_function("a million delayed keys", |bencher| {
        bencher.iter_batched(
            || queue(&Options::default()),
            |queue| {
                let mut locked = queue.lock();
                for key in 0..COUNT {
                    locked.add_after(key, Duration::from_secs(600 + key * 7919 % 1000), None, "");
                }
                drop(locked);
                queue
            },
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

/// Four producers and four consumers; the total time divided by the number of keys.
fn threads(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("threads");
    group.throughput(Throughput::Elements(1)).sample_size(10);
    group.bench_function("4 producers, 4 consumers", |bencher| {
        bencher.iter_custom(|count| {
            let queue = queue(&Options::default());
            let share = usize::try_from(count / 4 + 1).unwrap_or(usize::MAX);
            let keys: Vec<Vec<Key>> = (0..4)
                .map(|producer| {
                    (0..share)
                        .map(|number| &*format!("{producer}/{number}").leak())
                        .collect()
                })
                .collect();
            let start = Instant::now();
            std::thread::scope(|scope| {
                let producers: Vec<_> = keys
                    .iter()
                    .map(|keys| {
                        let queue = &queue;
                        scope.spawn(move || {
                            for key in keys {
                                queue.lock().add(*key, None, "");
                            }
                        })
                    })
                    .collect();
                for _ in 0..4 {
                    scope.spawn(|| {
                        while let Ok((key, _)) = queue.get(None, |key| *key) {
                            queue.lock().done(&key);
                        }
                    });
                }
                for producer in producers {
                    producer.join().ok();
                }
                queue.lock().shut_down();
            });
            start.elapsed()
        });
    });
    group.finish();
}

criterion_group!(benches, cycle, burst, delays, threads);
criterion_main!(benches);
