//! Listeners: HTTP/1.1 and TLS on native threads, which answer probes whatever the interpreter does.
//!
//! Each listener has one thread, which accepts, shakes hands, limits and checks. A request that needs Python is an
//! [`Exchange`] in the listener's [`Inbox`], which has one at most for each open connection.

mod answer;
mod connection;
mod connections;
mod counts;
mod exchange;
mod guard;
mod probes;
mod service;
mod tls;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use connections::{Acceptor, Connections};
pub use counts::Counts;
pub use exchange::{Event, Exchange, Inbox, Origin};
pub use guard::Guard;
use parking_lot::Mutex;
pub use probes::Probes;
pub use tls::ServerTls;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// The time between two looks at how long connections have waited; and at whether they have ended, at the end.
const LOOK: Duration = Duration::from_millis(250);
const LAST_LOOK: Duration = Duration::from_millis(5);

/// What a listener allows its clients.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Open connections.
    pub connections: usize,
    /// Time without a request before an open connection is closed.
    pub idle: Duration,
    /// Time from the connection, or from the first byte, to the end of a request's header.
    pub header: Duration,
    /// Bytes of that header.
    pub header_bytes: usize,
    /// Time for which a client may read nothing of what waits for it.
    pub unread: Duration,
    /// Bytes of an answer that the kernel keeps for a client; None for what it likes.
    pub kept: Option<usize>,
}

/// How a listener serves.
pub struct Service {
    /// What it allows.
    pub limits: Limits,
    /// What it counts.
    pub counts: Arc<Counts>,
    /// Where Python finds what it has to answer.
    pub inbox: Arc<Inbox>,
    /// The certificate; None for plain HTTP.
    pub tls: Option<Arc<ServerTls>>,
    /// What is checked of requests and set in answers; None where an application of a plugin answers.
    pub guard: Option<Guard>,
    /// What is answered without Python; None for nothing.
    pub probes: Option<Arc<Probes>>,
    /// Whether `/livez` and `/readyz` are among that.
    pub answers_probes: bool,
    /// Whether expositions are.
    pub shows_metrics: bool,
}

/// One server at one or more sockets. Dropping it ends its connections and its thread.
pub struct Listener {
    /// Until when connections may end; None while the listener accepts more.
    ending: watch::Sender<Option<Instant>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Listener {
    /// Accept connections, on a thread of this name, at sockets that do not block, and may be Unix sockets.
    ///
    /// # Errors
    /// There are no resources for the thread.
    pub fn start(name: &str, sockets: Vec<(OwnedFd, bool)>, service: Service) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (ending, ended) = watch::channel(None);
        let connections = Connections::new(service, ended.clone());
        let accepting = {
            let _entered = runtime.enter();
            let acceptors = sockets.into_iter().map(Acceptor::new);
            acceptors.collect::<io::Result<Vec<_>>>()?
        };
        let work = serve(accepting, Arc::new(connections), ended);
        let run = move || runtime.block_on(work);
        let thread = Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(Self {
            ending,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Accept nothing more, close connections without a request, and others after the answer.
    pub fn end(&self) {
        self.stop_after(Duration::from_secs(3600));
    }

    /// End, and wait at most so long until all connections have; then end them and the thread. May be repeated.
    pub fn stop(&self, patience: Duration) {
        self.stop_after(patience);
        if let Some(thread) = self.thread.lock().take() {
            // It ends by itself only if it panics.
            let _ = thread.join();
        }
    }

    fn stop_after(&self, patience: Duration) {
        self.ending.send_replace(Some(Instant::now() + patience));
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop(Duration::ZERO);
    }
}

async fn serve(
    accepting: Vec<Acceptor>,
    connections: Arc<Connections>,
    mut ending: watch::Receiver<Option<Instant>>,
) {
    let runs = accepting
        .into_iter()
        .map(|acceptor| acceptor.run(connections.clone()));
    let mut running: JoinSet<()> = runs.collect();
    loop {
        let until = *ending.borrow_and_update();
        if until.is_some() {
            running.abort_all();
            connections.close_all_idle();
        }
        let open = connections.close_late();
        match until {
            Some(until) if open == 0 || Instant::now() >= until => return,
            Some(_) => drop(timeout(LAST_LOOK, ending.changed()).await),
            None => drop(timeout(LOOK, ending.changed()).await),
        }
        if let Some(probes) = &connections.service.probes {
            probes.look();
        }
    }
}
