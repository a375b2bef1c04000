//! Requests and responses as callers see them.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

/// Decides whether a request may be sent.
pub trait Gate: Send + Sync {
    /// Return in which time bytes of the request must be handed to the kernel, beginning now; None if that is open.
    ///
    /// Asked on the I/O thread, immediately before the request's first byte is offered to TLS or to the socket, before
    /// each later part of it, when that time has passed and the kernel has not taken everything, and again if the
    /// request is repeated. Must be quick and must not block.
    ///
    /// # Errors
    /// The code of the reason, which becomes `Stage::Refused`.
    fn may_send(&self) -> Result<Option<Duration>, u8>;
}

/// A request whose response is read as a whole.
#[derive(Clone)]
pub struct Call {
    /// The method.
    pub method: String,
    /// Path and query, with the path of the base URL.
    pub target: String,
    /// The headers of this request alone.
    pub headers: Vec<(String, String)>,
    /// The body; empty for none.
    pub body: Bytes,
    /// When the call fails if the response is not complete.
    pub deadline: Instant,
    /// Whether it may be sent once more if its connection breaks before the response: for reads only.
    pub repeat: bool,
    /// Whether it goes over a new connection, which is closed afterwards.
    pub fresh: bool,
    /// Asked before bytes leave.
    pub gate: Option<Arc<dyn Gate>>,
}

/// A GET whose body is read while it arrives.
#[derive(Clone)]
pub struct StreamCall {
    /// Path and query, with the path of the base URL.
    pub target: String,
    /// The headers of this request alone.
    pub headers: Vec<(String, String)>,
    /// When the call fails if the head is not there.
    pub deadline: Instant,
    /// The connection is not read while so many bytes wait for the reader.
    pub intake_bytes: usize,
}

/// A whole response.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// The headers with names in lower case, in their order. Bytes above 127 are read as Latin-1.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
    /// The time from the sending of the request to the head of the response.
    pub began: Duration,
}

/// The head of a stream. Its body is there only if the status is not 200.
pub type Head = Response;

impl fmt::Debug for Call {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Call")
            .field("method", &self.method)
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for StreamCall {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("StreamCall")
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}
