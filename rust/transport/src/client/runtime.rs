//! The I/O thread of the process: it starts with the first request. A forked child gets one of its own.

use std::future::Future;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use ctrlhost_core::informer::decoders::processor_time;
use parking_lot::{Condvar, Mutex};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use super::{Failure, Stage};

/// Names are resolved by so many threads, since `getaddrinfo` blocks.
const RESOLVERS: usize = 2;
/// Such a thread ends after it had nothing to do for so long.
const RESOLVER_IDLE: Duration = Duration::from_secs(10);

/// The process in which something was made. In a fork of that it is of no use.
#[derive(Clone, Copy)]
pub(super) struct Home(u32);

impl Home {
    pub(super) fn new() -> Self {
        Self(process::id())
    }

    /// Return whether this is the process. Takes no lock.
    pub(super) fn is_here(self) -> bool {
        self.0 == process::id()
    }

    /// # Errors
    /// This is another process.
    pub(super) fn check(self) -> Result<(), Failure> {
        if self.is_here() {
            return Ok(());
        }
        let text =
            "this process is a fork of the one in which the client was made: make another one here";
        Err(Failure::new(Stage::Forked, text))
    }
}

struct Running {
    handle: Handle,
    stop: Mutex<Option<oneshot::Sender<()>>>,
    end: Arc<End>,
}

#[derive(Default)]
struct End {
    ended: Mutex<bool>,
    news: Condvar,
}

/// The thread of one process, or why there is none.
struct Io {
    home: Home,
    running: Result<Running, String>,
    /// That of the process forked from this one.
    next: OnceLock<Box<Io>>,
}

/// Processor time of the I/O thread, in nanoseconds, when it last had nothing to do.
static BUSY: AtomicU64 = AtomicU64::new(0);

/// Return the processor time of the I/O thread.
pub fn busy() -> Duration {
    Duration::from_nanos(BUSY.load(Ordering::Relaxed))
}

static FIRST: OnceLock<Io> = OnceLock::new();

impl Io {
    fn start() -> Self {
        Self {
            home: Home::new(),
            running: Running::start(),
            next: OnceLock::new(),
        }
    }

    /// Return that of this process, started if there was none.
    fn here() -> &'static Self {
        let mut io = FIRST.get_or_init(Self::start);
        while !io.home.is_here() {
            io = io.next.get_or_init(|| Box::new(Self::start()));
        }
        io
    }

    /// Return that of this process if it was started.
    fn known() -> Option<&'static Self> {
        let mut io = FIRST.get()?;
        while !io.home.is_here() {
            io = io.next.get()?;
        }
        Some(io)
    }
}

impl Running {
    fn start() -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("cannot start the I/O thread: {error}");
        let runtime = Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(RESOLVERS)
            .thread_keep_alive(RESOLVER_IDLE)
            .on_thread_park(|| {
                let nanos = processor_time().as_nanos();
                BUSY.store(u64::try_from(nanos).unwrap_or(0), Ordering::Relaxed);
            })
            .build()
            .map_err(failed)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let end = Arc::<End>::default();
        let ending = end.clone();
        thread::Builder::new()
            .name("ctrlhost-io".to_owned())
            .spawn(move || {
                // An error says that the sender was dropped, which stops the thread, too.
                let _ = runtime.block_on(stopped);
                // Does not wait for names that are being resolved.
                runtime.shutdown_background();
                *ending.ended.lock() = true;
                ending.news.notify_all();
            })
            .map_err(failed)?;
        Ok(Self {
            handle,
            stop: Mutex::new(Some(stop)),
            end,
        })
    }
}

/// Run a task on the I/O thread. After `shutdown` it is dropped at once.
///
/// # Errors
/// The thread cannot be started.
pub(super) fn spawn<F>(task: F) -> Result<AbortHandle, Failure>
where
    F: Future<Output = ()> + Send + 'static,
{
    match &Io::here().running {
        Ok(running) => Ok(running.handle.spawn(task).abort_handle()),
        Err(text) => Err(Failure::new(Stage::Cancelled, text)),
    }
}

/// Cut all streams, fail all calls and end the I/O thread; return whether it ended within `patience`.
///
/// Later calls fail at once. Does nothing if this process has no such thread.
pub fn shutdown(patience: Duration) -> bool {
    let Some(Ok(running)) = Io::known().map(|io| &io.running) else {
        return true;
    };
    let stop = running.stop.lock().take();
    if let Some(stop) = stop {
        // The thread has ended by itself only if it panicked.
        let _ = stop.send(());
    }
    let mut ended = running.end.ended.lock();
    if !*ended {
        running.end.news.wait_for(&mut ended, patience);
    }
    *ended
}
