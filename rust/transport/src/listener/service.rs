//! Answers one request: refuses it, answers it here, or passes it to Python.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use tokio::time::timeout;

use super::Service;
use super::answer::{Content, plain, refused, secure};
use super::connection::Place;
use super::exchange::{Event, Exchange, Origin};
use super::guard::refusal;
use super::probes::{READY_LIMIT, format};

/// The time between two looks at the interpreter while a request waits for it.
const LOOK: Duration = Duration::from_millis(250);

/// See the module.
pub(super) async fn answer(
    service: &Service,
    place: &Arc<Place>,
    origin: Origin,
    request: Request<Incoming>,
) -> Response<Content> {
    let (head, body) = request.into_parts();
    let path = head.uri.path().to_owned();
    let refusal = refusal(&head, service.guard.as_ref());
    let mut response = if let Some((status, error, hint)) = refusal {
        if status == StatusCode::MISDIRECTED_REQUEST {
            service.counts.reject("host");
        }
        if let Some(peer) = origin.peer.filter(|_| path.starts_with("/admin/")) {
            let event = Event::Refused(path.clone(), peer, status.as_u16(), error.clone());
            service.inbox.put(event);
        }
        refused(&path, status, &error, hint)
    } else if let Some(response) = respond(service, place, (head, body, origin)).await {
        response
    } else {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        refused(&path, status, "the host failed to answer", "")
    };
    service.counts.answer(response.status().as_u16());
    if service.guard.is_some() {
        secure(response.headers_mut());
    }
    if let Content::Left(_) = response.body() {
        place.answered();
    }
    response
}

async fn respond(
    service: &Service,
    place: &Arc<Place>,
    request: (Parts, Incoming, Origin),
) -> Option<Response<Content>> {
    let head = &request.0;
    let Some(probes) = &service.probes else {
        return Exchange::begin(request, place, &service.inbox).await.ok();
    };
    let is_read = [Method::GET, Method::HEAD].contains(&head.method);
    if service.answers_probes
        && is_read
        && let Some(response) = probes.answer(&head.uri).await
    {
        return Some(response);
    }
    let is_scrape = service.shows_metrics && is_read && head.uri.path() == "/metrics";
    let format = is_scrape.then(|| format(&head.headers));
    // What it gets instead of an answer of Python.
    let instead = || {
        let exposition = format.as_ref().and_then(|format| probes.exposition(format));
        exposition.or_else(|| {
            let complaint = probes.complaint(READY_LIMIT)?;
            let status = StatusCode::SERVICE_UNAVAILABLE;
            Some(plain(status, format!("error: {complaint}\n")))
        })
    };
    if let Some(response) = instead() {
        return Some(response);
    }
    let mut answer = Exchange::begin(request, place, &service.inbox);
    loop {
        if let Ok(response) = timeout(LOOK, &mut answer).await {
            if let (Some(format), Ok(response)) = (&format, &response) {
                probes.keep(format, response);
            }
            return response.ok();
        }
        if let Some(response) = instead() {
            return Some(response);
        }
    }
}
