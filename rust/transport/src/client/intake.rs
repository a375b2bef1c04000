//! What a stream has received and its reader has not taken yet.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::{Failure, Stage, reply};

#[derive(Default)]
struct State {
    bytes: Vec<u8>,
    end: Option<Result<(), Failure>>,
    closed: bool,
    /// Of the task that reads the connection.
    waker: Option<Waker>,
    held_since: Option<Instant>,
    held: Duration,
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
    pub(super) fn poll_room(&self, context: &Context<'_>) -> Poll<Option<usize>> {
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
        if state.bytes.len() < self.limit {
            return Poll::Ready(Some(self.limit - state.bytes.len()));
        }
        state.held_since.get_or_insert_with(Instant::now);
        Poll::Pending
    }

    pub(super) fn push(&self, bytes: Vec<u8>) {
        let mut state = self.state.lock();
        if state.bytes.is_empty() {
            state.bytes = bytes;
        } else {
            state.bytes.extend_from_slice(&bytes);
        }
        self.news.notify_all();
    }

    fn end(&self, end: Result<(), Failure>) {
        let mut state = self.state.lock();
        state.end.get_or_insert(end);
        state.waker = None;
        self.news.notify_all();
    }

    /// Return what has arrived, in at most `wait`; None if there is nothing. An empty piece is the end.
    pub(super) fn take(&self, wait: Duration) -> Result<Option<Vec<u8>>, Failure> {
        let until = Instant::now() + wait;
        let mut state = self.state.lock();
        loop {
            if state.closed {
                return Ok(Some(Vec::new()));
            }
            if !state.bytes.is_empty() {
                let bytes = std::mem::take(&mut state.bytes);
                if let Some(since) = state.held_since.take() {
                    state.held += since.elapsed();
                    if let Some(waker) = state.waker.take() {
                        waker.wake();
                    }
                }
                return Ok(Some(bytes));
            }
            if let Some(end) = &state.end {
                return end.clone().map(|()| Some(Vec::new()));
            }
            if self.news.wait_until(&mut state, until).timed_out()
                && state.bytes.is_empty()
                && state.end.is_none()
                && !state.closed
            {
                return Ok(None);
            }
        }
    }

    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.bytes = Vec::new();
        self.news.notify_all();
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
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
