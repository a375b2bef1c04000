//! Watches: the events of a log that a selector selects, as the API server sends them.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use std::vec::IntoIter;

use ctrlhost_core::event_log::{Event, EventReader, Next};
use ctrlhost_core::json::text::quote_into;
use ctrlhost_core::object::{Damaged, Form, Object};
use ctrlhost_core::selector::Selector;
use hyper::body::Bytes;
use tokio::time::{Instant, Sleep, sleep};

use super::answers::{Failure, PIECE};

/// How a watch is sent.
pub(super) struct Style {
    pub(super) form: Form,
    pub(super) namespace: String,
    pub(super) selector: Selector,
    pub(super) api_version: String,
    pub(super) kind: String,
}

/// The body of a watch.
pub(super) struct Watch {
    style: Style,
    /// None for a watch that has ended, or never began.
    reader: Option<EventReader>,
    /// The objects with which it begins.
    initial: IntoIter<Arc<Object>>,
    /// A bookmark ends the initial objects.
    ends_initial: bool,
    /// Why it ends.
    failure: Option<Failure>,
    /// The time of the next bookmark and the time between two; None for a client that wants none.
    bookmarks: Option<(Pin<Box<Sleep>>, Duration)>,
    end: Option<Pin<Box<Sleep>>>,
}

impl Watch {
    /// Watch from where a reader is.
    pub(super) fn new(style: Style, reader: EventReader) -> Self {
        Self {
            style,
            reader: Some(reader),
            initial: Vec::new().into_iter(),
            ends_initial: false,
            failure: None,
            bookmarks: None,
            end: None,
        }
    }

    /// Send only that the watch has failed.
    pub(super) fn failed(style: Style, failure: Failure) -> Self {
        Self {
            reader: None,
            failure: Some(failure),
            style,
            initial: Vec::new().into_iter(),
            ends_initial: false,
            bookmarks: None,
            end: None,
        }
    }

    /// Begin with these objects, and end them with a bookmark if the client wants that.
    pub(super) fn begin_with(&mut self, objects: Vec<Arc<Object>>, bookmark: bool) {
        self.initial = objects.into_iter();
        self.ends_initial = bookmark;
    }

    /// Send a bookmark whenever so much time has passed, and those of the informer.
    pub(super) fn bookmark_every(&mut self, time: Duration) {
        self.bookmarks = Some((Box::pin(sleep(time)), time));
    }

    /// End the watch after some time.
    pub(super) fn end_after(&mut self, time: Duration) {
        self.end = Some(Box::pin(sleep(time)));
    }

    /// Return the next events, None at the end.
    pub(super) fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let mut piece = Vec::new();
        if let Some(failure) = self.failure.take() {
            self.reader = None;
            fail(&failure, &mut piece);
            return Poll::Ready(Some(piece.into()));
        }
        let ends = |end: &mut Pin<Box<Sleep>>| end.as_mut().poll(context).is_ready();
        if self.end.as_mut().is_some_and(ends) {
            self.reader = None;
        }
        let Some(reader) = &mut self.reader else {
            return Poll::Ready(None);
        };
        for object in self.initial.by_ref() {
            if self.style.selects(&object) {
                let sent = self.style.event("ADDED", &object, None, &mut piece);
                if let Err(damaged) = sent {
                    return Poll::Ready(Some(self.cut(&damaged, piece)));
                }
            }
            if piece.len() >= PIECE {
                return Poll::Ready(Some(piece.into()));
            }
        }
        if std::mem::take(&mut self.ends_initial) {
            self.style.bookmark(reader.version(), true, &mut piece);
        }
        while piece.is_empty() {
            match reader.poll_next(context, PIECE as u64) {
                Poll::Pending => break,
                Poll::Ready(Next::Events(events)) => {
                    for event in &events {
                        let bookmarks = self.bookmarks.is_some();
                        if let Err(damaged) = self.style.change(event, bookmarks, &mut piece) {
                            return Poll::Ready(Some(self.cut(&damaged, piece)));
                        }
                    }
                }
                Poll::Ready(Next::Expired) => {
                    let what = format!("too old resource version: {}", reader.version());
                    fail(&Failure::expired(what), &mut piece);
                    self.reader = None;
                    return Poll::Ready(Some(piece.into()));
                }
                Poll::Ready(Next::Closed) => {
                    self.reader = None;
                    return Poll::Ready(None);
                }
            }
        }
        if let Some((due, time)) = &mut self.bookmarks
            && due.as_mut().poll(context).is_ready()
        {
            due.as_mut().reset(Instant::now() + *time);
            // Polled again, so that it wakes this task.
            let _ = due.as_mut().poll(context);
            self.style.bookmark(reader.version(), false, &mut piece);
        }
        if piece.is_empty() {
            return Poll::Pending;
        }
        Poll::Ready(Some(piece.into()))
    }

    /// End the watch after what was written, since the next object cannot be sent: the client has to list anew.
    fn cut(&mut self, damaged: &Damaged, mut piece: Vec<u8>) -> Bytes {
        fail(&Failure::expired(damaged.to_string()), &mut piece);
        self.reader = None;
        piece.into()
    }
}

impl Style {
    /// Return `apiVersion` and `kind` as they are sent.
    pub(super) fn types(&self) -> (&str, &str) {
        match self.form {
            Form::Whole => (&self.api_version, &self.kind),
            Form::Metadata => ("meta.k8s.io/v1", "PartialObjectMetadata"),
        }
    }

    pub(super) fn selects(&self, object: &Object) -> bool {
        let here = self.namespace.is_empty() || object.namespace() == self.namespace;
        here && self.selector.selects(object)
    }

    /// Append an event as it is for the selected objects: one that leaves them is deleted, one that enters is added.
    fn change(&self, event: &Event, bookmarks: bool, out: &mut Vec<u8>) -> Result<(), Damaged> {
        let old = event.old.as_ref().filter(|old| self.selects(old));
        let new = event.new.as_ref().filter(|new| self.selects(new));
        match (old, new) {
            (None, Some(new)) => self.event("ADDED", new, None, out),
            (Some(_), Some(new)) => self.event("MODIFIED", new, None, out),
            (Some(old), None) => self.event("DELETED", old, Some(&event.version), out),
            (None, None) => {
                if bookmarks && event.old.is_none() && event.new.is_none() {
                    self.bookmark(&event.version, false, out);
                }
                Ok(())
            }
        }
    }

    /// Append an event; nothing if the object is damaged.
    fn event(
        &self,
        kind: &str,
        object: &Object,
        version: Option<&str>,
        out: &mut Vec<u8>,
    ) -> Result<(), Damaged> {
        let start = out.len();
        out.extend_from_slice(br#"{"type":""#);
        out.extend_from_slice(kind.as_bytes());
        out.extend_from_slice(br#"","object":"#);
        let written = object.write(self.form, version, out);
        if written.is_err() {
            out.truncate(start);
        } else {
            out.extend_from_slice(b"}\n");
        }
        written
    }

    fn bookmark(&self, version: &str, ends_initial: bool, out: &mut Vec<u8>) {
        let (api_version, kind) = self.types();
        out.extend_from_slice(br#"{"type":"BOOKMARK","object":{"kind":"#);
        quote_into(out, kind);
        out.extend_from_slice(br#","apiVersion":"#);
        quote_into(out, api_version);
        out.extend_from_slice(br#","metadata":{"resourceVersion":"#);
        quote_into(out, version);
        out.extend_from_slice(br#","creationTimestamp":null"#);
        if ends_initial {
            out.extend_from_slice(br#","annotations":{"k8s.io/initial-events-end":"true"}"#);
        }
        out.extend_from_slice(b"}}}\n");
    }
}

fn fail(failure: &Failure, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"type":"ERROR","object":"#);
    failure.write(out);
    out.extend_from_slice(b"}\n");
}
