//! Answers, and the headers that they get.

use std::fmt::Write;

use http_body_util::{Either, Full};
use hyper::body::Bytes;
use hyper::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderName,
    HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Response, StatusCode};

use super::counts::Counts;
use super::exchange::Pieces;

/// The policy of the host's own pages.
const OWN_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// The headers of every answer, and whether an application may have set them.
static HEADERS: [(HeaderName, &str, bool); 5] = [
    (X_CONTENT_TYPE_OPTIONS, "nosniff", false),
    (REFERRER_POLICY, "no-referrer", false),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
        false,
    ),
    (CACHE_CONTROL, "no-store", true),
    (CONTENT_SECURITY_POLICY, OWN_POLICY, true),
];
const NEVER: &str = "access-control-";
const TEXT: &str = "text/plain; charset=utf-8";

/// What is sent.
pub(super) type Content = Either<Full<Bytes>, Pieces>;

/// Answer with a text.
pub(super) fn plain(status: StatusCode, text: impl Into<Bytes>) -> Response<Content> {
    let mut response = Response::new(Content::Left(Full::new(text.into())));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static(TEXT);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// Say why a request is refused, as JSON below `/api/` and `/admin/`, and close.
pub(super) fn refused(
    path: &str,
    status: StatusCode,
    error: &str,
    hint: &str,
) -> Response<Content> {
    let is_json = path.starts_with("/api/") || path.starts_with("/admin/");
    // Neither has anything to escape.
    let text = match (is_json, hint) {
        (true, _) => format!("{{\"error\": \"{error}\", \"hint\": \"{hint}\"}}"),
        (false, "") => format!("error: {error}\n"),
        (false, _) => format!("error: {error}\nhint: {hint}\n"),
    };
    let mut response = plain(status, text);
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    if is_json {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    response
}

/// Set the headers of every answer.
pub(super) fn secure(headers: &mut HeaderMap) {
    let foreign = |name: &&HeaderName| name.as_str().starts_with(NEVER);
    for name in headers.keys().filter(foreign).cloned().collect::<Vec<_>>() {
        headers.remove(name);
    }
    for (name, value, is_default) in &HEADERS {
        if !is_default || !headers.contains_key(name) {
            headers.insert(name, HeaderValue::from_static(value));
        }
    }
}

/// Return the answer to a malformed request, or to another user, and count it.
pub(super) fn alone(status: StatusCode, counts: &Counts) -> Vec<u8> {
    counts.answer(status.as_u16());
    let error = match status {
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => "the header is too long",
        StatusCode::FORBIDDEN => "this socket is for another user",
        _ => "invalid HTTP request",
    };
    let mut text = format!("HTTP/1.1 {status}\r\ncontent-type: {TEXT}\r\nconnection: close\r\n");
    for (name, value, _) in &HEADERS {
        // A text takes everything.
        let _ = write!(text, "{name}: {value}\r\n");
    }
    let _ = write!(text, "\r\nerror: {error}\n");
    text.into_bytes()
}
