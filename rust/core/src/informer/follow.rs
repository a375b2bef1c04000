//! Following the body of a response on the decode threads: from its bytes to the handlers.
//!
//! Nothing here waits for whoever asked for it. Events alone are only counted; what a reflector needs to know is noted
//! in its order, and told to it when it asks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{FeedError, SharedInformer, WatchProgress, decoders};
use crate::budget::OverBudget;
use crate::decode::{DecodeError, ListMeta};
use crate::sync::{Mutex, Rank};

/// What a source has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received<P> {
    /// Bytes that arrived.
    Piece(P),
    /// The body is complete, or the stream was closed here.
    End,
    /// Nothing for now.
    Nothing,
}

/// The body of a response as it arrives.
pub trait Source: Send + Sync {
    /// Bytes of the body, cut anywhere.
    type Piece: AsRef<[u8]>;
    /// Why the body is not complete.
    type Error: Send;

    /// Return what has arrived, without waiting. Whoever has more wakes the task.
    ///
    /// # Errors
    /// The body was cut.
    fn receive(&self) -> Result<Received<Self::Piece>, Self::Error>;
}

impl<S: Source> Source for Arc<S> {
    type Piece = S::Piece;
    type Error = S::Error;

    fn receive(&self) -> Result<Received<Self::Piece>, Self::Error> {
        (**self).receive()
    }
}

/// What a body contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// A page of a list. The last one becomes the content.
    Page,
    /// The initial events of a streaming list, which become the content, and then a watch.
    Initial,
    /// A watch.
    Watch,
}

/// Why following cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum FollowError<E> {
    /// The page or a frame is malformed.
    #[error(transparent)]
    Decode(DecodeError),
    /// The memory budget has no room for an object.
    #[error(transparent)]
    OverBudget(OverBudget),
    /// The body was cut, or nothing arrived in time.
    #[error("the body was cut")]
    Source(E),
    /// A step panicked; its events may be lost.
    #[error("internal error: a decode thread panicked")]
    Panicked,
}

impl<E> From<FeedError> for FollowError<E> {
    fn from(error: FeedError) -> Self {
        match error {
            FeedError::Decode(error) => Self::Decode(error),
            FeedError::OverBudget(over) => Self::OverBudget(over),
        }
    }
}

/// What a reflector is told.
#[derive(Debug)]
pub enum Told<E> {
    /// What came since it was last told.
    Progress(WatchProgress),
    /// The page is complete.
    Page(ListMeta),
    /// The stream has ended, or nothing after the last progress can be read.
    End,
    /// The stream has failed.
    Failed(FollowError<E>),
}

type Ask<E> = Box<dyn FnOnce(Told<E>) + Send>;

struct Notes<E> {
    /// What came and was not told yet.
    progress: WatchProgress,
    end: Option<Told<E>>,
    ask: Option<Ask<E>>,
}

impl<E> Notes<E> {
    fn add(&mut self, more: WatchProgress) {
        let all = &mut self.progress;
        all.events += more.events;
        all.bookmarks += more.bookmarks;
        all.plain_bookmarks += more.plain_bookmarks;
        all.skipped += more.skipped;
        all.unknown_fields += more.unknown_fields;
        all.damaged += more.damaged;
        all.resource_version = more.resource_version;
        all.initial_events_end |= more.initial_events_end;
        all.error = more.error;
    }

    /// Return whether something came that the reflector needs at once.
    fn is_notable(&self) -> bool {
        let progress = &self.progress;
        self.end.is_some()
            || progress.bookmarks > 0
            || progress.skipped > 0
            || progress.unknown_fields > 0
            || progress.damaged > 0
    }

    fn take_progress(&mut self) -> WatchProgress {
        let resource_version = self.progress.resource_version.clone();
        let rest = WatchProgress {
            resource_version,
            ..WatchProgress::default()
        };
        std::mem::replace(&mut self.progress, rest)
    }

    /// Return what to tell; at the end, what came before it comes first.
    fn take(&mut self) -> Told<E> {
        if self.progress.is_empty()
            && let Some(end) = self.end.replace(Told::End)
        {
            return end;
        }
        Told::Progress(self.take_progress())
    }
}

/// The body of one response on its way to an informer. A task of the decode threads.
pub struct Follower<S: Source> {
    informer: Arc<SharedInformer>,
    source: S,
    body: Body,
    /// The initial events are not complete.
    initial: AtomicBool,
    ended: AtomicBool,
    notes: Mutex<Notes<S::Error>>,
}

impl<S: Source> Follower<S> {
    /// Follow a source once its task is woken. The page or the watch has begun.
    pub fn new(informer: Arc<SharedInformer>, source: S, body: Body) -> Self {
        let resource_version = informer.input.lock().resource_version.clone();
        let notes = Notes {
            progress: WatchProgress {
                resource_version,
                ..WatchProgress::default()
            },
            end: None,
            ask: None,
        };
        Self {
            informer,
            source,
            body,
            initial: AtomicBool::new(body == Body::Initial),
            ended: AtomicBool::new(false),
            notes: Mutex::new(Rank::Notes, notes),
        }
    }

    /// Return the source.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// Return the informer.
    pub fn informer(&self) -> &Arc<SharedInformer> {
        &self.informer
    }

    /// Call `ask` once there is something to tell: now, or on a decode thread. It must be quick. The one before it,
    /// if it was not called, is dropped.
    pub fn ask(&self, ask: impl FnOnce(Told<S::Error>) + Send + 'static) {
        let mut notes = self.notes.lock();
        if !notes.is_notable() {
            notes.ask = Some(Box::new(ask));
            return;
        }
        let told = notes.take();
        drop(notes);
        ask(told);
    }

    /// Return what came and was not told yet, notable or not.
    pub fn so_far(&self) -> WatchProgress {
        let mut notes = self.notes.lock();
        if notes.ask.is_none() || notes.is_notable() {
            // The answer is on its way, and comes first.
            return WatchProgress {
                resource_version: notes.progress.resource_version.clone(),
                ..WatchProgress::default()
            };
        }
        notes.take_progress()
    }

    /// Change the notes, and tell the reflector what is notable.
    fn note(&self, change: impl FnOnce(&mut Notes<S::Error>)) {
        let mut notes = self.notes.lock();
        change(&mut notes);
        if !notes.is_notable() {
            return;
        }
        let Some(ask) = notes.ask.take() else {
            return;
        };
        let told = notes.take();
        drop(notes);
        ask(told);
    }

    fn end(&self, end: Told<S::Error>) {
        self.ended.store(true, Ordering::Release);
        self.note(|notes| {
            notes.end.get_or_insert(end);
        });
    }

    /// Take a piece; return how it ended the stream.
    fn take(&self, piece: &[u8]) -> Result<Option<Told<S::Error>>, FeedError> {
        if self.body == Body::Page {
            self.informer.feed_list(piece)?;
            return Ok(None);
        }
        let initial = self.initial.load(Ordering::Relaxed);
        let fed = self.informer.feed_watch(piece);
        if let Ok(progress) = &fed
            && initial
            && progress.initial_events_end
        {
            let replaced = self.informer.replace(&progress.resource_version);
            if replaced.is_err() {
                // What is gone was dropped to make room.
                self.informer.process();
            }
            replaced?;
            self.initial.store(false, Ordering::Relaxed);
        }
        // The frames before a malformed one count.
        self.informer.process();
        let progress = fed?;
        let over = progress.error.is_some();
        if over {
            self.ended.store(true, Ordering::Release);
        }
        self.note(|notes| {
            notes.add(progress);
            notes.end = over.then_some(Told::End);
        });
        Ok(None)
    }

    /// Complete a page, and the list with the last one.
    fn finish(&self) -> Result<Told<S::Error>, FeedError> {
        if self.body != Body::Page {
            return Ok(Told::End);
        }
        let meta = self.informer.end_page()?;
        if meta.continue_token.is_empty() {
            let replaced = self.informer.replace(&meta.resource_version);
            self.informer.process();
            replaced?;
        }
        Ok(Told::Page(meta))
    }
}

impl<S: Source> decoders::Job for Follower<S> {
    fn step(&self) -> bool {
        if self.ended.load(Ordering::Acquire) {
            return false;
        }
        decoders::call_hook(&self.informer.config.resource);
        let end = match self.source.receive() {
            Ok(Received::Nothing) => return false,
            Ok(Received::Piece(piece)) => self.take(piece.as_ref()),
            Ok(Received::End) => self.finish().map(Some),
            Err(error) => Ok(Some(Told::Failed(FollowError::Source(error)))),
        };
        match end {
            Ok(None) => return true,
            Ok(Some(end)) => self.end(end),
            Err(error) => self.end(Told::Failed(error.into())),
        }
        false
    }

    fn panicked(&self) {
        self.end(Told::Failed(FollowError::Panicked));
    }
}
