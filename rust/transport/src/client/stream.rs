//! The body of a response while it arrives.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use ctrlhost_core::informer::{Received, Source};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep, sleep_until};

use super::exchange::{LARGEST_ERROR, Opened, finish, open};
use super::intake::{Feeder, Intake, OnNews, Room, room_in};
use super::line::{Line, PIECE};
use super::progress::Progress;
use super::reply::Reply;
use super::request::Prepared;
use super::runtime::Home;
use super::{Failure, Head, Inner, Stage};

/// What `Stream::next` found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// These bytes, never none.
    Data(Bytes),
    /// The regular end, or the stream was closed.
    End,
    /// Nothing arrived in time.
    Nothing,
}

/// The head of a response, and the stream of its body if the status is 200.
pub type Begun = (Head, Option<Stream>);

/// See the module. One thread reads; dropping the stream closes it.
pub struct Stream {
    home: Home,
    intake: Arc<Intake>,
}

impl Stream {
    /// Return the next bytes, None at the regular end and after `close`.
    ///
    /// # Errors
    /// The body is cut or invalid, or nothing arrived for `idle`.
    pub fn read(&self, idle: Duration) -> Result<Option<Bytes>, Failure> {
        match self.next(idle)? {
            Next::Data(bytes) => Ok(Some(bytes)),
            Next::End => Ok(None),
            Next::Nothing => {
                self.close();
                Err(silence(idle))
            }
        }
    }

    /// Return what has arrived, after waiting for at most `wait`. The stream goes on if that is nothing.
    ///
    /// # Errors
    /// The body is cut or invalid.
    pub fn next(&self, wait: Duration) -> Result<Next, Failure> {
        self.home.check()?;
        Ok(match self.intake.take(wait)? {
            Some(bytes) if bytes.is_empty() => Next::End,
            Some(bytes) => Next::Data(bytes.into()),
            None => Next::Nothing,
        })
    }

    /// Call `on_news` whenever there is something to receive: on the I/O thread, so it must be quick.
    pub fn set_on_news(&self, on_news: OnNews) {
        if self.home.is_here() {
            self.intake.set_on_news(on_news);
        }
    }

    /// Cut the stream once nothing has arrived for `idle`, from now on.
    pub fn set_idle(&self, idle: Duration) {
        if self.home.is_here() {
            self.intake.set_idle(idle);
        }
    }

    /// Drop the connection. A waiting `read` returns at once. May be called from any thread, and repeated.
    pub fn close(&self) {
        if self.home.is_here() {
            self.intake.close();
        }
    }

    /// Return how many bytes wait for the reader.
    pub fn waiting(&self) -> usize {
        self.intake.waiting()
    }

    /// Return how long the connection was not read because the reader was behind.
    pub fn held_back(&self) -> Duration {
        self.intake.held()
    }
}

impl Source for Stream {
    type Piece = Bytes;
    type Error = Failure;

    fn receive(&self) -> Result<Received<Bytes>, Failure> {
        Ok(match self.next(Duration::ZERO)? {
            Next::Data(piece) => Received::Piece(piece),
            Next::End => Received::End,
            Next::Nothing => Received::Nothing,
        })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.close();
    }
}

/// Carry out a stream: the head goes to `reply`, then the body to the stream in it.
pub(super) async fn stream(
    inner: &Inner,
    request: &Prepared,
    progress: &Arc<Progress>,
    deadline: tokio::time::Instant,
    intake_bytes: usize,
    reply: Reply<Begun>,
) {
    let head = async {
        let opened = open(inner, request, progress, &inner.streams).await?;
        if opened.response.status == 200 {
            return Ok(Ok(opened));
        }
        let response = finish(inner, opened, progress, LARGEST_ERROR).await?;
        Ok(Err(response))
    };
    let head = tokio::time::timeout_at(deadline, head).await;
    let Opened {
        line,
        response,
        body,
        gauge: _gauge,
        ..
    } = match head.unwrap_or_else(|_| Err(progress.out_of_time())) {
        Err(failure) => return reply.send(Err(failure)),
        Ok(Err(response)) => return reply.send(Ok((response, None))),
        Ok(Ok(opened)) => opened,
    };
    let intake = Intake::new(intake_bytes);
    let feeder = Feeder(intake.clone());
    reply.send(Ok((
        response,
        Some(Stream {
            home: inner.home,
            intake,
        }),
    )));
    pump(inner, line, body, feeder).await;
}

/// Return the failure of a stream that was silent for so long.
fn silence(idle: Duration) -> Failure {
    Failure {
        sent: true,
        timed_out: true,
        ..Failure::new(Stage::Body, format!("no data for {} s", idle.as_secs_f64()))
    }
}

/// How long nothing has arrived.
struct Silence {
    since: Instant,
    /// Nothing could arrive since then, for want of room.
    held: bool,
    /// Made for the first stream with a bound. It may fire before the bound, never after it.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Silence {
    fn new() -> Self {
        Self {
            since: Instant::now(),
            held: false,
            timer: None,
        }
    }

    fn break_off(&mut self) {
        self.since = Instant::now();
    }

    /// Wait until nothing has arrived for `idle`.
    fn poll(&mut self, idle: Duration, context: &mut Context<'_>) -> Poll<()> {
        let Some(end) = self.since.checked_add(idle) else {
            return Poll::Pending;
        };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(end)));
        if timer.deadline() > end {
            timer.as_mut().reset(end);
        }
        while timer.as_mut().poll(context).is_ready() {
            if Instant::now() >= end {
                return Poll::Ready(());
            }
            timer.as_mut().reset(end);
        }
        Poll::Pending
    }
}

/// Pass on a body until its end, or until the stream is closed.
async fn pump(inner: &Inner, mut line: Line, mut body: Incoming, feeder: Feeder) {
    let mut silence = Silence::new();
    let end = poll_fn(|context| turn(&mut line, &mut body, &feeder.0, &mut silence, context)).await;
    drop(body);
    match end {
        // Closed.
        None => feeder.end(Ok(())),
        Some(Ok(())) => {
            feeder.end(Ok(()));
            inner.pool.put(line).await;
        }
        Some(Err(failure)) => {
            drop(line);
            feeder.end(Err(failure));
        }
    }
}

/// Pass on about one piece, so that other connections have their turn; return how the body ended.
fn turn(
    line: &mut Line,
    body: &mut Incoming,
    intake: &Intake,
    silent: &mut Silence,
    context: &mut Context<'_>,
) -> Poll<Option<Result<(), Failure>>> {
    let Poll::Ready(room) = intake.poll_room(context) else {
        // The reader is behind, so the server may be silent, until there is room again.
        silent.held = true;
        return Poll::Pending;
    };
    if std::mem::take(&mut silent.held) {
        silent.break_off();
    }
    let Some(Room { bytes: room, idle }) = room else {
        return Poll::Ready(None);
    };
    let most = room.min(PIECE);
    let (mut pieces, mut read) = (VecDeque::<Vec<u8>>::new(), 0);
    let end = loop {
        match line.poll_body(body, context) {
            Poll::Ready(Some(Ok(data))) => {
                read += data.len();
                match room_in(&mut pieces, data.len()) {
                    Some(last) => last.extend_from_slice(&data),
                    // A small one would keep a large buffer.
                    None if data.len() < most => pieces.push_back(data.to_vec()),
                    None => pieces.push_back(data.into()),
                }
                if read >= most {
                    context.waker().wake_by_ref();
                    break Poll::Pending;
                }
            }
            Poll::Ready(Some(Err(failure))) => break Poll::Ready(Some(Err(failure))),
            Poll::Ready(None) => break Poll::Ready(Some(Ok(()))),
            Poll::Pending => break Poll::Pending,
        }
    };
    if read > 0 {
        silent.break_off();
        intake.push(pieces);
    }
    if end.is_pending()
        && let Some(idle) = idle
        && silent.poll(idle, context).is_ready()
    {
        return Poll::Ready(Some(Err(silence(idle))));
    }
    end
}
