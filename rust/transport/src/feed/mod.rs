//! Lists and watches of the host's informers, for the processes of plugins, over HTTP/1.1 on Unix sockets.
//!
//! One thread serves all sockets. It reads the informers' event logs, and needs neither the interpreter nor any thread
//! that may run plugin code.

mod answers;
mod connection;
mod kind;
mod list;
mod reader;
mod relay;
mod request;
mod watch;

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use ctrlhost_core::event_log::Window;
pub use kind::{Declared, Kind, Namespaces};
use parking_lot::Mutex;
pub use reader::Reader;
use relay::Relay;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// The limits of a feed.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// What each informer keeps of the past.
    pub window: Window,
    /// A watcher that does not read is closed when so many events wait for it.
    pub waiting_events: u64,
    /// Likewise, when their objects have so many bytes.
    pub waiting_bytes: u64,
    /// It is closed only after it has not read for so long: a burst alone is no reason.
    pub patience: Duration,
    /// The time between two bookmarks.
    pub bookmark: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            window: Window {
                events: 10_000,
                bytes: 16 << 20,
            },
            waiting_events: 10_000,
            waiting_bytes: 1 << 20,
            patience: Duration::from_secs(1),
            bookmark: Duration::from_secs(60),
        }
    }
}

/// The thread that serves. Dropping it stops it.
pub struct Feed {
    limits: Limits,
    runtime: Handle,
    relay: Arc<Relay>,
    running: Mutex<Option<(oneshot::Sender<()>, JoinHandle<()>)>>,
}

impl Feed {
    /// Start the thread.
    ///
    /// # Errors
    /// There are no resources for it.
    pub fn start(limits: Limits) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let handle = runtime.handle().clone();
        let relay = Arc::<Relay>::default();
        runtime.spawn(relay.clone().run());
        let (stop, stopped) = oneshot::channel();
        let thread = Builder::new().name("feed".to_owned()).spawn(move || {
            // An error says that the sender was dropped, which stops the thread, too.
            let _ = runtime.block_on(stopped);
        })?;
        Ok(Self {
            limits,
            runtime: handle,
            relay,
            running: Mutex::new(Some((stop, thread))),
        })
    }

    /// Return the limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Listen on a new socket, which only processes of that user may connect to.
    ///
    /// # Errors
    /// The socket cannot be made, or the feed has stopped.
    pub fn open(&self, path: PathBuf, user: u32) -> std::io::Result<Arc<Reader>> {
        let running = self.running.lock();
        if running.is_none() {
            return Err(std::io::Error::other("the feed has stopped"));
        }
        Reader::open(&self.runtime, self.limits, &self.relay, path, user)
    }

    /// Stop the thread, which ends all connections. May be repeated.
    pub fn stop(&self) {
        let running = self.running.lock().take();
        if let Some((stop, thread)) = running {
            // The thread may have ended by itself only if it panicked.
            let _ = stop.send(());
            let _ = thread.join();
        }
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.stop();
    }
}
