//! A socket that is read without anybody's help.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// The most that one read takes: the events that came while the last ones were worked off.
const PIECE: usize = 256 << 10;

/// What came of waiting for bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received<'a> {
    /// These.
    Bytes(&'a [u8]),
    /// The other side has ended the connection, or it was shut down here.
    End,
    /// Nothing in time.
    Nothing,
}

/// A connected stream socket that does not block, with a buffer that is used over and over.
#[derive(Debug)]
pub struct Socket {
    stream: TcpStream,
    buffer: Box<[u8]>,
}

impl Socket {
    /// Read from that socket, whose duplicates may be shut down to end a wait.
    ///
    /// # Errors
    /// It can not be told not to block.
    pub fn new(fd: OwnedFd) -> std::io::Result<Self> {
        let stream = TcpStream::from(fd);
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            buffer: Box::default(),
        })
    }

    /// Take what is there, and wait for it `limit` at most if there is nothing.
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
            // What is longer than a kernel can count is for ever.
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
