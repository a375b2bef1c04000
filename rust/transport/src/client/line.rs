//! One HTTP connection, driven by the task whose request it carries.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::Full;
use hyper::Response;
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH, TRANSFER_ENCODING};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;

use super::guard::{Guard, Turn};
use super::last_byte::LastByte;
use super::progress::Progress;
use super::request::Prepared;
use super::wire::Layers;
use super::{Failure, Stage, failure, tls};

/// Streams are read in pieces up to this size.
pub(super) const PIECE: usize = 256 << 10;
const LARGEST_HEAD: usize = 64 << 10;

/// See the module.
pub(super) struct Line {
    sender: SendRequest<Full<Bytes>>,
    /// None after its end. What it still held, such as a request, was dropped with it.
    connection: Driven,
    turn: Arc<Mutex<Turn>>,
    /// The last response leaves no doubt about where it ends.
    clear: bool,
    /// Of the TLS values with which it was made.
    pub(super) generation: u64,
}

impl Line {
    pub(super) async fn new(
        layers: Layers,
        generation: u64,
        last_byte: LastByte,
    ) -> Result<Self, Failure> {
        let turn = Arc::<Mutex<Turn>>::default();
        let guard = Guard::new(layers, turn.clone(), last_byte);
        let (sender, connection) = Builder::new()
            .max_buf_size(PIECE)
            .max_header_size(LARGEST_HEAD)
            // One write for head and body.
            .writev(false)
            .handshake(TokioIo::new(guard))
            .await
            .map_err(|error| Failure::new(Stage::Connect, error.to_string()))?;
        Ok(Self {
            sender,
            connection: Some(Box::pin(connection)),
            turn,
            clear: true,
            generation,
        })
    }

    /// Drive the connection; return its error if that ended it.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<hyper::Error>> {
        work(&mut self.connection, context)
    }

    /// Send a request and return the head of the response.
    pub(super) async fn send(
        &mut self,
        request: &Prepared,
        progress: &Arc<Progress>,
    ) -> Result<Response<Incoming>, Failure> {
        self.turn.lock().arm(progress.clone());
        let response = self.sender.try_send_request(request.request(progress));
        let mut response = std::pin::pin!(response);
        let result = std::future::poll_fn(|context| {
            // Its error reaches the response.
            let _ = work(&mut self.connection, context);
            response.as_mut().poll(context)
        })
        .await;
        let response = result.map_err(|mut error| {
            // The request is not needed again.
            drop(error.take_message());
            self.explain(&error.into_error(), Stage::Head)
        })?;
        self.clear = check(&response, progress)?;
        Ok(response)
    }

    /// Return the next bytes of the body, None at its end.
    pub(super) fn poll_body(
        &mut self,
        body: &mut Incoming,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Failure>>> {
        let mut worked = self.connection.is_none();
        loop {
            match Pin::new(&mut *body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => {
                    // Trailers mean nothing here.
                    if let Ok(data) = frame.into_data()
                        && !data.is_empty()
                    {
                        return Poll::Ready(Some(Ok(data)));
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    return Poll::Ready(Some(Err(self.explain(&error, Stage::Body))));
                }
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending if worked => return Poll::Pending,
                Poll::Pending => {
                    worked = true;
                    if let Poll::Ready(Some(error)) = self.poll(context)
                        && !is_behind(&error)
                    {
                        return Poll::Ready(Some(Err(self.explain(&error, Stage::Body))));
                    }
                }
            }
        }
    }

    /// After a whole response, return whether the connection can carry another request.
    pub(super) fn is_reusable(&mut self, context: &mut Context<'_>) -> bool {
        // Polled, so that it notices its end, and bytes that nobody asked for.
        let ended = self.poll(context).is_ready();
        !ended && self.clear && self.sender.is_ready() && !self.turn.lock().broken
    }

    /// Return whether the last request failed because the idle connection was no longer of use.
    pub(super) fn is_stale(&self) -> bool {
        self.turn.lock().stale
    }

    /// Return what an error means.
    fn explain(&self, error: &hyper::Error, stage: Stage) -> Failure {
        let turn = self.turn.lock();
        let Some(progress) = &turn.progress else {
            return Failure::new(stage, error.to_string());
        };
        let mut failure = Failure::new(stage, "");
        failure.sent = progress.sent();
        if let Some(code) = turn.refused {
            failure.stage = Stage::Refused(code);
            "refused before it was sent".clone_into(&mut failure.text);
            return failure;
        }
        let source = std::error::Error::source(error);
        let io = source.and_then(|source| source.downcast_ref::<io::Error>());
        if let Some((text, unknown_ca)) = io.and_then(tls::words::explain) {
            failure.text = format!("TLS failed: {text}");
            failure.unknown_ca = unknown_ca;
            return failure;
        }
        let cut = io.is_none_or(|io| io.kind() == io::ErrorKind::UnexpectedEof);
        failure.text = match io {
            _ if progress.is_flooded() => "the server sent too many interim responses".into(),
            _ if turn.first == [0x15, 3] => {
                "the server speaks TLS on this port: use an https URL".into()
            }
            _ if error.is_parse_too_large() => "the response has too many headers".into(),
            _ if error.is_parse() => {
                let why = source.map_or_else(|| error.to_string(), ToString::to_string);
                format!("the response is not HTTP: {why}")
            }
            _ if turn.stale => "the server closed the connection without a response".into(),
            Some(io) if is_framing(io) => format!("the framing of the response is invalid: {io}"),
            Some(io) if !cut => failure::io_text(io),
            _ if progress.received() => {
                format!(
                    "the connection was cut in the middle of the {}",
                    progress.what
                )
            }
            _ => "the server closed the connection without a response".into(),
        };
        failure
    }
}

type Driven = Option<Pin<Box<Connection<TokioIo<Guard>, Full<Bytes>>>>>;

/// Drive a connection, and drop it at its end.
fn work(connection: &mut Driven, context: &mut Context<'_>) -> Poll<Option<hyper::Error>> {
    let Some(driven) = connection else {
        return Poll::Ready(None);
    };
    let ended = driven.as_mut().poll(context);
    if ended.is_ready() {
        *connection = None;
    }
    ended.map(Result::err)
}

/// Return whether a connection ended for bytes behind a whole response, which hyper has no question for.
fn is_behind(error: &hyper::Error) -> bool {
    std::error::Error::source(error).is_none()
        && !error.is_incomplete_message()
        && !error.is_canceled()
        && !error.is_closed()
        && !error.is_user()
        && !error.is_parse()
}

fn is_framing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData
    )
}

/// Check the head of a response; return whether its end is beyond doubt.
fn check(response: &Response<Incoming>, progress: &Progress) -> Result<bool, Failure> {
    let fail = |text: &str| {
        Err(Failure {
            sent: progress.sent(),
            ..Failure::new(Stage::Head, text)
        })
    };
    if response.status().as_u16() < 200 {
        return fail("the server switched protocols");
    }
    let headers = response.headers();
    let is = |value: &hyper::header::HeaderValue, wanted: &str| {
        value
            .as_bytes()
            .trim_ascii()
            .eq_ignore_ascii_case(wanted.as_bytes())
    };
    let mut encodings = headers.get_all(CONTENT_ENCODING).iter();
    if !encodings.all(|encoding| is(encoding, "identity")) {
        return fail("the response is compressed, although that was not requested");
    }
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let chunked = match (codings.next(), codings.next()) {
        (None, _) => false,
        (Some(coding), None) if is(coding, "chunked") => true,
        _ => return fail("the transfer encoding of the response is not supported"),
    };
    // Length and chunks together: the chunks count, and the connection is not used again.
    Ok(!(chunked && headers.contains_key(CONTENT_LENGTH)))
}
