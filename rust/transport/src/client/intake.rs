//! What a stream has received and its reader has not taken yet.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::line::PIECE;
use super::{Failure, Stage, reply};

/// Called when something has arrived, or the stream has ended.
pub type OnNews = Arc<dyn Fn() + Send + Sync>;

/// What the side of the connection may do.
#[derive(Clone, Copy)]
pub(super) struct Room {
    /// Read so many more bytes.
    pub(super) bytes: usize,
    /// End the stream after so much silence.
    pub(super) idle: Option<Duration>,
}

#[derive(Default)]
struct State {
    /// Each of at most 256 KiB.
    pieces: VecDeque<Vec<u8>>,
    /// The bytes in all of them.
    waiting: usize,
    end: Option<Result<(), Failure>>,
    closed: bool,
    /// Of the task that reads the connection.
    waker: Option<Waker>,
    /// Of a reader that does not wait.
    on_news: Option<OnNews>,
    idle: Option<Duration>,
    held_since: Option<Instant>,
    held: Duration,
}

impl State {
    /// Note that the connection is no longer held back; return whether it was.
    fn end_hold(&mut self) -> bool {
        let since = self.held_since.take();
        self.held += since.map(|since| since.elapsed()).unwrap_or_default();
        since.is_some()
    }

    fn wake_connection(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// Return the last piece if so many bytes fit into it.
pub(super) fn room_in(pieces: &mut VecDeque<Vec<u8>>, bytes: usize) -> Option<&mut Vec<u8>> {
    pieces.back_mut().filter(|last| last.len() + bytes <= PIECE)
}

/// See the module.
pub(super) struct Intake {
    state: Mutex<State>,
    news: Condvar,
    limit: usize,
}

impl Intake {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            news: Condvar::new(),
            limit,
        })
    }

    /// Return how many more bytes there is room for, once there is some; None if the stream was closed.
    pub(super) fn poll_room(&self, context: &Context<'_>) -> Poll<Option<Room>> {
        let mut state = self.state.lock();
        if state.closed {
            return Poll::Ready(None);
        }
        if !state
            .waker
            .as_ref()
            .is_some_and(|waker| waker.will_wake(context.waker()))
        {
            state.waker = Some(context.waker().clone());
        }
        if state.waiting < self.limit {
            return Poll::Ready(Some(Room {
                bytes: self.limit - state.waiting,
                idle: state.idle,
            }));
        }
        state.held_since.get_or_insert_with(Instant::now);
        Poll::Pending
    }

    /// Change what the reader waits for, and tell it.
    fn tell(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        change(&mut state);
        let on_news = state.on_news.clone();
        self.news.notify_all();
        drop(state);
        if let Some(on_news) = on_news {
            on_news();
        }
    }

    pub(super) fn push(&self, pieces: VecDeque<Vec<u8>>) {
        self.tell(|state| {
            for piece in pieces {
                state.waiting += piece.len();
                match room_in(&mut state.pieces, piece.len()) {
                    Some(last) => last.extend_from_slice(&piece),
                    None => state.pieces.push_back(piece),
                }
            }
        });
    }

    fn end(&self, end: Result<(), Failure>) {
        self.tell(|state| {
            state.end.get_or_insert(end);
            state.waker = None;
        });
    }

    /// Return a piece of what has arrived, in at most `wait`; None if there is nothing. An empty piece is the end.
    pub(super) fn take(&self, wait: Duration) -> Result<Option<Vec<u8>>, Failure> {
        let mut until = None;
        let mut state = self.state.lock();
        loop {
            if state.closed {
                return Ok(Some(Vec::new()));
            }
            if let Some(piece) = state.pieces.pop_front() {
                state.waiting -= piece.len();
                if state.pieces.is_empty() {
                    // The room of a burst.
                    state.pieces.shrink_to(1);
                }
                if state.waiting < self.limit && state.end_hold() {
                    state.wake_connection();
                }
                return Ok(Some(piece));
            }
            if let Some(end) = &state.end {
                return end.clone().map(|()| Some(Vec::new()));
            }
            if wait.is_zero() {
                return Ok(None);
            }
            let until = *until.get_or_insert_with(|| Instant::now() + wait);
            if self.news.wait_until(&mut state, until).timed_out()
                && state.pieces.is_empty()
                && state.end.is_none()
                && !state.closed
            {
                return Ok(None);
            }
        }
    }

    pub(super) fn close(&self) {
        self.tell(|state| {
            state.closed = true;
            state.end_hold();
            state.pieces = VecDeque::new();
            state.waiting = 0;
            state.wake_connection();
        });
    }

    /// Call `on_news` from now on, and for what there is already.
    pub(super) fn set_on_news(&self, on_news: OnNews) {
        self.tell(|state| state.on_news = Some(on_news));
    }

    /// End the stream after that silence.
    pub(super) fn set_idle(&self, idle: Duration) {
        let mut state = self.state.lock();
        state.idle = Some(idle);
        state.wake_connection();
    }

    pub(super) fn waiting(&self) -> usize {
        self.state.lock().waiting
    }

    pub(super) fn held(&self) -> Duration {
        let state = self.state.lock();
        let now = state.held_since.map(|since| since.elapsed());
        state.held + now.unwrap_or_default()
    }
}

/// The side of the connection; it ends the stream even if its task panics.
pub(super) struct Feeder(pub(super) Arc<Intake>);

impl Feeder {
    pub(super) fn end(self, end: Result<(), Failure>) {
        self.0.end(end);
    }
}

impl Drop for Feeder {
    fn drop(&mut self) {
        if self.0.state.lock().end.is_none() {
            self.0.end(Err(reply::abandoned(Stage::Body)));
        }
    }
}
