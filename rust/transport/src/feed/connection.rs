//! One connection: its requests, and its end when the client does not read.

use std::convert::Infallible;
use std::future::{Future, poll_fn, ready};
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::{Duration, Instant};

use ctrlhost_core::event_log::{EventLog, EventReader, Lag};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::net::UnixStream;

use super::{Limits, Reader};

/// A client has so long to send the head of a request.
const HEAD: Duration = Duration::from_secs(30);

/// Hyper takes no further piece of a body while it holds so much.
const BUFFER: usize = 64 << 10;

/// The watch that runs on a connection.
#[derive(Default)]
pub(super) struct Slot(Mutex<Option<(Weak<EventLog>, u64)>>);

impl Slot {
    pub(super) fn watch(&self, reader: &EventReader) {
        *self.0.lock() = Some((Arc::downgrade(reader.log()), reader.id()));
    }

    /// Return how far the client is behind; None if there is no watch.
    fn lag(&self) -> Option<Lag> {
        let (log, id) = self.0.lock().clone()?;
        log.upgrade()?.lag(id)
    }
}

/// Since when a client has not read, and where it was then.
struct Stuck {
    at: u64,
    since: Instant,
}

/// Return whether a client is too far behind, and has not read for too long.
fn is_stuck(lag: Option<Lag>, stuck: &mut Option<Stuck>, limits: &Limits) -> bool {
    let behind = |lag: &Lag| {
        lag.lost || lag.events >= limits.waiting_events || lag.bytes >= limits.waiting_bytes
    };
    let Some(lag) = lag.filter(behind) else {
        *stuck = None;
        return false;
    };
    match stuck {
        Some(known) if known.at == lag.at => lag.lost || known.since.elapsed() >= limits.patience,
        _ => {
            *stuck = Some(Stuck {
                at: lag.at,
                since: Instant::now(),
            });
            false
        }
    }
}

/// Serve a connection until its client or the reader ends it.
pub(super) async fn serve(stream: UnixStream, reader: Arc<Reader>) {
    let slot = Slot::default();
    let service = service_fn(|request| ready(Ok::<_, Infallible>(reader.answer(&request, &slot))));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let mut stuck = None;
    poll_fn(|context| {
        if connection.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        // The connection has sent what the socket takes. What still waits is what the client does not read.
        if is_stuck(slot.lag(), &mut stuck, &reader.limits) {
            reader.count_slow();
            return Poll::Ready(());
        }
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lag(at: u64, events: u64) -> Lag {
        Lag {
            at,
            events,
            bytes: 0,
            lost: false,
        }
    }

    // behaviour: supervision/FD13
    #[test]
    fn a_client_is_stuck_when_it_is_too_far_behind_and_does_not_read() {
        let hurried = Limits {
            waiting_events: 10,
            waiting_bytes: 100,
            patience: Duration::ZERO,
            ..Limits::default()
        };
        let patient = Limits {
            patience: Duration::from_secs(3600),
            ..hurried
        };
        let mut stuck = None;
        assert!(!is_stuck(None, &mut stuck, &hurried));
        assert!(!is_stuck(Some(lag(1, 9)), &mut stuck, &hurried));
        assert!(!is_stuck(Some(lag(1, 9)), &mut stuck, &hurried));
        // The first look only notes where it is, and each step forward starts again.
        assert!(!is_stuck(Some(lag(1, 10)), &mut stuck, &hurried));
        assert!(!is_stuck(Some(lag(2, 10)), &mut stuck, &hurried));
        assert!(!is_stuck(Some(lag(2, 50)), &mut stuck, &patient));
        assert!(is_stuck(Some(lag(2, 50)), &mut stuck, &hurried));
        let large = Some(Lag {
            bytes: 100,
            ..lag(3, 1)
        });
        assert!(!is_stuck(large, &mut stuck, &hurried));
        assert!(is_stuck(large, &mut stuck, &hurried));
        // What is lost will never be read, so nobody waits for that.
        let lost = Some(Lag {
            lost: true,
            ..lag(3, 0)
        });
        assert!(is_stuck(lost, &mut stuck, &patient));
        assert!(!is_stuck(Some(lag(4, 0)), &mut stuck, &hurried));
        assert!(stuck.is_none());
    }
}
