//! Following a watch from the bytes of its body to the handlers, in one go.
//!
//! Each return to the caller may cost it a wait for the interpreter, as long as another thread computes. So nothing
//! goes back that it need not hear of at once, and what came is in the store and in the queues before it does.

use super::{SharedInformer, WatchProgress};
use crate::decode::DecodeError;
use crate::stream::{Body, BodyError};

/// Why following can not go on.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// A frame is malformed.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The body is cut, or its framing broken.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The connection broke.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// Nothing arrived for as long as a stream may be silent.
    #[error("nothing arrived in time")]
    Idle,
}

/// What was followed until something is to be said.
#[derive(Debug)]
pub struct Followed {
    /// What came.
    pub progress: WatchProgress,
    /// What ended it, after that.
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

    fn goes_on(&self) -> bool {
        self.error.is_none() && self.progress.error.is_none()
    }
}

impl SharedInformer {
    fn nothing_yet(&self) -> Followed {
        let progress = WatchProgress {
            resource_version: self.intake.lock().resource_version().to_owned(),
            ..WatchProgress::default()
        };
        Followed {
            progress,
            error: None,
        }
    }

    /// Take a piece of the body of a watch, up to the handlers.
    pub fn follow(&self, body: &mut Body, piece: &[u8]) -> Followed {
        let mut followed = self.nothing_yet();
        self.take_piece(body, piece, &mut followed);
        followed
    }

    /// Take a piece of the body of a list page.
    ///
    /// # Errors
    /// The framing is broken, or the page malformed.
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

    fn take_piece(&self, body: &mut Body, piece: &[u8], followed: &mut Followed) {
        let framing = body.feed(piece, &mut |payload| {
            if followed.goes_on() {
                match self.feed_watch(payload) {
                    Ok(progress) => followed.add(progress),
                    Err(error) => followed.error = Some(error.into()),
                }
            }
        });
        self.process();
        if let (Err(error), true) = (framing, followed.goes_on()) {
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
        /// Follow a watch until something is to be said: a bookmark, a frame that was left out, news for listeners, an
        /// end. Events alone are passed on to queues for `linger` at most before that; silence ends as an error after
        /// `idle`.
        pub fn follow_socket(
            &self,
            body: &mut Body,
            socket: &mut Socket,
            idle: Duration,
            linger: Duration,
        ) -> Followed {
            let mut followed = self.nothing_yet();
            let mut begun: Option<Instant> = None;
            while followed.goes_on() && !body.is_done() {
                let left = begun.map(|begun| linger.saturating_sub(begun.elapsed()).min(PAUSE));
                if left == Some(Duration::ZERO) || followed.is_notable() {
                    break;
                }
                match socket.receive(left.unwrap_or(idle)) {
                    Ok(Received::Bytes(piece)) => {
                        self.take_piece(body, piece, &mut followed);
                        begun.get_or_insert_with(Instant::now);
                        if self.has_listeners() {
                            break;
                        }
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

        /// Take what comes of a list page, for `linger` at most once something came.
        ///
        /// # Errors
        /// The connection broke or was silent for `idle`, the body is cut, or the page malformed.
        pub fn list_socket(
            &self,
            body: &mut Body,
            socket: &mut Socket,
            idle: Duration,
            linger: Duration,
        ) -> Result<(), FollowError> {
            let begun = Instant::now();
            while !body.is_done() {
                match socket.receive(idle)? {
                    Received::Bytes(piece) => self.list(body, piece)?,
                    Received::End => body.end()?,
                    Received::Nothing => return Err(FollowError::Idle),
                }
                if begun.elapsed() >= linger {
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
