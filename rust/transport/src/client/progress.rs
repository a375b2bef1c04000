//! How far one request is, shared by the task that carries it out and the guard of its connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

use super::{Failure, Gate, Stage};

/// The server may send so many interim responses.
const MOST_INTERIM: u32 = 16;

const STAGES: [Stage; 7] = [
    Stage::Resolve,
    Stage::Connect,
    Stage::Proxy,
    Stage::Tls,
    Stage::Write,
    Stage::Head,
    Stage::Body,
];

/// See the module.
pub(super) struct Progress {
    /// What is cut if the connection is: a response or a stream.
    pub(super) what: &'static str,
    pub(super) gate: Option<Arc<dyn Gate>>,
    stage: AtomicU8,
    sent: AtomicBool,
    received: AtomicBool,
    interim: AtomicU32,
}

impl Progress {
    pub(super) fn new(what: &'static str, gate: Option<Arc<dyn Gate>>) -> Arc<Self> {
        Arc::new(Self {
            what,
            gate,
            stage: AtomicU8::new(0),
            sent: AtomicBool::new(false),
            received: AtomicBool::new(false),
            interim: AtomicU32::new(0),
        })
    }

    pub(super) fn enter(&self, stage: Stage) {
        let index = STAGES.iter().position(|known| *known == stage);
        let index = index.and_then(|index| u8::try_from(index).ok());
        self.stage
            .store(index.unwrap_or_default(), Ordering::Relaxed);
    }

    /// Forget what an earlier connection carried, except that bytes were sent.
    pub(super) fn begin(&self) {
        self.received.store(false, Ordering::Relaxed);
        self.interim.store(0, Ordering::Relaxed);
        self.enter(Stage::Write);
    }

    pub(super) fn note_sent(&self) {
        self.sent.store(true, Ordering::Relaxed);
    }

    pub(super) fn sent(&self) -> bool {
        self.sent.load(Ordering::Relaxed)
    }

    pub(super) fn note_received(&self) {
        self.received.store(true, Ordering::Relaxed);
    }

    pub(super) fn received(&self) -> bool {
        self.received.load(Ordering::Relaxed)
    }

    pub(super) fn note_interim(&self) {
        self.interim.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn is_flooded(&self) -> bool {
        self.interim.load(Ordering::Relaxed) > MOST_INTERIM
    }

    /// Return the failure of a request whose time is over now.
    pub(super) fn out_of_time(&self) -> Failure {
        let stage = STAGES[usize::from(self.stage.load(Ordering::Relaxed)) % STAGES.len()];
        let text = match stage {
            Stage::Resolve => "no connection in time: the name was not resolved",
            Stage::Proxy => "the proxy failed: no answer in time",
            Stage::Tls => "no connection in time: the TLS handshake was not complete",
            Stage::Write => "no time was left to send it",
            Stage::Head if self.received() => "the response was not complete in time",
            Stage::Head => "no response in time",
            Stage::Body => "the response was not complete in time",
            _ => "no connection in time",
        };
        Failure {
            sent: self.sent(),
            timed_out: true,
            ..Failure::new(stage, text)
        }
    }
}
