//! Following a watch from the bytes of its body to the handlers in one call.
//!
//! After each return the caller may have to wait for the interpreter while another thread computes. So a call returns
//! only what the caller needs at once, after everything received is in the store and in the queues.

use super::{SharedInformer, WatchProgress};
use crate::decode::DecodeError;
use crate::stream::{Body, BodyError};

/// Why following cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// A frame is malformed.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The body is cut, or its framing is invalid.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The connection broke.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// Nothing arrived for as long as a stream may be idle.
    #[error("nothing arrived in time")]
    Idle,
}

/// What was followed in one call.
#[derive(Debug)]
pub struct Followed {
    /// What came.
    pub progress: WatchProgress,
    /// The error that ended it, after that.
    pub error: Option<FollowError>,
}

impl Followed {
    fn add(&mut self, more: WatchProgress) {
        let all = &mut self.progress;
        all.events += more.events;
        all.bookmarks += more.bookmarks;
        all.plain_bookmarks += more.plain_bookmarks;
        all.skipped += more.skipped;
        all.resource_version = more.resource_version;
        all.initial_events_end |= more.initial_events_end;
        all.error = more.error;
    }

    fn continues(&self) -> bool {
        self.error.is_none() && self.progress.error.is_none()
    }
}

impl SharedInformer {
    fn no_progress(&self) -> Followed {
        let progress = WatchProgress {
            resource_version: self.input.lock().resource_version.clone(),
            ..WatchProgress::default()
        };
        Followed {
            progress,
            error: None,
        }
    }

    /// Pass a piece of the body of a watch to the handlers.
    pub fn follow(&self, body: &mut Body, piece: &[u8]) -> Followed {
        let mut followed = self.no_progress();
        self.feed_piece(body, piece, &mut followed);
        followed
    }

    /// Take a piece of the body of a list page.
    ///
    /// # Errors
    /// The framing is invalid, or the page malformed.
    pub fn list(&self, body: &mut Body, piece: &[u8]) -> Result<(), FollowError> {
        let mut malformed = Ok(());
        let framing = body.feed(piece, &mut |payload| {
            if malformed.is_ok() {
                malformed = self.feed_list(payload);
            }
        });
        malformed?;
        Ok(framing?)
    }

    fn feed_piece(&self, body: &mut Body, piece: &[u8], followed: &mut Followed) {
        let framing = body.feed(piece, &mut |payload| {
            if followed.continues() {
                match self.feed_watch(payload) {
                    Ok(progress) => followed.add(progress),
                    Err(error) => followed.error = Some(error.into()),
                }
            }
        });
        self.process();
        if let (Err(error), true) = (framing, followed.continues()) {
            followed.error = Some(error.into());
        }
    }
}

#[cfg(unix)]
mod from_socket {
    use std::time::{Duration, Instant};

    use super::{FollowError, Followed};
    use crate::informer::SharedInformer;
    use crate::stream::{Body, Received, Socket};

    /// A stream that paused for so long has no more for now.
    const PAUSE: Duration = Duration::from_millis(5);

    impl SharedInformer {
        /// Follow a watch up to something notable: a bookmark, a skipped frame, an end. Before that, events alone are
        /// passed on to handlers for at most `linger`; silence of `idle` is an error.
        pub fn follow_socket(
            &self,
            body: &mut Body,
            socket: &mut Socket,
            idle: Duration,
            linger: Duration,
        ) -> Followed {
            let mut followed = self.no_progress();
            let mut started: Option<Instant> = None;
            while followed.continues() && !body.is_done() {
                let left =
                    started.map(|started| linger.saturating_sub(started.elapsed()).min(PAUSE));
                if left == Some(Duration::ZERO) || followed.is_notable() {
                    break;
                }
                match socket.receive(left.unwrap_or(idle)) {
                    Ok(Received::Bytes(piece)) => {
                        self.feed_piece(body, piece, &mut followed);
                        started.get_or_insert_with(Instant::now);
                    }
                    Ok(Received::End) => {
                        followed.error = body.end().err().map(Into::into);
                        break;
                    }
                    Ok(Received::Nothing) => {
                        followed.error = left.is_none().then_some(FollowError::Idle);
                        break;
                    }
                    Err(error) => followed.error = Some(error.into()),
                }
            }
            followed
        }

        /// Take more of a list page, for at most `linger` once something came.
        ///
        /// # Errors
        /// The connection broke or was idle for `idle`, the body is cut, or the page is malformed.
        pub fn list_socket(
            &self,
            body: &mut Body,
            socket: &mut Socket,
            idle: Duration,
            linger: Duration,
        ) -> Result<(), FollowError> {
            let started = Instant::now();
            while !body.is_done() {
                match socket.receive(idle)? {
                    Received::Bytes(piece) => self.list(body, piece)?,
                    Received::End => body.end()?,
                    Received::Nothing => return Err(FollowError::Idle),
                }
                if started.elapsed() >= linger {
                    break;
                }
            }
            Ok(())
        }
    }

    impl Followed {
        fn is_notable(&self) -> bool {
            self.progress.bookmarks > 0 || self.progress.skipped > 0
        }
    }
}
