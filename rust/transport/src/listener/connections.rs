//! The open connections of a listener: where they come from, and which of them are closed.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::net::sockopt::set_socket_send_buffer_size;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::sleep;

use super::Service;
use super::connection::{Connection, Io, Place};
use super::exchange::{Event, Origin};

/// How long nothing is accepted when that failed.
const PAUSE: Duration = Duration::from_millis(200);

/// Accepts the connections of one socket.
pub(super) enum Acceptor {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Acceptor {
    pub(super) fn new((socket, is_unix): (OwnedFd, bool)) -> io::Result<Self> {
        if is_unix {
            UnixListener::from_std(socket.into()).map(Self::Unix)
        } else {
            TcpListener::from_std(socket.into()).map(Self::Tcp)
        }
    }

    /// Accept connections until this is dropped.
    pub(super) async fn run(self, connections: Arc<Connections>) {
        let kept = connections.service.limits.kept;
        loop {
            match self.accept(kept).await {
                Ok((stream, origin)) => {
                    connections.take(stream, origin);
                    // What it asks for is read before there are so many that it has to go.
                    yield_now().await;
                }
                Err(error) => connections.rest(&error).await,
            }
        }
    }

    async fn accept(&self, kept: Option<usize>) -> io::Result<(Box<dyn Io>, Origin)> {
        let mut origin = Origin::default();
        match self {
            Self::Tcp(listener) => {
                let (stream, client) = listener.accept().await?;
                // Nagle's algorithm would only delay small answers.
                let _ = stream.set_nodelay(true);
                limit(&stream, kept);
                (origin.client, origin.server) = (Some(client), stream.local_addr().ok());
                Ok((Box::new(stream), origin))
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                limit(&stream, kept);
                let peer = stream.peer_cred()?;
                origin.peer = Some((peer.uid(), peer.pid().unwrap_or(0)));
                Ok((Box::new(stream), origin))
            }
        }
    }
}

/// Let the kernel keep few bytes, so that a client that does not read is noticed, and takes little memory.
fn limit(socket: impl AsFd, kept: Option<usize>) {
    if let Some(kept) = kept {
        let _ = set_socket_send_buffer_size(socket, kept);
    }
}

struct Open {
    place: Arc<Place>,
    task: JoinHandle<()>,
}

/// See the module.
pub(super) struct Connections {
    pub(super) service: Arc<Service>,
    ending: watch::Receiver<Option<Instant>>,
    open: Mutex<Vec<Open>>,
}

impl Connections {
    pub(super) fn new(service: Service, ending: watch::Receiver<Option<Instant>>) -> Self {
        Self {
            service: Arc::new(service),
            ending,
            open: Mutex::default(),
        }
    }

    /// Serve a connection; when there are too many, close the longest idle one, or this one if none is idle.
    fn take(&self, stream: Box<dyn Io>, origin: Origin) {
        if self.close_late() >= self.service.limits.connections {
            self.service.counts.reject("full");
            if !self.close_idle() {
                return;
            }
        }
        let place = Arc::<Place>::default();
        let connection = Connection {
            origin,
            service: self.service.clone(),
            place: place.clone(),
            ending: self.ending.clone(),
        };
        let task = tokio::spawn(connection.serve(stream));
        self.open.lock().push(Open { place, task });
    }

    /// Make room and wait, since no connection can be accepted: most likely no descriptor is free.
    async fn rest(&self, error: &io::Error) {
        let event = Event::NotAccepted(error.to_string());
        self.service.inbox.put(event);
        self.service.counts.reject("emfile");
        self.close_idle();
        sleep(PAUSE).await;
    }

    /// Close the connections that have no more time; return how many are open.
    pub(super) fn close_late(&self) -> usize {
        let mut open = self.open.lock();
        open.retain(|Open { place, task }| {
            if !task.is_finished() && place.is_late(&self.service) {
                task.abort();
                return false;
            }
            !task.is_finished()
        });
        open.len()
    }

    /// Close the connection that has been without a request for longest; return whether there was one.
    fn close_idle(&self) -> bool {
        let mut open = self.open.lock();
        let idle = open.iter().enumerate();
        let idle = idle.filter_map(|(index, open)| Some((open.place.idle_since()?, index)));
        let longest = idle.min();
        if let Some((_, index)) = longest {
            open.swap_remove(index).task.abort();
        }
        longest.is_some()
    }

    /// Close all of them.
    pub(super) fn close_all_idle(&self) {
        while self.close_idle() {}
    }
}
