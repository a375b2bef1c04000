//! HTTP/1.1 to one server: whole calls and streams over a pool of connections, carried out by one I/O thread.
//!
//! No thread of the caller ever polls a socket: callers wait for an answer, which comes in any case.

mod connect;
mod dial;
mod exchange;
mod failure;
mod guard;
mod intake;
mod last_byte;
mod line;
mod message;
mod pool;
mod progress;
mod proxy;
mod reply;
mod request;
mod runtime;
mod settings;
mod stream;
pub(crate) mod tls;
mod wire;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
pub use failure::{Failure, Stage};
pub use intake::OnNews;
pub use last_byte::LastByte;
pub use message::{Call, Gate, Head, Response, StreamCall};
use parking_lot::Mutex;
use pool::Pool;
use progress::Progress;
use reply::{Done, Reply};
use request::{Common, Prepared};
use runtime::Home;
pub use runtime::{busy, shutdown};
pub use settings::{Proxy, ProxyScheme, Settings};
pub use stream::{Begun, Next, Stream};
use tls::Security;
pub use tls::{Part, Tls, TlsError};
use tokio::task::AbortHandle;
use tokio::time::timeout_at;

/// How many connections are in which state, and what happened since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections being made.
    pub connecting: u64,
    /// Connections that wait for a request.
    pub idle: u64,
    /// Connections that carry calls.
    pub call: u64,
    /// Connections that carry streams.
    pub stream: u64,
    /// Handshakes that resumed a session.
    pub resumed: u64,
    /// Other handshakes.
    pub full: u64,
    /// Panics of the I/O thread's tasks, of all clients.
    pub panics: u64,
}

/// Cancels what `Client::begin` began.
#[derive(Clone)]
pub struct CancelHandle {
    task: Option<AbortHandle>,
    home: Home,
}

impl CancelHandle {
    /// Close the connection of the call, which then fails, unless it is complete. Does not undo what was sent.
    pub fn cancel(&self) {
        if let Some(task) = &self.task
            && self.home.is_here()
        {
            task.abort();
        }
    }
}

struct Inner {
    home: Home,
    settings: Settings,
    last_byte: LastByte,
    common: Result<Common, Failure>,
    pool: Pool,
    security: Mutex<Option<Security>>,
    connecting: AtomicU64,
    calls: AtomicU64,
    streams: AtomicU64,
    resumed: AtomicU64,
    full: AtomicU64,
}

/// A client of one server. Clones share its connections. May be used from any thread.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

impl Client {
    /// Create a client. Sends nothing.
    pub fn new(settings: Settings, tls: Option<Tls>) -> Self {
        Self::sharing(settings, tls, LastByte::new())
    }

    /// Create a client that keeps `last_byte` up to date, as other clients of the server may. Sends nothing.
    pub fn sharing(settings: Settings, tls: Option<Tls>, last_byte: LastByte) -> Self {
        Self(Arc::new(Inner {
            home: Home::new(),
            common: Common::new(&settings),
            pool: Pool::new(settings.max_idle),
            settings,
            last_byte,
            security: Mutex::new(tls.map(|tls| tls.security())),
            connecting: AtomicU64::default(),
            calls: AtomicU64::default(),
            streams: AtomicU64::default(),
            resumed: AtomicU64::default(),
            full: AtomicU64::default(),
        }))
    }

    /// Use this for new connections, and drop the idle ones. Streams stay.
    pub fn set_tls(&self, tls: &Tls) {
        if !self.0.home.is_here() {
            return;
        }
        *self.0.security.lock() = Some(tls.security());
        self.0.pool.retire();
    }

    /// Drop the idle connections. A later request opens new ones.
    pub fn close(&self) {
        if self.0.home.is_here() {
            self.0.pool.retire();
        }
    }

    /// Open a connection for the first request, in the background. If that fails, the request says why when it connects.
    pub fn connect_ahead(&self) {
        if self.0.home.check().is_err() {
            return;
        }
        let inner = self.0.clone();
        // Without the thread, the request fails as well.
        let _ = runtime::spawn(async move { exchange::connect_ahead(&inner).await });
    }

    /// Return the response, whatever its status. Blocks.
    ///
    /// # Errors
    /// There is none until the deadline.
    pub fn call(&self, call: Call) -> Result<Response, Failure> {
        let (reply, answer) = Reply::awaited();
        self.start(call, reply);
        answer
            .recv()
            .unwrap_or_else(|_| Err(reply::abandoned(Stage::Head)))
    }

    /// Begin a call. `done` runs once, on the I/O thread, and must be quick.
    pub fn begin(
        &self,
        call: Call,
        done: Box<dyn FnOnce(Result<Response, Failure>) + Send>,
    ) -> CancelHandle {
        let done: Done<Response> = done;
        CancelHandle {
            task: self.start(call, Reply::new(done)),
            home: self.0.home,
        }
    }

    /// Return the head, and the stream of the body if the status is 200. Blocks.
    ///
    /// # Errors
    /// There is no head until the deadline.
    pub fn stream(&self, call: StreamCall) -> Result<Begun, Failure> {
        let (reply, answer) = Reply::awaited();
        self.open(call, reply);
        answer
            .recv()
            .unwrap_or_else(|_| Err(reply::abandoned(Stage::Head)))
    }

    /// Begin a stream. `done` runs once, on the I/O thread, and must be quick.
    pub fn begin_stream(
        &self,
        call: StreamCall,
        done: Box<dyn FnOnce(Result<Begun, Failure>) + Send>,
    ) {
        self.open(call, Reply::new(done));
    }

    fn open(&self, call: StreamCall, reply: Reply<Begun>) {
        let StreamCall {
            target,
            headers,
            deadline,
            intake_bytes,
        } = call;
        let request = self.prepare("GET", &target, &headers, Bytes::new());
        let mut request = match request {
            Ok(request) => request,
            Err(failure) => return reply.send(Err(failure)),
        };
        request.repeat = true;
        let inner = self.0.clone();
        // The destructor of the reply has told the caller if there is no thread.
        let _ = runtime::spawn(async move {
            let progress = Progress::new("stream", None);
            let deadline = deadline.into();
            stream::stream(&inner, &request, &progress, deadline, intake_bytes, reply).await;
        });
    }

    /// Return the state of the connections.
    pub fn counts(&self) -> Counts {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let inner = &self.0;
        Counts {
            connecting: count(&inner.connecting),
            idle: inner.pool.len() as u64,
            call: count(&inner.calls),
            stream: count(&inner.streams),
            resumed: count(&inner.resumed),
            full: count(&inner.full),
            panics: reply::panics(),
        }
    }

    fn prepare(
        &self,
        method: &str,
        target: &str,
        headers: &[(String, String)],
        body: Bytes,
    ) -> Result<Prepared, Failure> {
        // Before anything takes a lock, which a fork may have inherited in any state.
        self.0.home.check()?;
        let common = self.0.common.as_ref().map_err(Clone::clone)?;
        Prepared::new(common, method, target, headers, body)
    }

    fn start(&self, call: Call, reply: Reply<Response>) -> Option<AbortHandle> {
        let request = self.prepare(&call.method, &call.target, &call.headers, call.body);
        let mut request = match request {
            Ok(request) => request,
            Err(failure) => {
                reply.send(Err(failure));
                return None;
            }
        };
        request.repeat = call.repeat;
        request.fresh = call.fresh;
        let inner = self.0.clone();
        let task = async move {
            let progress = Progress::new("response", call.gate);
            let work = exchange::call(&inner, &request, &progress);
            let done = timeout_at(call.deadline.into(), work).await;
            reply.send(done.unwrap_or_else(|_| Err(progress.out_of_time())));
        };
        // The destructor of the reply has told the caller if there is no thread.
        runtime::spawn(task).ok()
    }
}
