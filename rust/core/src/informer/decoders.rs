//! The decode threads of the process: they start with the first task. A forked child gets its own.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::sync::{Condvar, Mutex, Rank, wait, wait_until};

/// The most threads.
const THREADS: usize = 4;

/// Work that is done in steps, by one thread at a time.
pub trait Job: Send + Sync {
    /// Do a step; return whether there may be more to do.
    fn step(&self) -> bool;

    /// Called after a step that panicked.
    fn panicked(&self);
}

const IDLE: u8 = 0;
const QUEUED: u8 = 1;
const RUNNING: u8 = 2;
/// Running, and woken meanwhile.
const WOKEN: u8 = 3;

/// A job, and whether a thread has it.
pub struct Task {
    job: Arc<dyn Job>,
    state: AtomicU8,
    threads: &'static Decoders,
}

impl Task {
    /// Create a task that waits to be woken.
    ///
    /// # Errors
    /// No decode thread can be started.
    pub fn new(job: Arc<dyn Job>) -> Result<Arc<Self>, String> {
        Ok(Arc::new(Self {
            job,
            state: AtomicU8::new(IDLE),
            threads: Decoders::here()?,
        }))
    }

    /// Do a step soon. May be called from any thread.
    pub fn wake(self: &Arc<Self>) {
        let woken = |state| match state {
            IDLE => Some(QUEUED),
            RUNNING => Some(WOKEN),
            _ => None,
        };
        let order = (Ordering::AcqRel, Ordering::Acquire);
        if self.state.fetch_update(order.0, order.1, woken) == Ok(IDLE) {
            self.threads.push(self.clone());
        }
    }

    /// Do a step; return whether to queue the task again.
    fn run(&self) -> bool {
        self.state.store(RUNNING, Ordering::Release);
        let more = catch_unwind(AssertUnwindSafe(|| self.job.step())).unwrap_or_else(|_| {
            PANICS.fetch_add(1, Ordering::Relaxed);
            // A second panic would end the thread.
            let _ = catch_unwind(AssertUnwindSafe(|| self.job.panicked()));
            false
        });
        let order = (Ordering::AcqRel, Ordering::Acquire);
        let state = &self.state;
        if !more
            && state
                .compare_exchange(RUNNING, IDLE, order.0, order.1)
                .is_ok()
        {
            return false;
        }
        state.store(QUEUED, Ordering::Release);
        true
    }
}

#[derive(Default)]
struct Queue {
    tasks: VecDeque<Arc<Task>>,
    /// Threads that have not ended.
    threads: usize,
    stopping: bool,
}

/// The threads of one process.
struct Decoders {
    home: u32,
    queue: Mutex<Queue>,
    work: Condvar,
    ended: Condvar,
    started: OnceLock<Result<(), String>>,
    /// Those of the process forked from this one.
    next: OnceLock<Box<Decoders>>,
}

static FIRST: OnceLock<Decoders> = OnceLock::new();
static PANICS: AtomicU64 = AtomicU64::new(0);
/// Nanoseconds of processor time.
static BUSY: AtomicU64 = AtomicU64::new(0);

impl Decoders {
    fn new() -> Self {
        Self {
            home: process::id(),
            queue: Mutex::new(Rank::Decoders, Queue::default()),
            work: Condvar::default(),
            ended: Condvar::default(),
            started: OnceLock::new(),
            next: OnceLock::new(),
        }
    }

    /// Return those of this process, and start them if there were none.
    fn here() -> Result<&'static Self, String> {
        let mut pool = FIRST.get_or_init(Self::new);
        while pool.home != process::id() {
            pool = pool.next.get_or_init(|| Box::new(Self::new()));
        }
        pool.started.get_or_init(|| pool.start()).clone()?;
        Ok(pool)
    }

    /// Return those of this process if they were started.
    fn known() -> Option<&'static Self> {
        let mut pool = FIRST.get()?;
        while pool.home != process::id() {
            pool = pool.next.get()?;
        }
        Some(pool)
    }

    fn start(&'static self) -> Result<(), String> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        for number in 0..cores.min(THREADS) {
            self.queue.lock().threads += 1;
            let thread = thread::Builder::new().name(format!("ctrlhost-decode-{number}"));
            if let Err(error) = thread.spawn(|| self.work()) {
                let mut queue = self.queue.lock();
                queue.threads -= 1;
                if queue.threads == 0 {
                    return Err(format!("cannot start a decode thread: {error}"));
                }
            }
        }
        Ok(())
    }

    fn push(&self, task: Arc<Task>) {
        self.queue.lock().tasks.push_back(task);
        self.work.notify_one();
    }

    fn next(&self) -> Option<Arc<Task>> {
        let mut queue = self.queue.lock();
        while !queue.stopping {
            if let Some(task) = queue.tasks.pop_front() {
                return Some(task);
            }
            wait(&self.work, &mut queue, None);
        }
        None
    }

    fn work(&self) {
        let mut before = Duration::ZERO;
        while let Some(task) = self.next() {
            if task.run() {
                self.push(task);
            }
            let now = processor_time();
            let nanos = now.saturating_sub(before).as_nanos();
            BUSY.fetch_add(u64::try_from(nanos).unwrap_or(0), Ordering::Relaxed);
            before = now;
        }
        self.queue.lock().threads -= 1;
        self.ended.notify_all();
    }
}

/// Return the processor time of the calling thread.
pub fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Return the processor time of all decode threads.
pub fn busy() -> Duration {
    Duration::from_nanos(BUSY.load(Ordering::Relaxed))
}

/// Return how many steps have panicked.
pub fn panics() -> u64 {
    PANICS.load(Ordering::Relaxed)
}

/// End the decode threads after their current steps; return whether they ended within `patience`.
pub fn shutdown(patience: Duration) -> bool {
    let Some(decoders) = Decoders::known() else {
        return true;
    };
    let until = Instant::now().checked_add(patience);
    let mut queue = decoders.queue.lock();
    queue.stopping = true;
    decoders.work.notify_all();
    while queue.threads > 0 {
        if wait_until(&decoders.ended, &mut queue, until) {
            return false;
        }
    }
    true
}

/// Called with the name of the resource.
type Hook = Arc<dyn Fn(&str) + Send + Sync>;

static HOOKED: AtomicBool = AtomicBool::new(false);
static HOOK: parking_lot::Mutex<Option<Hook>> = parking_lot::Mutex::new(None);

/// Call a function before each step, or no longer: for tests that hold a step, or let it panic.
pub fn set_hook(hook: Option<Hook>) {
    HOOKED.store(hook.is_some(), Ordering::Release);
    *HOOK.lock() = hook;
}

pub(super) fn call_hook(resource: &str) {
    if HOOKED.load(Ordering::Acquire) {
        let hook = HOOK.lock().clone();
        if let Some(hook) = hook {
            hook(resource);
        }
    }
}
