//! Following a watch from the bytes of its body to the handlers in one call.
//!
//! After each return the caller may have to wait for the interpreter while another thread computes. So a call returns
//! only what the caller needs at once, after everything received is in the store and in the queues.

use std::time::{Duration, Instant};

use super::{SharedInformer, WatchProgress};
use crate::decode::DecodeError;

/// A stream that paused for so long has no more for now.
const PAUSE: Duration = Duration::from_millis(5);

/// The result of a wait for bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received<P> {
    /// Bytes that arrived.
    Piece(P),
    /// The body is complete, or the stream was closed here.
    End,
    /// Nothing arrived in time; more may come.
    Nothing,
}

/// The body of a response as it arrives.
pub trait Source {
    /// Bytes of the body, cut anywhere.
    type Piece: AsRef<[u8]>;
    /// Why the body is not complete.
    type Error;

    /// Return what has arrived; if nothing has, wait for it, at most `limit`.
    ///
    /// # Errors
    /// The body was cut.
    fn receive(&self, limit: Duration) -> Result<Received<Self::Piece>, Self::Error>;
}

/// Why following cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum FollowError<E> {
    /// A frame is malformed.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The body was cut.
    #[error("the body was cut")]
    Source(E),
    /// Nothing arrived for as long as a stream may be idle.
    #[error("nothing arrived in time")]
    Idle,
}

/// What was followed in one call.
#[derive(Debug)]
pub struct Followed<E> {
    /// What came.
    pub progress: WatchProgress,
    /// The error that ended it, after that.
    pub error: Option<FollowError<E>>,
    /// Whether the stream has ended.
    pub ended: bool,
}

impl<E> Followed<E> {
    fn add(&mut self, more: WatchProgress) {
        let all = &mut self.progress;
        all.events += more.events;
        all.bookmarks += more.bookmarks;
        all.plain_bookmarks += more.plain_bookmarks;
        all.skipped += more.skipped;
        all.unknown_fields += more.unknown_fields;
        all.resource_version = more.resource_version;
        all.initial_events_end |= more.initial_events_end;
        all.error = more.error;
    }

    /// Return whether something came that the caller needs at once.
    fn is_notable(&self) -> bool {
        let progress = &self.progress;
        self.error.is_some()
            || progress.error.is_some()
            || progress.bookmarks > 0
            || progress.skipped > 0
            || progress.unknown_fields > 0
    }
}

impl SharedInformer {
    /// Follow a watch up to something notable: a bookmark, a skipped frame, an end. Before that, events alone are
    /// passed on to handlers for at most `linger`; silence of `idle` is an error.
    pub fn follow<S: Source>(
        &self,
        source: &S,
        idle: Duration,
        linger: Duration,
    ) -> Followed<S::Error> {
        let mut followed = Followed {
            progress: WatchProgress {
                resource_version: self.input.lock().resource_version.clone(),
                ..WatchProgress::default()
            },
            error: None,
            ended: false,
        };
        let mut started: Option<Instant> = None;
        while !followed.is_notable() {
            let left = started.map(|started| linger.saturating_sub(started.elapsed()).min(PAUSE));
            if left == Some(Duration::ZERO) {
                break;
            }
            match source.receive(left.unwrap_or(idle)) {
                Ok(Received::Piece(piece)) => {
                    match self.feed_watch(piece.as_ref()) {
                        Ok(progress) => followed.add(progress),
                        Err(error) => followed.error = Some(error.into()),
                    }
                    self.process();
                    started.get_or_insert_with(Instant::now);
                }
                Ok(Received::End) => {
                    followed.ended = true;
                    break;
                }
                Ok(Received::Nothing) => {
                    followed.error = left.is_none().then_some(FollowError::Idle);
                    break;
                }
                Err(error) => followed.error = Some(FollowError::Source(error)),
            }
        }
        followed
    }

    /// Take more of a list page, for at most `linger` once something came; return false at the end of its body.
    ///
    /// # Errors
    /// The body was idle for `idle` or cut, or the page is malformed.
    pub fn list<S: Source>(
        &self,
        source: &S,
        idle: Duration,
        linger: Duration,
    ) -> Result<bool, FollowError<S::Error>> {
        let started = Instant::now();
        loop {
            match source.receive(idle).map_err(FollowError::Source)? {
                Received::Piece(piece) => self.feed_list(piece.as_ref())?,
                Received::End => return Ok(false),
                Received::Nothing => return Err(FollowError::Idle),
            }
            if started.elapsed() >= linger {
                return Ok(true);
            }
        }
    }
}
