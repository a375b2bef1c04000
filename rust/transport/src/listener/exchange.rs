//! A request that Python answers, and its answer, piece by piece in both directions.

use std::io;
use std::mem::{replace, take};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker, ready};

use http_body_util::Full;
use hyper::Response;
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::http::request::Parts;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use super::answer::Content;
use super::connection::Place;

/// Pieces of an answer that wait for the client.
const ROOM: usize = 8;

/// Something that Python has to know.
pub enum Event {
    /// A request came.
    Request(Box<Exchange>),
    /// A part of the request of this key came, its client reads again, or has left.
    News(usize),
    /// A connection of another user was refused.
    OtherUser(u32),
    /// No connection can be accepted, for this reason.
    NotAccepted(String),
    /// A request at a Unix socket was refused: its path, user and process, the status and the error.
    Refused(String, (u32, i32), u16, String),
}

/// The events of a listener, and the socket by which Python's event loop wakes.
pub struct Inbox {
    events: Mutex<Vec<Event>>,
    wake: UnixStream,
}

impl Inbox {
    /// Write a byte to this socket, which must not block, when there are events.
    pub fn new(wake: UnixStream) -> Self {
        let events = Mutex::default();
        Self { events, wake }
    }

    /// Return the events since the last call. The caller has read from the socket before.
    pub fn take(&self) -> Vec<Event> {
        take(&mut *self.events.lock())
    }

    pub(super) fn put(&self, event: Event) {
        let mut events = self.events.lock();
        events.push(event);
        if events.len() == 1 {
            // Its other end is closed, or full of such bytes.
            let _ = rustix::io::write(&self.wake, &[0]);
        }
    }
}

/// Tells Python that something has happened to a request, whose key is its address.
struct News(Arc<Inbox>);

impl Wake for News {
    fn wake(self: Arc<Self>) {
        self.0.put(Event::News(Arc::as_ptr(&self).addr()));
    }
}

/// Where a request came from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Origin {
    /// The client; None at a Unix socket.
    pub client: Option<SocketAddr>,
    /// The address of the listener; None at a Unix socket.
    pub server: Option<SocketAddr>,
    /// User and process at the other end of a Unix socket; 0 for a process that the system does not name.
    pub peer: Option<(u32, i32)>,
    /// Whether it came with TLS.
    pub https: bool,
}

/// See the module.
pub struct Exchange {
    /// What `Event::News` names it by.
    pub key: usize,
    /// The head of the request.
    pub head: Parts,
    /// Where it came from.
    pub origin: Origin,
    body: Mutex<Incoming>,
    answer: Mutex<State>,
    place: Arc<Place>,
    news: Waker,
}

enum State {
    /// It has not begun.
    Waiting(oneshot::Sender<Response<Content>>),
    /// More pieces follow, and None behind the last one.
    Begun(mpsc::Sender<Option<Bytes>>),
    Over,
}

impl Exchange {
    /// Pass a request to Python; the receiver gets the answer, or an error if there is none.
    pub(super) fn begin(
        (head, body, origin): (Parts, Incoming, Origin),
        place: &Arc<Place>,
        inbox: &Arc<Inbox>,
    ) -> oneshot::Receiver<Response<Content>> {
        let (answer, answered) = oneshot::channel();
        let news = Arc::new(News(inbox.clone()));
        let exchange = Self {
            key: Arc::as_ptr(&news).addr(),
            head,
            origin,
            body: Mutex::new(body),
            answer: Mutex::new(State::Waiting(answer)),
            place: place.clone(),
            news: news.into(),
        };
        inbox.put(Event::Request(Box::new(exchange)));
        answered
    }

    /// Return the next part of the body, empty behind the last one; None if it has not come, or will not.
    pub fn receive(&self) -> Option<Bytes> {
        let (mut body, mut context) = (self.body.lock(), Context::from_waker(&self.news));
        loop {
            match Pin::new(&mut *body).poll_frame(&mut context) {
                // Trailers are left out.
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => return Some(data),
                    _ => {}
                },
                Poll::Ready(None) => return Some(Bytes::new()),
                Poll::Ready(Some(Err(_))) | Poll::Pending => return None,
            }
        }
    }

    /// Return whether nobody waits for more of the answer: the client has left, or it is complete.
    pub fn is_over(&self) -> bool {
        let mut context = Context::from_waker(&self.news);
        match &mut *self.answer.lock() {
            State::Waiting(sender) => sender.poll_closed(&mut context).is_ready(),
            State::Begun(sender) => sender.is_closed(),
            State::Over => true,
        }
    }

    /// Return whether the client has read enough of the answer for the next piece.
    pub fn has_room(&self) -> bool {
        match &*self.answer.lock() {
            State::Begun(sender) => sender.capacity() > 1 || sender.is_closed(),
            State::Waiting(_) | State::Over => true,
        }
    }

    /// Begin the answer, with its first piece; unless `more` follow, that is all of it.
    ///
    /// # Errors
    /// HTTP does not allow it, or it has begun.
    pub fn respond(
        &self,
        status: u16,
        headers: impl Iterator<Item = (Vec<u8>, Vec<u8>)>,
        piece: Bytes,
        more: bool,
    ) -> Result<(), String> {
        let mut head = Response::builder().status(status);
        for (name, value) in headers {
            head = head.header(name, value);
        }
        let response = head.body(()).map_err(|error| error.to_string())?;
        if response.status().is_informational() {
            return Err(format!("the status {status} is not that of an answer"));
        }
        let mut state = self.answer.lock();
        let State::Waiting(answer) = replace(&mut *state, State::Over) else {
            return Err("the answer has begun before".to_owned());
        };
        let content = if more {
            let (sender, pieces) = mpsc::channel(ROOM + 1);
            let _ = sender.try_send(Some(piece));
            *state = State::Begun(sender);
            Content::Right(Pieces {
                waiting: pieces,
                is_flushed: false,
                place: self.place.clone(),
                news: self.news.clone(),
            })
        } else {
            Content::Left(Full::new(piece))
        };
        drop(state);
        // If the client has left, nothing happens.
        drop(answer.send(response.map(|()| content)));
        Ok(())
    }

    /// Continue the answer, when there is room. What comes after its end is ignored.
    pub fn send(&self, piece: Bytes, more: bool) {
        let mut state = self.answer.lock();
        if let State::Begun(sender) = &*state {
            // The client may have left.
            let _ = sender.try_send(Some(piece));
            if !more {
                let _ = sender.try_send(None);
                *state = State::Over;
            }
        }
    }

    /// End the answer; before its end, or its begin, that is a failure.
    pub fn cut(&self) {
        *self.answer.lock() = State::Over;
    }
}

/// The body of an answer whose pieces come from Python.
pub(super) struct Pieces {
    waiting: mpsc::Receiver<Option<Bytes>>,
    is_flushed: bool,
    place: Arc<Place>,
    news: Waker,
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let piece = ready!(self.waiting.poll_recv(context));
        if self.waiting.len() + 1 == ROOM {
            self.news.wake_by_ref();
        }
        if piece.is_none() && !replace(&mut self.is_flushed, true) {
            // Hyper sends what it has before it waits, and would drop that at an error.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let cut = || io::ErrorKind::ConnectionAborted.into();
        let piece = piece.ok_or_else(cut).transpose();
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        self.place.answered();
        self.news.wake_by_ref();
    }
}
