//! The socket at the bottom of a connection: it counts what the kernel took, and can be looked at without reading.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use rustix::net::{RecvFlags, recv};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;

/// TLS asks for 4 KiB at a time; the socket is read in pieces of this size instead.
const PIECE: usize = 64 << 10;
/// So much is read at once.
const MOST: usize = super::line::PIECE;

enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// See the module.
pub(super) struct Wire {
    socket: Socket,
    written: Arc<AtomicU64>,
    /// What was read and not yet taken; empty unless a piece is being decrypted.
    ahead: Vec<u8>,
    taken: usize,
}

impl Wire {
    pub(super) fn tcp(stream: TcpStream) -> Self {
        Self::new(Socket::Tcp(stream))
    }

    pub(super) fn unix(stream: UnixStream) -> Self {
        Self::new(Socket::Unix(stream))
    }

    fn new(socket: Socket) -> Self {
        Self {
            socket,
            written: Arc::default(),
            ahead: Vec::new(),
            taken: 0,
        }
    }

    /// Return how many bytes the kernel has taken, a count that lives on.
    pub(super) fn written(&self) -> Arc<AtomicU64> {
        self.written.clone()
    }

    /// Return whether nothing has arrived: no bytes, no end and no error. Asks the kernel.
    pub(super) fn is_quiet(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let mut byte = [0];
        let peeked = match &self.socket {
            Socket::Tcp(stream) => recv(stream, &mut byte, flags),
            Socket::Unix(stream) => recv(stream, &mut byte, flags),
        };
        self.ahead.is_empty() && peeked.is_err_and(|error| error == rustix::io::Errno::AGAIN)
    }

    /// Read no more than others should wait for, although the reader's buffer may have grown beyond that.
    fn poll_direct(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buffer.remaining() <= MOST {
            return self.poll_socket(context, buffer);
        }
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(MOST));
        ready!(self.poll_socket(context, &mut part))?;
        let count = part.filled().len();
        buffer.advance(count);
        Poll::Ready(Ok(()))
    }

    fn poll_socket(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.socket {
            Socket::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Socket::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let wire = self.get_mut();
        if wire.ahead.is_empty() && buffer.remaining() >= PIECE / 8 {
            return wire.poll_direct(context, buffer);
        }
        if wire.ahead.is_empty() {
            let mut space = Vec::<u8>::with_capacity(PIECE);
            let mut piece = ReadBuf::uninit(space.spare_capacity_mut());
            ready!(wire.poll_socket(context, &mut piece))?;
            let piece = piece.filled();
            let (now, later) = piece.split_at(piece.len().min(buffer.remaining()));
            buffer.put_slice(now);
            wire.ahead.extend_from_slice(later);
            return Poll::Ready(Ok(()));
        }
        let rest = &wire.ahead[wire.taken..];
        let now = rest.len().min(buffer.remaining());
        buffer.put_slice(&rest[..now]);
        wire.taken += now;
        if wire.taken == wire.ahead.len() {
            // A quiet connection keeps no buffer.
            wire.ahead = Vec::new();
            wire.taken = 0;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wire = self.get_mut();
        let count = match &mut wire.socket {
            Socket::Tcp(stream) => ready!(Pin::new(stream).poll_write(context, bytes))?,
            Socket::Unix(stream) => ready!(Pin::new(stream).poll_write(context, bytes))?,
        };
        wire.written.fetch_add(count as u64, Ordering::Relaxed);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Sockets hold nothing back.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().socket {
            Socket::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Socket::Unix(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

/// A wire, or TLS over one, or TLS in the TLS of a proxy.
pub(super) enum Layers {
    Plain(Wire),
    Tls(Box<TlsStream<Layers>>),
}

impl Layers {
    pub(super) fn wire(&self) -> &Wire {
        match self {
            Self::Plain(wire) => wire,
            Self::Tls(stream) => stream.get_ref().0.wire(),
        }
    }
}

impl AsyncRead for Layers {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            // Its readers have large buffers of their own, so that it never reads ahead.
            Self::Plain(wire) => Pin::new(wire).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Layers {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(wire) => Pin::new(wire).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(wire) => Pin::new(wire).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(wire) => Pin::new(wire).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
