//! CPU time of the thread, so that busy neighbours do not count.
#![allow(missing_docs, reason = "shared by the benches")]

use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use rustix::time::{ClockId, clock_gettime};

pub(crate) struct CpuTime;

impl Measurement for CpuTime {
    type Intermediate = u64;
    type Value = u64;

    fn start(&self) -> u64 {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap_or(0)
    }

    fn end(&self, start: u64) -> u64 {
        self.start() - start
    }

    fn add(&self, one: &u64, other: &u64) -> u64 {
        one + other
    }

    fn zero(&self) -> u64 {
        0
    }

    #[expect(clippy::cast_precision_loss, reason = "a statistic")]
    fn to_f64(&self, value: &u64) -> f64 {
        *value as f64
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        static WALL_TIME: WallTime = WallTime;
        WALL_TIME.formatter()
    }
}
