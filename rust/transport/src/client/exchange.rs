//! One request and its response, on as many connections as the rules allow.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use hyper::Response as HttpResponse;
use hyper::body::{Body, Incoming};
use tokio::time::timeout;

use super::connect::connect;
use super::line::Line;
use super::progress::Progress;
use super::request::Prepared;
use super::{Failure, Inner, Response, Stage};

const LARGEST_BODY: usize = 256 << 20;
pub(super) const LARGEST_ERROR: usize = 1 << 20;

/// One more in a gauge while it lives.
pub(super) struct Gauge<'a>(&'a AtomicU64);

impl<'a> Gauge<'a> {
    pub(super) fn up(gauge: &'a AtomicU64) -> Self {
        gauge.fetch_add(1, Ordering::Relaxed);
        Self(gauge)
    }
}

impl Drop for Gauge<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The head of a response, with the connection that carries its body.
pub(super) struct Opened<'a> {
    pub(super) line: Line,
    pub(super) response: Response,
    pub(super) body: Incoming,
    /// Another request may use the connection afterwards.
    keep: bool,
    /// Counts the connection in the state that it has now.
    pub(super) gauge: Gauge<'a>,
}

/// Open a connection and keep it for the first request.
pub(super) async fn connect_ahead(inner: &Inner) {
    let _connecting = Gauge::up(&inner.connecting);
    let progress = Progress::new("connection", None);
    let connected = timeout(inner.settings.connect_timeout, connect(inner, &progress));
    if let Ok(Ok(line)) = connected.await {
        inner.pool.put(line).await;
    }
}

/// Send a request and return the head of its response.
///
/// A request of which nothing was sent goes again over another connection. `state` counts the connections like this one.
pub(super) async fn open<'a>(
    inner: &Inner,
    request: &Prepared,
    progress: &Arc<Progress>,
    state: &'a AtomicU64,
) -> Result<Opened<'a>, Failure> {
    // A new connection may fail once before anything is sent.
    let (mut fresh, mut tried, mut repeated) = (request.fresh, false, false);
    loop {
        let idle = if fresh { None } else { inner.pool.take() };
        let reused = idle.is_some();
        let mut line = if let Some(line) = idle {
            line
        } else {
            let _connecting = Gauge::up(&inner.connecting);
            let connected = timeout(inner.settings.connect_timeout, connect(inner, progress));
            connected
                .await
                .unwrap_or_else(|_| Err(progress.out_of_time()))?
        };
        let gauge = Gauge::up(state);
        let began = Instant::now();
        let failure = match line.send(request, progress).await {
            Ok(response) => return Ok(opened(line, response, !request.fresh, began, gauge)),
            Err(failure) => failure,
        };
        let unsent = line.is_stale() || !failure.sent;
        if matches!(failure.stage, Stage::Refused(_)) {
            return Err(failure);
        } else if unsent && (reused || !tried) {
            tried |= !reused;
        } else if request.repeat && !repeated && !progress.received() {
            (repeated, fresh) = (true, true);
        } else {
            if reused && !progress.received() {
                // The server is likely to have closed the others as well, and the caller may try again at once.
                inner.pool.clear();
            }
            return Err(failure);
        }
    }
}

fn opened(
    line: Line,
    response: HttpResponse<Incoming>,
    keep: bool,
    began: Instant,
    gauge: Gauge<'_>,
) -> Opened<'_> {
    let (parts, body) = response.into_parts();
    let headers = parts.headers.iter().map(|(name, value)| {
        let value = value.as_bytes().iter().copied().map(char::from).collect();
        (name.as_str().to_owned(), value)
    });
    let response = Response {
        status: parts.status.as_u16(),
        headers: headers.collect(),
        body: Bytes::new(),
        began: began.elapsed(),
    };
    Opened {
        line,
        response,
        body,
        keep,
        gauge,
    }
}

/// Read a body as a whole, and keep the connection for the next request unless this one was to have its own.
pub(super) async fn finish(
    inner: &Inner,
    opened: Opened<'_>,
    progress: &Progress,
    limit: usize,
) -> Result<Response, Failure> {
    let Opened {
        mut line,
        mut response,
        mut body,
        keep,
        gauge: _gauge,
    } = opened;
    progress.enter(Stage::Body);
    let too_large = || Failure {
        sent: true,
        ..Failure::new(
            Stage::Body,
            format!("the response is larger than {} MiB", limit >> 20),
        )
    };
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    // Mostly there is one piece, which is not copied.
    let (mut first, mut whole) = (Bytes::new(), Vec::new());
    while let Some(piece) = poll_fn(|context| line.poll_body(&mut body, context)).await {
        let piece = piece?;
        if first.len() + whole.len() + piece.len() > limit {
            return Err(too_large());
        }
        if first.is_empty() && whole.is_empty() {
            first = piece;
        } else {
            whole.extend_from_slice(&std::mem::take(&mut first));
            whole.extend_from_slice(&piece);
        }
    }
    response.body = if whole.is_empty() {
        first
    } else {
        whole.into()
    };
    drop(body);
    if keep {
        inner.pool.put(line).await;
    }
    Ok(response)
}

/// Carry out a whole call.
pub(super) async fn call(
    inner: &Inner,
    request: &Prepared,
    progress: &Arc<Progress>,
) -> Result<Response, Failure> {
    let opened = open(inner, request, progress, &inner.calls).await?;
    let limit = match opened.response.status {
        ..400 => LARGEST_BODY,
        _ => LARGEST_ERROR,
    };
    finish(inner, opened, progress, limit).await
}
