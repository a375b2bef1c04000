//! Back-off by id, and the throttle.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ctrlhost_core::clock::{Clock, ManualClock, Tick, seconds};
use ctrlhost_core::flowcontrol::{Backoff, Throttle, TooLate};

const ID: &str = "id";

fn backoff(initial: f64, max: f64) -> (Arc<ManualClock>, Backoff) {
    let clock = Arc::new(ManualClock::new(Tick::ZERO));
    let backoff = Backoff::new(seconds(initial), seconds(max), Arc::clone(&clock) as _);
    (clock, backoff)
}

fn fail(clock: &ManualClock, backoff: &Backoff, times: usize) {
    for _ in 0..times {
        backoff.next(ID, clock.now());
    }
}

// behaviour: workqueue/B1
#[test]
fn each_failure_doubles_the_backoff_up_to_the_limit() {
    let (clock, backoff) = backoff(1.0, 50.0);
    let mut seen = Vec::new();
    for _ in 0..10 {
        seen.push(backoff.get(ID).as_secs());
        fail(&clock, &backoff, 1);
        clock.advance(backoff.get(ID));
    }
    assert_eq!(seen, [0, 1, 2, 4, 8, 16, 32, 50, 50, 50]);
    backoff.reset(ID);
    assert_eq!(backoff.get(ID), Duration::ZERO);
}

// behaviour: workqueue/B2
#[test]
fn a_backoff_holds_for_its_time_and_not_for_an_id_that_was_quiet() {
    let (clock, backoff) = backoff(1.0, 5.0);
    fail(&clock, &backoff, 4);
    let updated = clock.now();
    assert!(backoff.is_in_backoff_since(ID, updated));
    clock.advance(seconds(11.0));
    assert!(!backoff.is_in_backoff_since_update(ID, clock.now()));
}

// behaviour: workqueue/B3
#[test]
fn a_failure_after_a_short_quiet_time_stays_at_the_limit() {
    let (clock, backoff) = backoff(1.0, 5.0);
    fail(&clock, &backoff, 4);
    clock.advance(seconds(6.0));
    fail(&clock, &backoff, 1);
    assert_eq!(backoff.get(ID), seconds(5.0));
}

// behaviour: workqueue/B4
#[test]
fn what_was_quiet_for_twice_the_limit_is_forgotten() {
    let (clock, backoff) = backoff(1.0, 5.0);
    fail(&clock, &backoff, 4);
    clock.advance(seconds(6.0));
    backoff.gc();
    assert_eq!(backoff.get(ID), seconds(5.0));
    clock.advance(seconds(6.0));
    backoff.gc();
    assert_eq!(backoff.get(ID), Duration::ZERO);
}

// behaviour: workqueue/B5
#[test]
fn another_rule_forgets_at_another_time() {
    for (custom, kept, further) in [(false, 5.0, 101.0), (true, 101.0, 501.0)] {
        let (clock, mut backoff) = backoff(1.0, 50.0);
        if custom {
            backoff = backoff.with_expiry(|quiet, _| quiet >= Duration::from_secs(200));
        }
        fail(&clock, &backoff, 1);
        clock.advance(seconds(kept));
        backoff.gc();
        assert_eq!(backoff.get(ID), seconds(1.0));
        clock.advance(seconds(further));
        backoff.gc();
        assert_eq!(backoff.get(ID), Duration::ZERO);
    }
}

// behaviour: workqueue/B6
#[test]
fn one_who_goes_on_whenever_it_may_goes_on_at_these_times() {
    let (clock, backoff) = backoff(1.0, 10.0);
    let mut free = Vec::new();
    for second in (0..=35).chain([56, 57]) {
        clock.advance(Tick::from_nanos(second * 1_000_000_000).since(clock.now()));
        if !backoff.is_in_backoff_since_update(ID, clock.now()) {
            free.push((second, backoff.get(ID).as_secs()));
            fail(&clock, &backoff, 1);
        }
    }
    let expected = [
        (0, 0),
        (1, 1),
        (3, 2),
        (7, 4),
        (15, 8),
        (25, 10),
        (35, 10),
        (56, 10),
        (57, 1),
    ];
    assert_eq!(free, expected);
}

// behaviour: workqueue/B7
#[test]
fn jitter_adds_a_part_of_the_backoff_before() {
    let random = std::sync::Mutex::new(0.1);
    let (clock, backoff) = backoff(0.1, 60.0);
    let backoff = backoff.with_jitter(0.1, move || {
        let mut random = random.lock().expect("nobody panics with it");
        *random = (*random + 0.618_034) % 1.0;
        *random
    });
    assert_eq!(backoff.get(ID), Duration::ZERO);
    fail(&clock, &backoff, 1);
    let mut former = backoff.get(ID);
    assert!(former > seconds(0.1) && former <= seconds(0.11));
    for _ in 0..10 {
        fail(&clock, &backoff, 1);
        let next = backoff.get(ID);
        assert!(next == seconds(60.0) || (next > former * 2 && next <= former.mul_f64(2.1)));
        former = next;
    }
}

// behaviour: workqueue/B8
#[test]
fn a_failure_after_a_long_quiet_time_starts_over() {
    for (custom, quiet) in [(false, 101.0), (true, 9.0)] {
        let (clock, mut backoff) = backoff(1.0, 50.0);
        if custom {
            backoff = backoff.with_expiry(|quiet, _| quiet >= Duration::from_secs(8));
        }
        fail(&clock, &backoff, 1);
        clock.advance(seconds(5.0));
        fail(&clock, &backoff, 1);
        assert!(backoff.get(ID) >= seconds(2.0));
        clock.advance(seconds(quiet));
        fail(&clock, &backoff, 1);
        assert_eq!(backoff.get(ID), seconds(1.0));
    }
}

fn throttle(qps: f64, burst: u32) -> (Arc<ManualClock>, Arc<Throttle>) {
    let clock = Arc::new(ManualClock::new(Tick::ZERO));
    let throttle = Throttle::new(qps, burst, Arc::clone(&clock) as _);
    (clock, throttle)
}

/// Steps the clock as long as threads sleep on it, and says how far.
fn step_until<T>(clock: &ManualClock, thread: &thread::JoinHandle<T>) -> Duration {
    while !thread.is_finished() {
        if clock.waiters() > 0 {
            clock.advance(Duration::from_millis(1));
        }
        thread::yield_now();
    }
    clock.now().since(Tick::ZERO)
}

// behaviour: workqueue/T1
#[test]
fn ten_threads_pass_no_faster_than_one() {
    let (clock, throttle) = throttle(100.0, 1);
    assert!(throttle.try_accept());
    let callers = thread::spawn(move || {
        thread::scope(|scope| {
            for _ in 0..10 {
                scope.spawn(|| (0..10).for_each(|_| throttle.accept()));
            }
        });
    });
    assert!(step_until(&clock, &callers) >= seconds(0.99));
}

// behaviour: workqueue/T2
// behaviour: workqueue/T3
#[test]
fn a_burst_passes_and_then_one_a_second() {
    let (_, wide) = throttle(1.0, 3);
    assert_eq!(
        [(); 4].map(|()| wide.try_accept()),
        [true, true, true, false]
    );
    let (clock, narrow) = throttle(1.0, 1);
    assert_eq!([(); 2].map(|()| narrow.try_accept()), [true, false]);
    clock.advance(seconds(2.0));
    assert!(narrow.try_accept());
    assert!((narrow.qps() - 1.0).abs() < f64::EPSILON);
}

// behaviour: workqueue/T4
#[test]
fn callers_wait_for_their_tokens() {
    let (clock, throttle) = throttle(10.0, 5);
    let caller = thread::spawn(move || (0..16).for_each(|_| throttle.accept()));
    assert!(step_until(&clock, &caller) >= seconds(1.0));
}

// behaviour: workqueue/T7
#[test]
fn a_wait_that_would_end_too_late_is_not_begun() {
    let (clock, throttle) = throttle(0.0001, 1);
    let deadline = Some(clock.now().after(seconds(1.0)));
    assert_eq!(
        [(); 2].map(|()| throttle.wait(deadline)),
        [Ok(()), Err(TooLate)]
    );
}

// behaviour: workqueue/T8
#[test]
fn tokens_lose_no_precision() {
    let (clock, throttle) = throttle(1.0 / 1.031_425, 1);
    for _ in 0..60 {
        assert!(throttle.try_accept());
        clock.advance(seconds(2.0));
    }
}
