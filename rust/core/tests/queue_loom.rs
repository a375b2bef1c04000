//! Every interleaving, up to a bound, of a few threads on one queue: `cargo test --features loom --test queue_loom`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ctrlhost_core::clock::{Clock, ManualClock, Tick};
use ctrlhost_core::queue::{Drained, Options, Woken, WorkQueue};
use ctrlhost_core::ratelimit::ItemExponentialFailureRateLimiter;
use loom::thread;

type Queue = Arc<WorkQueue<u64>>;

const SECOND: Duration = Duration::from_secs(1);

fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.max_duration = Some(Duration::from_secs(60));
    builder.check(model);
}

fn queue() -> (Arc<ManualClock>, Queue) {
    let clock = Arc::new(ManualClock::new(Tick::ZERO));
    let limiter = Arc::new(ItemExponentialFailureRateLimiter::default());
    let queue = WorkQueue::new(
        &Options::default(),
        Arc::clone(&clock) as Arc<dyn Clock>,
        limiter,
    );
    (clock, queue)
}

/// The keys in processing, and how often each key was handed out.
#[derive(Default)]
struct Runs {
    held: [AtomicUsize; 4],
    runs: [AtomicUsize; 4],
}

impl Runs {
    fn begin(&self, key: u64) {
        let key = usize::try_from(key).expect("keys are small");
        assert_eq!(
            self.held[key].fetch_add(1, Ordering::SeqCst),
            0,
            "one key is handed out once at a time"
        );
        self.runs[key].fetch_add(1, Ordering::SeqCst);
    }

    fn end(&self, key: u64) {
        self.held[usize::try_from(key).expect("keys are small")].fetch_sub(1, Ordering::SeqCst);
    }

    fn of(&self, key: usize) -> usize {
        self.runs[key].load(Ordering::SeqCst)
    }
}

/// Process keys until the queue is over.
fn consume(queue: &Queue, runs: &Runs) {
    loop {
        match queue.get(None, |key| *key) {
            Ok((key, _)) => {
                runs.begin(key);
                runs.end(key);
                queue.lock().done(&key);
            }
            Err(woken) => {
                assert_eq!(woken, Woken::Over);
                return;
            }
        }
    }
}

fn spawn<T: 'static>(
    queue: &Queue,
    work: impl FnOnce(&Queue) -> T + 'static,
) -> thread::JoinHandle<T> {
    let queue = Arc::clone(queue);
    thread::spawn(move || work(&queue))
}

fn consumer(queue: &Queue, runs: &Arc<Runs>) -> thread::JoinHandle<()> {
    let runs = Arc::clone(runs);
    spawn(queue, move |queue| consume(queue, &runs))
}

#[test]
fn two_producers_and_two_consumers_lose_nothing() {
    explore(|| {
        let (_, queue) = queue();
        let runs = Arc::new(Runs::default());
        let consumers = [consumer(&queue, &runs), consumer(&queue, &runs)];
        let producer = spawn(&queue, |queue| {
            queue.lock().add(0, None, "");
            queue.lock().add(1, None, "");
        });
        queue.lock().add(0, Some(1), "");
        producer.join().expect("no panic");
        queue.lock().shut_down();
        for consumer in consumers {
            consumer.join().expect("no panic");
        }
        assert!(
            (1..=2).contains(&runs.of(0)),
            "adds collapse, or the second leads to one more run"
        );
        assert_eq!(runs.of(1), 1);
        assert_eq!(queue.lock().known(), 0);
    });
}

#[test]
fn a_drain_waits_for_all_keys_and_then_all_consumers_end() {
    explore(|| {
        let (_, queue) = queue();
        let runs = Arc::new(Runs::default());
        let consumers = [consumer(&queue, &runs), consumer(&queue, &runs)];
        queue.lock().add(0, None, "");
        queue.lock().add(1, None, "");
        let (token, _) = queue.begin_drain();
        assert_eq!(queue.wait_drained(token, None, None), Drained::Empty);
        assert_eq!((runs.of(0), runs.of(1)), (1, 1));
        for consumer in consumers {
            consumer.join().expect("no panic");
        }
    });
}

#[test]
fn a_key_added_again_while_processed_comes_back_even_during_a_drain() {
    explore(|| {
        let (_, queue) = queue();
        let runs = Arc::new(Runs::default());
        queue.lock().add(0, None, "");
        let taken = queue.lock().take(|key| *key);
        assert_eq!(taken.map(|(key, _)| key), Some(0));
        queue.lock().add(0, None, "");
        let consumers = [consumer(&queue, &runs), consumer(&queue, &runs)];
        let (token, _) = queue.begin_drain();
        queue.lock().done(&0);
        assert_eq!(queue.wait_drained(token, None, None), Drained::Empty);
        for consumer in consumers {
            consumer.join().expect("no panic");
        }
        assert_eq!(runs.of(0), 1);
    });
}

#[test]
fn shut_down_forces_a_drain_to_end() {
    explore(|| {
        let (_, queue) = queue();
        queue.lock().add(0, None, "");
        queue.lock().take(|key| *key);
        let drains = [(); 2].map(|()| {
            spawn(&queue, |queue| {
                let (token, _) = queue.begin_drain();
                queue.wait_drained(token, None, None)
            })
        });
        // A drain that begins after the force would wait for the key, which is done then.
        queue.lock().shut_down();
        queue.lock().done(&0);
        for drain in drains {
            assert!(matches!(
                drain.join().expect("no panic"),
                Drained::Forced | Drained::Empty
            ));
        }
    });
}

#[test]
fn a_delayed_key_reaches_a_consumer_that_waits() {
    explore(|| {
        let (clock, queue) = queue();
        let runs = Arc::new(Runs::default());
        let consumers = [consumer(&queue, &runs), consumer(&queue, &runs)];
        queue.lock().add_after(0, SECOND * 2, None, "");
        queue.lock().add_after(1, SECOND, None, "");
        clock.advance(SECOND);
        clock.advance(SECOND);
        queue.lock().shut_down();
        for consumer in consumers {
            consumer.join().expect("no panic");
        }
        assert_eq!((runs.of(0), runs.of(1)), (1, 1));
    });
}

// behaviour: workqueue/X16
#[test]
fn a_getter_that_times_out_loses_neither_a_key_nor_a_wake_up() {
    explore(|| {
        let (clock, queue) = queue();
        let deadline = queue.deadline(SECOND);
        let timed = spawn(&queue, move |queue| {
            queue.get(Some(deadline), |key| *key).is_ok()
        });
        let patient = spawn(&queue, |queue| queue.get(None, |key| *key).is_ok());
        let adder = spawn(&queue, |queue| queue.lock().add(0, None, ""));
        clock.advance(SECOND);
        adder.join().expect("no panic");
        if timed.join().expect("no panic") {
            queue.lock().add(1, None, "");
        }
        assert!(patient.join().expect("no panic"));
    });
}

#[test]
fn a_getter_that_leaves_wakes_another_one() {
    explore(|| {
        let (_, queue) = queue();
        let patient = spawn(&queue, |queue| queue.get(None, |key| *key).is_ok());
        let leaving = spawn(&queue, |queue| {
            queue.wait_ready(None, None);
            // As the main thread does when a signal handler raises.
            queue.lock().pass_on();
        });
        queue.lock().add(0, None, "");
        assert!(patient.join().expect("no panic"));
        queue.lock().done(&0);
        // The other getter may be too late to see the key: the shutdown releases it.
        queue.lock().shut_down();
        leaving.join().expect("no panic");
    });
}
