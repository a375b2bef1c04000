//! From bytes to cached objects and queued requests.
#![allow(missing_docs, reason = "criterion's macros make public functions")]

mod cpu_time;
mod pods;

use std::hint::black_box;
use std::sync::Arc;

use cpu_time::CpuTime;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ctrlhost_core::decode::FrameDecoder;
use ctrlhost_core::handlers::{Mapping, QueueHandler, RequestRef, RequestSink};
use ctrlhost_core::informer::{Config, Handler, Resync, SharedInformer};
use ctrlhost_core::store::{IndexFunc, NamespaceIndex, Store};

struct Count;

impl RequestSink for Count {
    fn add_requests(&self, requests: &[RequestRef<'_>], _priority: Option<i32>) {
        black_box(requests);
    }
}

fn informer() -> SharedInformer {
    let store = Arc::new(Store::new());
    let index: Arc<dyn IndexFunc> = Arc::new(NamespaceIndex);
    store
        .add_indexes(&[("namespace".into(), index)])
        .expect("the store is new");
    let config = Config::new("pods", "v1", "Pod");
    let informer = SharedInformer::new(config, store);
    let handler = QueueHandler::new(Arc::new(Count), Mapping::Object);
    informer.add_handler(Handler::Queue(handler), Resync::Informer, 0.0);
    informer
}

const EVENTS: usize = 2_000;

fn watch(criterion: &mut Criterion<CpuTime>) {
    let mut group = criterion.benchmark_group("watch");
    group.sample_size(20);
    group.throughput(Throughput::Elements(EVENTS as u64));
    for (name, managed) in [("5KB", false), ("managed fields", true)] {
        let frames: Vec<String> = (0..2)
            .map(|turn| {
                (0..EVENTS)
                    .map(|number| pods::frame(number, turn * EVENTS + number + 1, managed))
                    .collect()
            })
            .collect();
        println!("{name}: {} bytes per frame", frames[0].len() / EVENTS);
        group.bench_function(format!("{name}, feed and process"), |bencher| {
            let informer = informer();
            let mut turn = 0;
            bencher.iter(|| {
                turn += 1;
                for chunk in frames[turn % 2].as_bytes().chunks(64 << 10) {
                    informer.feed_watch(chunk).expect("the frames are good");
                    informer.process();
                }
            });
        });
        group.bench_function(format!("{name}, frames only"), |bencher| {
            let mut decoder = FrameDecoder::new(1 << 20);
            bencher.iter(|| {
                decoder
                    .feed(frames[0].as_bytes(), &mut |frame| {
                        black_box(frame.kind);
                        true
                    })
                    .expect("the frames are good");
            });
        });
    }
}

fn list(criterion: &mut Criterion<CpuTime>) {
    let mut group = criterion.benchmark_group("list");
    group.sample_size(10);
    group.throughput(Throughput::Elements(10_000));
    let page = pods::page(0..10_000, true);
    let relist = |informer: &SharedInformer| {
        informer.begin_list();
        for chunk in page.as_bytes().chunks(64 << 10) {
            informer.feed_list(chunk).expect("the page is good");
        }
        let meta = informer.end_page().expect("the page is good");
        informer
            .replace(&meta.resource_version)
            .expect("there is no budget");
        informer.process()
    };
    group.bench_function("first", |bencher| bencher.iter(|| relist(&informer())));
    group.bench_function("again, nothing changed", |bencher| {
        let informer = informer();
        relist(&informer);
        bencher.iter(|| relist(&informer));
    });
}

criterion_group!(name = benches; config = Criterion::default().with_measurement(CpuTime); targets = watch, list);
criterion_main!(benches);
