//! What stands between HTTP and the socket: the gate, and what counts as the beginning of a request.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::Stage;
use super::last_byte::LastByte;
use super::progress::Progress;
use super::wire::Layers;

/// The gate is asked for each piece of this size.
const PIECE: usize = 64 << 10;

/// How far the bytes of a request are.
#[derive(Default, PartialEq, Eq)]
enum Phase {
    /// None was offered.
    Unoffered,
    /// Some may not have reached the kernel.
    Unflushed,
    /// Those offered so far have.
    #[default]
    Flushed,
}

/// The request that a connection carries, and what happened to it.
#[derive(Default)]
pub(super) struct Turn {
    pub(super) progress: Option<Arc<Progress>>,
    /// The connection carried a request before.
    reused: bool,
    phase: Phase,
    /// The gate refused the request.
    pub(super) refused: Option<u8>,
    /// The server had closed the idle connection, or sent bytes that nobody asked for.
    pub(super) stale: bool,
    /// The server no longer reads. It may have answered before.
    pub(super) broken: bool,
    /// What arrived first, to recognize TLS.
    pub(super) first: Vec<u8>,
}

impl Turn {
    pub(super) fn arm(&mut self, progress: Arc<Progress>) {
        progress.begin();
        *self = Self {
            reused: self.progress.is_some(),
            progress: Some(progress),
            phase: Phase::Unoffered,
            ..Self::default()
        };
    }

    /// Ask the gate.
    fn ask(&mut self) -> io::Result<Option<Duration>> {
        let gate = self.progress.as_ref().and_then(|now| now.gate.as_ref());
        gate.map_or(Ok(None), |gate| gate.may_send())
            .map_err(|code| {
                self.refused = Some(code);
                io::Error::other("refused")
            })
    }

    /// Return whether the error says only that the server no longer reads, although it may have answered.
    fn is_broken(&self, error: &io::Error) -> bool {
        let kinds = [io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset];
        kinds.contains(&error.kind()) && self.progress.as_ref().is_some_and(|now| now.sent())
    }

    fn enter(&self, stage: Stage) {
        if let Some(progress) = &self.progress {
            progress.enter(stage);
        }
    }
}

/// See the module.
pub(super) struct Guard {
    layers: Layers,
    written: Arc<AtomicU64>,
    turn: Arc<Mutex<Turn>>,
    /// Of responses: TLS and proxies may say something while the server hangs.
    last_byte: LastByte,
    /// When the gate is asked again, since the kernel takes nothing.
    again: Option<Pin<Box<Sleep>>>,
}

impl Guard {
    pub(super) fn new(layers: Layers, turn: Arc<Mutex<Turn>>, last_byte: LastByte) -> Self {
        let written = layers.wire().written();
        Self {
            layers,
            written,
            turn,
            last_byte,
            again: None,
        }
    }

    /// Wait for the kernel, or until the gate must be asked again.
    fn wait<T>(&mut self, left: Option<Duration>, context: &mut Context<'_>) -> Poll<T> {
        self.again = left.map(|left| Box::pin(sleep(left)));
        let passed = |again: &mut Pin<Box<Sleep>>| again.as_mut().poll(context).is_ready();
        if self.again.as_mut().is_some_and(passed) {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Write or flush, and note whether bytes have left.
    fn hand_over<T>(
        &mut self,
        turn: &mut Turn,
        write: impl FnOnce(&mut Layers) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let before = self.written.load(Ordering::Relaxed);
        let result = write(&mut self.layers);
        if self.written.load(Ordering::Relaxed) != before
            && let Some(progress) = &turn.progress
        {
            progress.note_sent();
        }
        result
    }
}

impl AsyncRead for Guard {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let guard = self.get_mut();
        let flooded = |now: &Arc<Progress>| now.is_flooded();
        if guard.turn.lock().progress.as_ref().is_some_and(flooded) {
            return Poll::Ready(Err(io::Error::other("too many interim responses")));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut guard.layers).poll_read(context, buffer))?;
        let news = &buffer.filled()[before..];
        if !news.is_empty() {
            guard.last_byte.arrived();
            let mut turn = guard.turn.lock();
            if let Some(progress) = turn.progress.as_ref().filter(|now| !now.received()) {
                progress.note_received();
                turn.first = news[..news.len().min(2)].to_vec();
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Guard {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let guard = self.get_mut();
        let turn = guard.turn.clone();
        let mut turn = turn.lock();
        if turn.broken {
            return Poll::Ready(Ok(bytes.len()));
        }
        if turn.phase == Phase::Unoffered && turn.reused && !guard.layers.wire().is_quiet() {
            turn.stale = true;
            return Poll::Ready(Err(io::Error::other("stale")));
        }
        let left = turn.ask()?;
        turn.phase = Phase::Unflushed;
        turn.enter(Stage::Write);
        let piece = &bytes[..bytes.len().min(PIECE)];
        let result = guard.hand_over(&mut turn, |layers| {
            Pin::new(layers).poll_write(context, piece)
        });
        match result {
            Poll::Ready(Err(error)) if turn.is_broken(&error) => {
                turn.broken = true;
                Poll::Ready(Ok(bytes.len()))
            }
            Poll::Pending => guard.wait(left, context),
            other @ Poll::Ready(_) => other,
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let guard = self.get_mut();
        let turn = guard.turn.clone();
        let mut turn = turn.lock();
        if turn.broken {
            return Poll::Ready(Ok(()));
        }
        let left = if turn.phase == Phase::Unflushed {
            turn.ask()?
        } else {
            None
        };
        let result = guard.hand_over(&mut turn, |layers| Pin::new(layers).poll_flush(context));
        match result {
            Poll::Ready(Err(error)) if turn.is_broken(&error) => turn.broken = true,
            Poll::Ready(other) => other?,
            Poll::Pending => return guard.wait(left, context),
        }
        if turn.phase == Phase::Unflushed {
            turn.phase = Phase::Flushed;
            turn.enter(Stage::Head);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().layers).poll_shutdown(context)
    }
}
