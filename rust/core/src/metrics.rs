//! The metrics of a queue: plain numbers under the queue's own lock, copied for a scrape.

use std::time::Duration;

/// Number of upper bounds of the histograms: 10 ns, 100 ns, … 1000 s.
pub const BUCKETS: usize = 12;

/// Number of priorities with their own depth. A plugin may use any number, and each would be a time series.
pub const PRIORITIES: usize = 25;

/// Durations by powers of ten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Number of durations of at most 10^(n+1) ns, and more than the bucket before; the last bucket has those over
    /// 1000 s.
    pub buckets: [u64; BUCKETS + 1],
    /// The sum of all, in nanoseconds.
    pub sum: u128,
}

impl Histogram {
    /// Count one duration.
    #[inline]
    pub fn observe(&mut self, duration: Duration) {
        let nanos = duration.as_nanos();
        // The bucket is the number of digits of the next smaller number; u64 has enough of them for 584 years.
        let below = u64::try_from(nanos).unwrap_or(u64::MAX).saturating_sub(1);
        let bucket = if below < 10 {
            0
        } else {
            (below.ilog10() as usize).min(BUCKETS)
        };
        self.buckets[bucket] += 1;
        self.sum += nanos;
    }

    /// Return the number of durations.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

/// The depth of a queue by priority.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    known: Vec<(i32, i64)>,
    /// The keys of all priorities after the first [`PRIORITIES`] ones, which keep their exact numbers.
    beyond: Option<i64>,
    /// The place of the last priority; most queues have one.
    last: usize,
}

impl Depth {
    /// Add to the depth of a priority.
    #[inline]
    pub fn add(&mut self, priority: i32, change: i64) {
        match self.known.get_mut(self.last) {
            Some((same, depth)) if *same == priority => *depth += change,
            _ => self.add_elsewhere(priority, change),
        }
    }

    fn add_elsewhere(&mut self, priority: i32, change: i64) {
        if let Some(place) = self.known.iter().position(|&(known, _)| known == priority) {
            self.last = place;
            self.known[place].1 += change;
        } else if self.known.len() < PRIORITIES {
            self.last = self.known.len();
            self.known.push((priority, change));
        } else {
            *self.beyond.get_or_insert(0) += change;
        }
    }

    /// Return the depth of each priority ever used, among the first [`PRIORITIES`].
    pub fn by_priority(&self) -> &[(i32, i64)] {
        &self.known
    }

    /// Return the depth of all other priorities together; None if there were none.
    pub fn beyond(&self) -> Option<i64> {
        self.beyond
    }
}

/// The counters of one queue as of now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueMetrics {
    /// Keys that were queued, or added again while processed.
    pub adds: u64,
    /// Delayed and rate-limited adds, whatever the delay.
    pub retries: u64,
    /// Calls of `done` for a key that was not handed out.
    pub spurious_done: u64,
    /// Delayed keys that a shutdown dropped.
    pub dropped: u64,
    /// Keys that need work, by priority; including those added again while processed.
    pub depth: Depth,
    /// From queued to handed out.
    pub queue_duration: Histogram,
    /// From being handed out to done.
    pub work_duration: Histogram,
}

/// A scrape of one queue: the counters, and the values of this instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scrape {
    /// The counters.
    pub counted: QueueMetrics,
    /// The summed ages of all keys in processing.
    pub unfinished: Duration,
    /// The age of the key that has been processed longest.
    pub longest_running: Duration,
    /// The age of the key that has been queued longest.
    pub oldest: Duration,
    /// The number of delayed keys.
    pub delayed: usize,
}

/// One number of a scrape.
#[derive(Clone, Copy, Debug)]
pub enum Number<'a> {
    /// A number of things or events.
    Count(u64),
    /// A time.
    Seconds(Duration),
    /// The depth.
    Depth(&'a Depth),
    /// Many times.
    Histogram(&'a Histogram),
}

impl Scrape {
    /// Return all numbers by name; `ctrlhost.host.queue_metrics` has a metric for each.
    pub fn numbers(&self) -> Vec<(&'static str, Number<'_>)> {
        let counted = &self.counted;
        vec![
            ("depth", Number::Depth(&counted.depth)),
            ("adds", Number::Count(counted.adds)),
            ("queue_duration", Number::Histogram(&counted.queue_duration)),
            ("work_duration", Number::Histogram(&counted.work_duration)),
            ("unfinished", Number::Seconds(self.unfinished)),
            ("longest_running", Number::Seconds(self.longest_running)),
            ("retries", Number::Count(counted.retries)),
            ("delayed", Number::Count(self.delayed as u64)),
            ("oldest", Number::Seconds(self.oldest)),
            ("dropped", Number::Count(counted.dropped)),
            ("spurious_done", Number::Count(counted.spurious_done)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_falls_into_the_bucket_of_the_next_power_of_ten() {
        let bucket = |nanos| {
            let mut histogram = Histogram::default();
            histogram.observe(Duration::from_nanos(nanos));
            histogram.buckets.iter().position(|&count| count == 1)
        };
        let seconds = 1_000_000_000;
        assert_eq!(
            [
                0,
                1,
                10,
                11,
                100,
                101,
                50_000,
                1000 * seconds,
                1000 * seconds + 1,
                u64::MAX
            ]
            .map(bucket),
            [0, 0, 0, 1, 1, 2, 4, 11, 12, 12].map(Some)
        );
    }

    fn depth_of(distinct: i32) -> Depth {
        let mut depth = Depth::default();
        (0..distinct).for_each(|priority| depth.add(priority, 1));
        depth
    }

    // behaviour: workqueue/P31
    #[test]
    fn up_to_25_priorities_have_a_depth_each() {
        for (distinct, expected) in [(10, 10), (25, 25)] {
            let depth = depth_of(distinct);
            assert_eq!(depth.by_priority().len(), expected);
            assert_eq!(depth.beyond(), None);
        }
    }

    // behaviour: workqueue/P32
    #[test]
    fn one_number_covers_all_priorities_from_the_26th_on() {
        for (distinct, beyond) in [(26, 1), (30, 5)] {
            let mut depth = depth_of(distinct);
            assert_eq!(depth.by_priority().len(), 25);
            assert_eq!(depth.beyond(), Some(beyond));
            depth.add(3, 1);
            assert_eq!(depth.by_priority()[3], (3, 2));
        }
    }
}
