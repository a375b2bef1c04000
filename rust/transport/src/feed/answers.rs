//! Answers: the bodies of lists and watches, and failures as `Status` objects.

use std::pin::Pin;
use std::task::{Context, Poll};

use ctrlhost_core::json::text::quote_into;
use ctrlhost_core::object::Damaged;
use hyper::body::{Bytes, Frame};
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};

use super::list::List;
use super::watch::Watch;

/// Objects are sent in pieces of about this size.
pub(super) const PIECE: usize = 64 << 10;

/// A refused request.
#[derive(Debug)]
pub(super) struct Failure {
    status: StatusCode,
    reason: &'static str,
    message: String,
}

impl Failure {
    pub(super) fn new(status: StatusCode, reason: &'static str, message: String) -> Self {
        Self {
            status,
            reason,
            message,
        }
    }

    pub(super) fn bad(message: String) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// Nothing can be served yet; the client may try again in a second.
    pub(super) fn not_yet(message: String) -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "ServiceUnavailable",
            message,
        )
    }

    /// The log does not go back to the version from which to watch.
    pub(super) fn expired(message: String) -> Self {
        Self::new(StatusCode::GONE, "Expired", message)
    }

    #[cfg(test)]
    pub(super) fn code(&self) -> u16 {
        self.status.as_u16()
    }

    /// Append the failure as a `Status` object.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(
            br#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"#,
        );
        quote_into(out, &self.message);
        out.extend_from_slice(br#","reason":"#);
        quote_into(out, self.reason);
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            out.extend_from_slice(br#","details":{"retryAfterSeconds":1}"#);
        }
        out.extend_from_slice(format!(",\"code\":{}}}", self.status.as_u16()).as_bytes());
    }

    pub(super) fn into_response(self) -> Response<Body> {
        let mut text = Vec::new();
        self.write(&mut text);
        let mut response = respond(Body::Status(Some(text.into())));
        *response.status_mut() = self.status;
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            let headers = response.headers_mut();
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// Answer with a body of JSON.
pub(super) fn respond(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

/// The body of an answer.
pub(super) enum Body {
    Status(Option<Bytes>),
    List(List),
    Watch(Box<Watch>),
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Damaged;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Damaged>>> {
        let piece = match self.get_mut() {
            Self::Status(text) => Poll::Ready(text.take().map(Ok)),
            Self::List(list) => Poll::Ready(list.next_piece()),
            Self::Watch(watch) => watch.poll_piece(context).map(|piece| piece.map(Ok)),
        };
        piece.map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}
