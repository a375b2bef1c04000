//! The body of a response while it arrives.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming;

use super::exchange::{Gauge, LARGEST_ERROR, Opened, finish, open};
use super::intake::{Feeder, Intake};
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
                let text = format!("no data for {} s", idle.as_secs_f64());
                Err(Failure {
                    sent: true,
                    timed_out: true,
                    ..Failure::new(Stage::Body, text)
                })
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

    /// Drop the connection. A waiting `read` returns at once. May be called from any thread, and repeated.
    pub fn close(&self) {
        if self.home.is_here() {
            self.intake.close();
        }
    }

    /// Return how long the connection was not read because the reader was behind.
    pub fn held_back(&self) -> Duration {
        self.intake.held()
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
    reply: Reply<(Head, Option<Stream>)>,
) {
    let head = async {
        let opened = open(inner, request, progress).await?;
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
    } = match head.unwrap_or_else(|_| Err(progress.out_of_time())) {
        Err(failure) => return reply.send(Err(failure)),
        Ok(Err(response)) => return reply.send(Ok((response, None))),
        Ok(Ok(opened)) => opened,
    };
    let _stream = Gauge::up(&inner.streams);
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

/// Pass on a body until its end, or until the stream is closed.
async fn pump(inner: &Inner, mut line: Line, mut body: Incoming, feeder: Feeder) {
    let end = poll_fn(|context| turn(&mut line, &mut body, &feeder.0, context)).await;
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

/// Pass on at most one piece, so that other connections have their turn; return how the body ended.
fn turn(
    line: &mut Line,
    body: &mut Incoming,
    intake: &Intake,
    context: &mut Context<'_>,
) -> Poll<Option<Result<(), Failure>>> {
    let Poll::Ready(room) = intake.poll_room(context) else {
        return Poll::Pending;
    };
    let Some(room) = room else {
        return Poll::Ready(None);
    };
    let most = room.min(PIECE);
    let mut bytes: Vec<u8> = Vec::new();
    let end = loop {
        match line.poll_body(body, context) {
            Poll::Ready(Some(Ok(data))) => {
                if bytes.is_empty() && data.len() >= most {
                    bytes = data.into();
                } else {
                    bytes.extend_from_slice(&data);
                }
                if bytes.len() >= most {
                    context.waker().wake_by_ref();
                    break Poll::Pending;
                }
            }
            Poll::Ready(Some(Err(failure))) => break Poll::Ready(Some(Err(failure))),
            Poll::Ready(None) => break Poll::Ready(Some(Ok(()))),
            Poll::Pending => break Poll::Pending,
        }
    };
    if !bytes.is_empty() {
        intake.push(bytes);
    }
    end
}
