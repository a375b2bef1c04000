//! Why there is no response, in one line of plain words.

use std::fmt;
use std::io;

/// Where a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It is invalid, such as a header with a line break; nothing was sent.
    Request,
    /// The name of the server or proxy was not resolved.
    Resolve,
    /// There is no connection.
    Connect,
    /// The proxy did not connect to the server.
    Proxy,
    /// TLS failed.
    Tls,
    /// The request was not written as a whole.
    Write,
    /// There is no head of a response.
    Head,
    /// The body of the response is not complete.
    Body,
    /// The gate refused it for this reason.
    Refused(u8),
    /// The caller cancelled it, or the I/O thread has stopped.
    Cancelled,
    /// This process is a fork of the one that has the I/O thread.
    Forked,
}

/// Why there is no response.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Where it failed.
    pub stage: Stage,
    /// One line, without URL and secrets.
    pub text: String,
    /// Whether the server may have received bytes of the request.
    pub sent: bool,
    /// Whether time ran out.
    pub timed_out: bool,
    /// Whether the server's certificate was signed by an unknown authority.
    pub unknown_ca: bool,
}

impl Failure {
    pub(super) fn new(stage: Stage, text: impl Into<String>) -> Self {
        Self {
            stage,
            text: text.into(),
            sent: false,
            timed_out: false,
            unknown_ca: false,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}

/// Return the text of an error without the number that the standard library appends.
pub(super) fn io_text(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    text.trim_start_matches("failed to lookup address information: ")
        .to_owned()
}
