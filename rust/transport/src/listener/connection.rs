//! One connection: its handshake, its requests, what it waits for and since when.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use hyper::StatusCode;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf, copy, sink};
use tokio::sync::watch;
use tokio::time::timeout;

use super::Service;
use super::answer::alone;
use super::exchange::{Event, Origin};
use super::service::answer;

/// How long the rest of a request is read behind the last answer: a close would take that away from a client that sends.
const LINGER: Duration = Duration::from_secs(1);
/// Bytes that hyper buffers.
const BUFFER: usize = 64 << 10;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The header of a request has to end.
    Header,
    /// No request has begun.
    Idle,
    /// A request is answered.
    Busy,
    /// The answer is complete; its last bytes leave.
    Flushing,
}

/// What a connection waits for.
pub(super) struct Place(Mutex<State>);

struct State {
    phase: Phase,
    since: Instant,
    /// Since when bytes wait for the client to read.
    unread: Option<Instant>,
}

impl Default for Place {
    fn default() -> Self {
        Self(Mutex::new(State {
            phase: Phase::Header,
            since: Instant::now(),
            unread: None,
        }))
    }
}

impl Place {
    fn enter(&self, phase: Phase) {
        let mut state = self.0.lock();
        (state.phase, state.since) = (phase, Instant::now());
    }

    fn change(&self, from: Phase, to: Phase) {
        if self.0.lock().phase == from {
            self.enter(to);
        }
    }

    /// The body of the answer has ended.
    pub(super) fn answered(&self) {
        self.change(Phase::Busy, Phase::Flushing);
    }

    fn unread(&self, waits: bool) {
        let mut state = self.0.lock();
        state.unread = waits.then(|| state.unread.unwrap_or_else(Instant::now));
    }

    /// Return since when there is no request, if there is none.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let state = self.0.lock();
        matches!(state.phase, Phase::Header | Phase::Idle).then_some(state.since)
    }

    /// Return whether the connection has no more time.
    pub(super) fn is_late(&self, service: &Service) -> bool {
        let (state, limits) = (self.0.lock(), &service.limits);
        let waits = match state.phase {
            Phase::Header => limits.header,
            Phase::Idle => limits.idle,
            Phase::Busy | Phase::Flushing => Duration::MAX,
        };
        let late = state.since.elapsed() >= waits;
        if late && state.phase == Phase::Header {
            service.counts.reject("header_timeout");
        }
        let unread = state.unread.map(|since| since.elapsed() >= limits.unread);
        late || unread.unwrap_or_default()
    }
}

/// A stream, with TLS or without.
pub(super) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// See the module.
pub(super) struct Connection {
    pub(super) origin: Origin,
    pub(super) service: Arc<Service>,
    pub(super) place: Arc<Place>,
    pub(super) ending: watch::Receiver<Option<Instant>>,
}

impl Connection {
    /// Serve until the connection ends.
    pub(super) async fn serve(mut self, stream: Box<dyn Io>) {
        let me = rustix::process::geteuid().as_raw();
        if let Some((user, _)) = self.origin.peer
            && ![0, me].contains(&user)
        {
            self.service.inbox.put(Event::OtherUser(user));
            return self.end(stream, Some(StatusCode::FORBIDDEN)).await;
        }
        let tls = self.service.tls.as_ref().and_then(|tls| tls.acceptor());
        let Some(tls) = tls else {
            return self.run(stream).await;
        };
        self.origin.https = true;
        match tls.accept(stream).await {
            Ok(stream) => self.run(Box::new(stream)).await,
            // A client without TLS, or with a version of it that is too old, or one that has left.
            Err(_) => self.service.counts.reject("tls"),
        }
    }

    async fn run(mut self, stream: Box<dyn Io>) {
        let (service, place, origin) = (&self.service, &self.place, self.origin);
        let watched = Watched {
            stream,
            place: place.clone(),
            malformed: None,
        };
        let respond = service_fn(|request| {
            place.enter(Phase::Busy);
            let answer = answer(service, place, origin, request);
            Box::pin(async { Ok::<_, Infallible>(answer.await) })
        });
        let mut connection = http1::Builder::new()
            .header_read_timeout(None)
            .max_header_size(service.limits.header_bytes)
            .max_buf_size(BUFFER)
            .serve_connection(TokioIo::new(watched), respond);
        {
            let mut end = pin!(self.ending.wait_for(Option::is_some));
            let mut told = false;
            // An error is answered below, or the client has left.
            let _ = poll_fn(|context| {
                if !told && end.as_mut().poll(context).is_ready() {
                    told = true;
                    Pin::new(&mut connection).graceful_shutdown();
                }
                connection.poll_without_shutdown(context)
            })
            .await;
        }
        let watched = connection.into_parts().io.into_inner();
        self.end(watched.stream, watched.malformed).await;
    }

    /// Refuse what is malformed, and close.
    async fn end(&self, mut stream: Box<dyn Io>, malformed: Option<StatusCode>) {
        // From here on it may be closed for the sake of others.
        self.place.enter(Phase::Idle);
        let refusal = malformed.map(|status| alone(status, &self.service.counts));
        let linger = async {
            stream.write_all(&refusal.unwrap_or_default()).await?;
            stream.shutdown().await?;
            copy(&mut stream, &mut sink()).await
        };
        // Whatever comes later is of no interest.
        let _ = timeout(LINGER, linger).await;
    }
}

/// Notes what its connection does, and keeps back hyper's answers to malformed requests, which have no headers.
struct Watched {
    stream: Box<dyn Io>,
    place: Arc<Place>,
    malformed: Option<StatusCode>,
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if buffer.filled().len() > before {
            self.place.change(Phase::Idle, Phase::Header);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.place.idle_since().is_some() {
            // Without a request, hyper writes only that one is malformed.
            let status = bytes.get(9..12).map(StatusCode::from_bytes);
            self.malformed = self.malformed.or_else(|| status?.ok());
            return Poll::Ready(Ok(bytes.len()));
        }
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.place.unread(written.is_pending());
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.place.unread(flushed.is_pending());
        ready!(flushed)?;
        self.place.change(Phase::Flushing, Phase::Idle);
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
