//! Non-blocking reads of a socket.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// The most that one read returns: the events that arrived while the last ones were processed.
const PIECE: usize = 256 << 10;

/// The result of a wait for bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received<'a> {
    /// Bytes that arrived.
    Bytes(&'a [u8]),
    /// The peer has ended the connection, or it was shut down here.
    End,
    /// Nothing arrived in time.
    Nothing,
}

/// A connected, non-blocking stream socket with a buffer that is reused.
#[derive(Debug)]
pub struct Socket {
    stream: TcpStream,
    buffer: Box<[u8]>,
}

impl Socket {
    /// Create a reader of a socket; a shutdown of one of its duplicates ends a wait.
    ///
    /// # Errors
    /// The socket cannot be made non-blocking.
    pub fn new(fd: OwnedFd) -> std::io::Result<Self> {
        let stream = TcpStream::from(fd);
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            buffer: Box::default(),
        })
    }

    /// Return what has arrived; if nothing has, wait for it, at most `limit`.
    ///
    /// # Errors
    /// The connection broke.
    pub fn receive(&mut self, limit: Duration) -> std::io::Result<Received<'_>> {
        if self.buffer.is_empty() {
            self.buffer = vec![0; PIECE].into_boxed_slice();
        }
        let deadline = Instant::now().checked_add(limit);
        let len = loop {
            match self.stream.read(&mut self.buffer) {
                Ok(len) => break len,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
                Err(_) => {}
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            // A time too long for the kernel means for ever.
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            let mut wanted = [PollFd::new(&self.stream, PollFlags::IN)];
            match poll(&mut wanted, left.as_ref()) {
                Ok(0) => return Ok(Received::Nothing),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        };
        Ok(match self.buffer.get(..len) {
            Some(bytes) if len > 0 => Received::Bytes(bytes),
            _ => Received::End,
        })
    }
}
