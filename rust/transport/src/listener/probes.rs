//! What a listener answers without Python: probes, and expositions while the interpreter is held or need no renewal.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ACCEPT, ACCEPT_ENCODING, AGE, CACHE_CONTROL, HeaderMap, HeaderValue};
use hyper::{Response, StatusCode, Uri};
use parking_lot::Mutex;

use tokio::sync::watch;
use tokio::time::timeout;

use super::answer::{Content, plain};

/// How long the interpreter may be held until the host is not ready, and answers nothing that needs Python.
pub(super) const READY_LIMIT: Duration = Duration::from_secs(5);
/// How long `/readyz` waits for what has just changed.
const PATIENCE: Duration = Duration::from_millis(50);
/// How long until expositions are shown again, and threads are watched.
const METRICS_LIMIT: Duration = Duration::from_secs(1);
/// What probes show with all lines: of a host that is alive, and of one that has published nothing yet.
const LIVE: &str = "[+]ping ok\nlivez check passed\n";
const STARTING: &str = "[-]startup failed\nreadyz check failed\n";
/// The expositions that are kept: clients choose the formats.
const KEPT: usize = 4;
/// The part of the time in which the thread that computes has done so at least, and how much less each other one.
const PART: u32 = 20;
const TIMES: u32 = 4;

/// What decides about the format of an exposition.
type Format = [Option<HeaderValue>; 2];

/// An exposition, and when it was made.
type Exposition = (Format, Response<Full<Bytes>>, Instant);

/// Return the format that a request asks for.
pub(super) fn format(headers: &HeaderMap) -> Format {
    [ACCEPT, ACCEPT_ENCODING].map(|name| headers.get(name).cloned())
}

/// Python's last turn; while there is no other one, something holds the interpreter.
#[derive(Debug)]
struct Turn {
    at: Instant,
    /// The threads of Python, by the numbers of the system.
    threads: Vec<(u64, String)>,
    /// Their processor time at some moment since.
    before: Option<(Instant, Vec<Duration>)>,
}

/// What Python publishes.
#[derive(Debug)]
pub struct Probes {
    live_limit: Duration,
    turn: Mutex<Option<Turn>>,
    /// Whether the host is, the text of the answer, and that with all lines.
    ready: Mutex<(bool, Bytes, Bytes)>,
    outdated: watch::Sender<bool>,
    /// The last one first.
    expositions: Mutex<Vec<Exposition>>,
}

impl Probes {
    /// The host is alive until the interpreter has been held for that time.
    pub fn new(live_limit: Duration) -> Self {
        let starting = Bytes::from(STARTING);
        Self {
            live_limit,
            turn: Mutex::default(),
            ready: Mutex::new((false, starting.clone(), starting)),
            outdated: watch::Sender::new(false),
            expositions: Mutex::default(),
        }
    }

    /// Note that Python runs, and with which threads.
    pub fn turn(&self, threads: Vec<(u64, String)>) {
        *self.turn.lock() = Some(Turn {
            at: Instant::now(),
            threads,
            before: None,
        });
    }

    /// Note that the host has changed: `/readyz` waits for a moment for what is published then.
    pub fn outdate(&self) {
        self.outdated.send_replace(true);
    }

    /// Publish what `/readyz` shows: whether it passes, a text, that with all lines, and whether it is outdated.
    pub fn publish(&self, passed: bool, text: Bytes, lines: Bytes, outdated: bool) {
        *self.ready.lock() = (passed, text, lines);
        self.outdated.send_replace(outdated);
    }

    /// Note what threads compute while the interpreter is held.
    pub(super) fn look(&self) {
        let mut turn = self.turn.lock();
        let held = |turn: &&mut Turn| turn.before.is_none() && turn.at.elapsed() >= METRICS_LIMIT;
        if let Some(turn) = turn.as_mut().filter(held) {
            turn.before = Some((Instant::now(), turn.computed().collect()));
        }
    }

    /// Return what to say if the interpreter has been held for so long, with the thread if it computes.
    pub(super) fn complaint(&self, limit: Duration) -> Option<String> {
        let turn = self.turn.lock();
        let turn = turn.as_ref().filter(|turn| turn.at.elapsed() >= limit)?;
        let seconds = turn.at.elapsed().as_secs();
        let by = turn.busiest();
        let by = by.map_or_else(String::new, |name| format!(" by thread {name}"));
        Some(format!("the interpreter was held for {seconds} s{by}"))
    }

    /// Answer `/livez` or `/readyz`; None for another path.
    pub(super) async fn answer(&self, uri: &Uri) -> Option<Response<Content>> {
        let (limit, ready) = match uri.path() {
            "/livez" => (self.live_limit, (true, "ok".into(), LIVE.into())),
            "/readyz" => {
                let mut outdated = self.outdated.subscribe();
                // What was published last counts, then.
                let _ = timeout(PATIENCE, outdated.wait_for(|outdated| !outdated)).await;
                (READY_LIMIT, self.ready.lock().clone())
            }
            _ => return None,
        };
        let (passed, text, lines) = match self.complaint(limit) {
            Some(complaint) => {
                let text = Bytes::from(complaint + "\n");
                (false, text.clone(), text)
            }
            None => ready,
        };
        let mut keys = uri.query().unwrap_or_default().split('&');
        let verbose = keys.any(|key| key.split('=').next() == Some("verbose"));
        let status = if passed {
            StatusCode::OK
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        };
        Some(plain(status, if verbose { lines } else { text }))
    }

    /// Keep the exposition that a client gets, as the last one of its format.
    pub(super) fn keep(&self, format: &Format, response: &Response<Content>) {
        if let (StatusCode::OK, Content::Left(body)) = (response.status(), response.body()) {
            let mut kept = Response::new(body.clone());
            kept.headers_mut().clone_from(response.headers());
            let mut expositions = self.expositions.lock();
            expositions.retain(|(known, ..)| known != format);
            expositions.truncate(KEPT - 1);
            expositions.insert(0, (format.clone(), kept, Instant::now()));
        }
    }

    /// Return the last exposition of a format with its age, if there can be no other one, or it need not be renewed.
    pub(super) fn exposition(&self, format: &Format) -> Option<Response<Content>> {
        let turn = self.turn.lock().as_ref().map(|turn| turn.at.elapsed());
        let expositions = self.expositions.lock();
        let (_, kept, at) = expositions.iter().find(|(known, ..)| known == format)?;
        let (mut response, age) = (kept.clone().map(Content::Left), at.elapsed());
        let control = response.headers().get(CACHE_CONTROL);
        let most = control.and_then(|control| control.to_str().ok()?.strip_prefix("max-age="));
        let is_new = most.is_some_and(|most| most.parse().is_ok_and(|most| age.as_secs() < most));
        if !is_new && turn.is_none_or(|held| held < METRICS_LIMIT) {
            return None;
        }
        response.headers_mut().insert(AGE, age.as_secs().into());
        Some(response)
    }
}

impl Turn {
    /// Return the processor time of each thread, where the system shows it.
    fn computed(&self) -> impl Iterator<Item = Duration> {
        let nanos = |thread| {
            let path = format!("/proc/self/task/{thread}/schedstat");
            let text = std::fs::read_to_string(path).ok()?;
            text.split_ascii_whitespace().next()?.parse().ok()
        };
        let threads = self.threads.iter();
        threads.map(move |(thread, _)| Duration::from_nanos(nanos(*thread).unwrap_or_default()))
    }

    /// Return the name of the thread that computes while the others wait, where the system shows it.
    fn busiest(&self) -> Option<&str> {
        let (since, before) = self.before.as_ref()?;
        let spent = self.computed().zip(before);
        let spent = spent.map(|(now, before)| now.saturating_sub(*before));
        let mut spent: Vec<_> = spent.zip(&self.threads).collect();
        spent.sort_unstable_by_key(|(spent, _)| Reverse(*spent));
        let (most, (_, name)) = spent.first()?;
        let next = spent.get(1).map_or(Duration::ZERO, |(next, _)| *next);
        (*most > next * TIMES && *most > since.elapsed() / PART).then_some(name)
    }
}
