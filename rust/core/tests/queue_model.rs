//! The queue against a naive twin: every operation, in any order, has the same results.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use ctrlhost_core::clock::{Clock, ManualClock, Tick};
use ctrlhost_core::queue::{Options, Part, Snapshot, WorkQueue};
use ctrlhost_core::ratelimit::ItemExponentialFailureRateLimiter;
use proptest::prelude::*;

const BASE: Duration = Duration::from_millis(5);
const MAX: Duration = Duration::from_secs(2);
const AGING: Duration = Duration::from_secs(3);

#[derive(Clone, Debug)]
enum Step {
    Add(u64, Option<i32>),
    AddAfter(u64, u64, Option<i32>),
    Fail(u64, Option<i32>),
    Forget(u64),
    Get,
    Done(u64),
    Advance(u64),
    ShutDown,
}

fn steps(keys: u64, priorities: Range<i32>) -> impl Strategy<Value = Vec<Step>> {
    let key = move || 0..keys;
    let priority = move || proptest::option::of(priorities.clone());
    let step = prop_oneof![
        6 => (key(), priority()).prop_map(|(key, priority)| Step::Add(key, priority)),
        4 => (key(), 0..3000_u64, priority()).prop_map(|(key, delay, priority)| Step::AddAfter(key, delay, priority)),
        4 => (key(), priority()).prop_map(|(key, priority)| Step::Fail(key, priority)),
        1 => key().prop_map(Step::Forget),
        8 => Just(Step::Get),
        6 => key().prop_map(Step::Done),
        3 => (1..2000_u64).prop_map(Step::Advance),
    ];
    (proptest::collection::vec(step, 0..120), any::<bool>()).prop_map(|(mut steps, shut_down)| {
        if shut_down {
            steps.insert(steps.len() * 2 / 3, Step::ShutDown);
        }
        steps
    })
}

#[derive(Clone, Debug)]
struct Line {
    key: u64,
    priority: i32,
    since: u64,
    /// When it came to its place: a raise renews it.
    place: u64,
    /// When it was queued.
    entered: u64,
}

#[derive(Clone, Debug)]
struct Delayed {
    key: u64,
    due: u64,
    number: u64,
    /// Those of all adds, the unnamed ones first.
    priorities: Vec<Option<i32>>,
    back_off: bool,
}

/// As slow and as simple as possible. Times are in milliseconds.
#[derive(Default)]
struct Twin {
    now: u64,
    counter: u64,
    line: Vec<Line>,
    /// The keys in processing, and, if one was added again, its priority and since when.
    held: Vec<(u64, Option<(i32, u64)>)>,
    delayed: Vec<Delayed>,
    failures: std::collections::HashMap<u64, u32>,
    last_aged: Option<u64>,
    shut_down: bool,
    adds: u64,
    retries: u64,
    spurious_done: u64,
}

impl Twin {
    fn count(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    fn promote(&mut self) {
        self.delayed
            .sort_by_key(|delayed| (delayed.due, delayed.number));
        while self
            .delayed
            .first()
            .is_some_and(|first| first.due <= self.now)
        {
            let delayed = self.delayed.remove(0);
            for priority in delayed.priorities {
                self.need(delayed.key, priority, delayed.due);
            }
        }
    }

    fn need(&mut self, key: u64, priority: Option<i32>, since: u64) {
        let place = self.count();
        if let Some(line) = self.line.iter_mut().find(|line| line.key == key) {
            if priority.is_some_and(|priority| priority > line.priority) {
                line.priority = priority.unwrap_or_default();
                line.place = place;
            }
        } else if let Some((_, again)) = self.held.iter_mut().find(|(held, _)| *held == key) {
            self.adds += u64::from(again.is_none());
            *again = Some(match *again {
                None => (priority.unwrap_or(0), since),
                Some((former, since)) => (former.max(priority.unwrap_or(former)), since),
            });
        } else {
            self.adds += 1;
            self.push(key, priority.unwrap_or(0), since, place);
        }
    }

    fn push(&mut self, key: u64, priority: i32, since: u64, place: u64) {
        self.line.push(Line {
            key,
            priority,
            since,
            place,
            entered: place,
        });
    }

    fn delay(&mut self, key: u64, millis: u64, priority: Option<i32>, back_off: bool) {
        self.retries += u64::from(millis > 0);
        if millis == 0 {
            return self.need(key, priority, self.now);
        }
        let due = self.now + millis;
        let number = self.count();
        if let Some(delayed) = self.delayed.iter_mut().find(|delayed| delayed.key == key) {
            delayed.due = delayed.due.min(due);
            delayed.back_off |= back_off;
            delayed.priorities.push(priority);
            delayed.priorities.sort_unstable();
        } else {
            self.delayed.push(Delayed {
                key,
                due,
                number,
                priorities: vec![priority],
                back_off,
            });
        }
    }

    fn get(&mut self) -> Option<(u64, i32)> {
        let oldest = (0..self.line.len()).min_by_key(|&index| self.line[index].entered)?;
        let first = (0..self.line.len())
            .min_by_key(|&index| (-self.line[index].priority, self.line[index].place))?;
        let aging = u64::try_from(AGING.as_millis()).unwrap_or(u64::MAX);
        let rested = self.last_aged.is_none_or(|last| self.now - last >= aging);
        let waited = self.now - self.line[oldest].since >= aging;
        let index = if rested && waited && oldest != first {
            self.last_aged = Some(self.now);
            oldest
        } else {
            first
        };
        let line = self.line.remove(index);
        self.held.push((line.key, None));
        Some((line.key, line.priority))
    }

    fn done(&mut self, key: u64) {
        let Some(index) = self.held.iter().position(|(held, _)| *held == key) else {
            self.spurious_done += 1;
            return;
        };
        if let (_, Some((priority, since))) = self.held.remove(index) {
            let place = self.count();
            self.push(key, priority, since, place);
        }
    }
}

struct Pair {
    clock: Arc<ManualClock>,
    queue: Arc<WorkQueue<u64>>,
    twin: Twin,
}

impl Pair {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::new(Tick::ZERO));
        let options = Options {
            metrics: true,
            fair: false,
            aging: Some(AGING),
        };
        let limiter = Arc::new(ItemExponentialFailureRateLimiter::new(BASE, MAX));
        let queue = WorkQueue::new(&options, Arc::clone(&clock) as Arc<dyn Clock>, limiter);
        Self {
            clock,
            queue,
            twin: Twin::default(),
        }
    }

    fn step(&mut self, step: &Step) {
        let (queue, twin) = (&self.queue, &mut self.twin);
        twin.promote();
        match *step {
            Step::Add(key, priority) => {
                queue.lock().add(key, priority, "");
                if !twin.shut_down {
                    twin.need(key, priority, twin.now);
                }
            }
            Step::AddAfter(key, millis, priority) => {
                queue
                    .lock()
                    .add_after(key, Duration::from_millis(millis), priority, "");
                if !twin.shut_down {
                    twin.delay(key, millis, priority, false);
                }
            }
            Step::Fail(key, priority) => {
                queue
                    .add_rate_limited(&key, priority)
                    .expect("the limiter is one of ours");
                let waits = twin
                    .delayed
                    .iter()
                    .any(|delayed| delayed.key == key && delayed.back_off);
                if !twin.shut_down && !waits {
                    let failures = twin.failures.entry(key).or_default();
                    let wait = (5_u64 << *failures).min(2000);
                    *failures += 1;
                    twin.delay(key, wait, priority, true);
                }
            }
            Step::Forget(key) => {
                queue.forget(&key).expect("the limiter is one of ours");
                twin.failures.remove(&key);
                for delayed in twin.delayed.iter_mut().filter(|one| one.key == key) {
                    delayed.back_off = false;
                }
            }
            Step::Get => {
                let taken = queue
                    .lock()
                    .take(|key| *key)
                    .map(|(key, taken)| (key, taken.priority));
                assert_eq!(taken, twin.get());
            }
            Step::Done(key) => {
                // As the border does: the key that was handed out last needs no look-up.
                let mut guard = queue.lock();
                if guard.done_last(|last| *last == key).is_none() {
                    guard.done(&key);
                }
                drop(guard);
                twin.done(key);
            }
            Step::Advance(millis) => {
                self.clock.advance(Duration::from_millis(millis));
                twin.now += millis;
                twin.promote();
            }
            Step::ShutDown => {
                queue.lock().shut_down();
                twin.shut_down = true;
                twin.delayed.clear();
            }
        }
        self.compare();
    }

    fn compare(&self) {
        let (queue, twin) = (&self.queue, &self.twin);
        let mut snapshot = queue.lock().snapshot(usize::MAX, |key: &u64| *key);
        snapshot.sort();
        let mut first = queue.lock().snapshot(2, |key: &u64| *key);
        first.sort();
        assert_eq!(first, first_two(&snapshot));
        assert_same(
            snapshot.queued.iter().map(|one| (one.key, one.priority)),
            twin.line.iter().map(|one| (one.key, one.priority)),
        );
        assert_same(
            snapshot.processing.iter().map(|one| (one.key, one.again)),
            twin.held
                .iter()
                .map(|(key, again)| (*key, again.map(|again| again.0))),
        );
        assert_same(
            snapshot.delayed.iter().map(|one| {
                let due = one.due_in.as_millis();
                (one.key, due, one.priority, one.back_off)
            }),
            twin.delayed.iter().map(|one| {
                let due = u128::from(one.due - twin.now);
                let highest = one.priorities.iter().copied().max().flatten();
                let unnamed = one.priorities.contains(&None);
                let named = highest.filter(|&highest| !unnamed || highest > 0);
                (one.key, due, named, one.back_off)
            }),
        );
        let known: std::collections::HashSet<u64> = (twin.line.iter().map(|line| line.key))
            .chain(twin.held.iter().map(|held| held.0))
            .chain(twin.delayed.iter().map(|delayed| delayed.key))
            .collect();
        let mut locked = queue.lock();
        assert_eq!(locked.known(), known.len(), "an empty entry is removed");
        assert_eq!(locked.len(), twin.line.len());
        drop(locked);
        let scrape = queue.scrape();
        let counted = &scrape.counted;
        assert_eq!(
            (counted.adds, counted.retries, counted.spurious_done),
            (twin.adds, twin.retries, twin.spurious_done)
        );
        for &(priority, depth) in scrape.counted.depth.by_priority() {
            let queued = twin.line.iter().map(|line| line.priority);
            let again = twin.held.iter().filter_map(|held| Some(held.1?.0));
            let expected = queued.chain(again).filter(|one| *one == priority).count();
            assert_eq!(
                usize::try_from(depth),
                Ok(expected),
                "depth of priority {priority}"
            );
        }
        self.assert_pages(&snapshot);
        let started: Duration = snapshot.processing.iter().map(|held| held.running).sum();
        assert_eq!(scrape.unfinished, started);
    }
}

impl Pair {
    /// Assert that the pages of each part have the keys of the snapshot.
    fn assert_pages(&self, snapshot: &Snapshot<u64>) {
        let pages = |part| {
            let (mut pages, mut after) = (Vec::new(), None);
            loop {
                let (page, next) = self.queue.lock().page(part, after, 2, |&key| key);
                assert_eq!(page.counts, snapshot.counts);
                pages.push(page);
                match next {
                    Some(next) => after = Some(next),
                    None => return pages,
                }
            }
        };
        let queued = pages(Part::Queued);
        let held = pages(Part::Processing);
        let delayed = pages(Part::Delayed);
        assert!(queued.iter().all(|page| page.queued.len() <= 2));
        let keys = |page: &Snapshot<u64>| page.queued.iter().map(|one| one.key).collect::<Vec<_>>();
        assert_same(
            queued.iter().flat_map(keys),
            snapshot.queued.iter().map(|one| one.key),
        );
        let held: Vec<_> = held.into_iter().flat_map(|page| page.processing).collect();
        assert_same(
            held.iter().map(|one| (one.key, one.running, one.again)),
            (snapshot.processing.iter()).map(|one| (one.key, one.running, one.again)),
        );
        let delayed: Vec<_> = delayed.into_iter().flat_map(|page| page.delayed).collect();
        assert!(delayed.is_sorted_by_key(|one| one.due_in));
        assert_same(
            delayed.iter().map(|one| (one.key, one.due_in)),
            snapshot.delayed.iter().map(|one| (one.key, one.due_in)),
        );
        for queued in &snapshot.queued {
            let known = self.queue.lock().look(&queued.key, |&key| key);
            assert_eq!(known.parts.queued, std::slice::from_ref(queued));
            let higher = snapshot.queued.iter();
            let higher = higher
                .filter(|other| other.priority > queued.priority)
                .count();
            assert!(known.ahead.is_none_or(|ahead| ahead >= higher));
        }
    }
}

/// Return the first two keys of each part. Keys of the same age, which is no order, are left to the queue's order.
fn first_two(snapshot: &Snapshot<u64>) -> Snapshot<u64> {
    let mut first = snapshot.clone();
    first.queued.truncate(2);
    first.processing.truncate(2);
    first.delayed.truncate(2);
    first
}

/// Assert that both have the same items, in any order.
fn assert_same<T: Ord + std::fmt::Debug>(
    actual: impl Iterator<Item = T>,
    expected: impl Iterator<Item = T>,
) {
    let (mut actual, mut expected): (Vec<T>, Vec<T>) = (actual.collect(), expected.collect());
    actual.sort_unstable();
    expected.sort_unstable();
    assert_eq!(actual, expected);
}

fn behaves_like_its_twin(steps: &[Step]) {
    let mut pair = Pair::new();
    for step in steps {
        pair.step(step);
    }
    // Whatever state that was: all remaining keys come out, each once at a time, and nothing remains.
    pair.step(&Step::Advance(10_000));
    loop {
        let held: Vec<u64> = pair.twin.held.iter().map(|held| held.0).collect();
        for key in held {
            pair.step(&Step::Done(key));
        }
        if pair.twin.line.is_empty() {
            break;
        }
        pair.step(&Step::Get);
    }
    assert_eq!(pair.queue.lock().known(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    // behaviour: workqueue/DL1
    // behaviour: workqueue/DL2
    // behaviour: workqueue/DL3
    // behaviour: workqueue/DL4
    // behaviour: workqueue/DL5
    // behaviour: workqueue/DL6
    // behaviour: workqueue/DL7
    // behaviour: workqueue/P1
    // behaviour: workqueue/P2
    // behaviour: workqueue/P3
    // behaviour: workqueue/P5
    // behaviour: workqueue/P7
    // behaviour: workqueue/P8
    // behaviour: workqueue/P9
    // behaviour: workqueue/P10
    // behaviour: workqueue/P11
    // behaviour: workqueue/P14
    // behaviour: workqueue/P15
    // behaviour: workqueue/P16
    // behaviour: workqueue/P20
    // behaviour: workqueue/P25
    // behaviour: workqueue/P26
    // behaviour: workqueue/Q5
    // behaviour: workqueue/Q6
    // behaviour: workqueue/Q7
    // behaviour: workqueue/Q14
    // behaviour: workqueue/RQ1
    // behaviour: workqueue/RQ2
    // behaviour: workqueue/RQ3
    // behaviour: workqueue/X1
    // behaviour: workqueue/X2
    // behaviour: workqueue/X8
    // behaviour: workqueue/X12
    // behaviour: workqueue/P29
    // behaviour: findings/FQ1
    // behaviour: findings/FQ2
    // behaviour: findings/FQ4
    #[test]
    fn the_queue_behaves_like_its_naive_twin(steps in steps(6, -2..3)) {
        behaves_like_its_twin(&steps);
    }

    // behaviour: findings/FQ6
    #[test]
    fn a_queue_with_very_many_priorities_behaves_like_its_naive_twin(steps in steps(60, -1000..1000)) {
        behaves_like_its_twin(&steps);
    }
}
