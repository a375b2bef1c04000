//! The client of one server in Python: a call releases the interpreter once.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ctrlhost_core::clock::seconds;
use ctrlhost_core::informer::decoders;
use ctrlhost_transport::client::{
    self, Begun, Call, CancelHandle, Client, Failure, Gate, LastByte, Proxy, ProxyScheme, Response,
    Settings, StreamCall,
};
use parking_lot::Mutex;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict, PyTuple};

use super::messages::{ENDING, Headers, HttpResponse, checked, raise};
use super::stream::HttpStream;
use super::tls::Tls;
use crate::interpreter::{self, Local, SLICE};
use crate::term::PermitGate;

/// The bytes of a stream that may wait for its reader.
const INTAKE_BYTES: usize = 4 << 20;
/// How long the end of the process waits for the I/O thread and the decode threads.
const PATIENCE: Duration = Duration::from_secs(1);

/// The proxy of a client: scheme, host, port, user and password, headers.
type ProxyArguments = (String, String, u16, Option<(String, String)>, Headers);

fn proxy_of((scheme, host, port, user, headers): ProxyArguments) -> PyResult<Proxy> {
    let scheme = match &*scheme {
        "http" => ProxyScheme::Http,
        "https" => ProxyScheme::Https,
        "socks5" => ProxyScheme::Socks5,
        "socks5h" => ProxyScheme::Socks5h,
        other => {
            let message = format!("unknown scheme of a proxy: {other}");
            return Err(PyValueError::new_err(message));
        }
    };
    Ok(Proxy {
        scheme,
        host,
        port,
        user,
        headers: checked(headers)?,
    })
}

/// Return the gate of a permit.
fn gate_of(permit: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Arc<dyn Gate>>> {
    let gate = |permit: &Bound<'_, PyAny>| {
        let gate = permit.getattr("gate")?;
        PyResult::Ok(gate.cast::<PermitGate>()?.get().shared())
    };
    permit.map(gate).transpose()
}

fn deadline(timeout: f64) -> Instant {
    let now = Instant::now();
    // A time that the machine cannot count to.
    let far = now + Duration::from_secs(365 * 24 * 3600);
    now.checked_add(seconds(timeout))
        .map_or(far, |end| end.min(far))
}

/// When the last byte of a response came from one server, on the connections of all clients that share it.
#[pyclass(frozen, weakref, name = "LastByte", module = "ctrlhost._core")]
pub(crate) struct ServerLastByte(LastByte);

#[pymethods]
impl ServerLastByte {
    #[new]
    fn new() -> Self {
        Self(LastByte::new())
    }

    /// Return the seconds since then; None if no byte has come.
    fn age(&self) -> Option<f64> {
        self.0.age().map(|age| age.as_secs_f64())
    }
}

/// Connections to one API server, carried by the I/O thread of the process. Callable from any thread.
#[pyclass(frozen, module = "ctrlhost._core")]
pub(crate) struct HttpClient(Local<Client>);

impl Drop for HttpClient {
    fn drop(&mut self) {
        self.0.keep_in_child();
    }
}

#[pymethods]
impl HttpClient {
    #[new]
    #[pyo3(signature = (*, https, host, port, authority, unix_socket=None, headers=Vec::new(), proxy=None, max_idle=32,
                        connect_timeout=30.0, tls=None, last_byte=None))]
    #[expect(
        clippy::too_many_arguments,
        reason = "keyword arguments of a Python constructor"
    )]
    fn new(
        https: bool,
        host: String,
        port: u16,
        authority: String,
        unix_socket: Option<PathBuf>,
        headers: Headers,
        proxy: Option<ProxyArguments>,
        max_idle: usize,
        connect_timeout: f64,
        tls: Option<&Tls>,
        last_byte: Option<&ServerLastByte>,
    ) -> PyResult<Self> {
        let settings = Settings {
            https,
            host,
            port,
            authority,
            unix_socket,
            headers: checked(headers)?,
            proxy: proxy.map(proxy_of).transpose()?,
            max_idle,
            connect_timeout: seconds(connect_timeout),
        };
        let tls = tls.map(|tls| tls.0.clone());
        let last_byte = last_byte.map_or_else(LastByte::new, |shared| shared.0.clone());
        Ok(Self(Local::new(Client::sharing(settings, tls, last_byte))))
    }

    fn set_tls(&self, py: Python<'_>, tls: &Tls) -> PyResult<()> {
        let client = self.0.get()?;
        interpreter::detach(py, || client.set_tls(&tls.0));
        Ok(())
    }

    fn close(&self, py: Python<'_>) {
        // A forked child has no connections.
        if let Ok(client) = self.0.get() {
            interpreter::detach(py, || client.close());
        }
    }

    fn connect_ahead(&self, py: Python<'_>) -> PyResult<()> {
        let client = self.0.get()?;
        interpreter::detach(py, || client.connect_ahead());
        Ok(())
    }

    #[pyo3(signature = (method, target, headers, body, timeout, what, permit=None))]
    #[expect(clippy::too_many_arguments, reason = "arguments of a Python method")]
    fn call(
        &self,
        py: Python<'_>,
        method: String,
        target: String,
        headers: Headers,
        body: Option<&[u8]>,
        timeout: f64,
        what: &str,
        permit: Option<Bound<'_, PyAny>>,
    ) -> PyResult<HttpResponse> {
        let client = self.0.get()?;
        let call = call_of(method, target, headers, body, timeout, permit.as_ref())?;
        let answer = if interpreter::in_main_thread(py)? {
            call_with_signals(py, client, call)?
        } else {
            interpreter::detach(py, || client.call(call))
        };
        match answer {
            Ok(response) => HttpResponse::of(py, &response),
            Err(failure) => Err(raise(
                py,
                what,
                &failure,
                permit.map(Bound::unbind).as_ref(),
            )),
        }
    }

    #[pyo3(signature = (answers, done, method, target, headers, body, timeout, what, permit=None))]
    #[expect(clippy::too_many_arguments, reason = "arguments of a Python method")]
    fn begin(
        &self,
        answers: &Answers,
        done: Py<PyAny>,
        method: String,
        target: String,
        headers: Headers,
        body: Option<&[u8]>,
        timeout: f64,
        what: String,
        permit: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Cancel> {
        let client = self.0.get()?;
        let call = call_of(method, target, headers, body, timeout, permit.as_ref())?;
        let permit = permit.map(Bound::unbind);
        let sender = answers.sender()?;
        let handle = client.begin(
            call,
            Box::new(move |result| {
                sender.send(done, move |py| match result {
                    Ok(response) => HttpResponse::of(py, &response)?.into_bound_py_any(py),
                    Err(failure) => Err(raise(py, &what, &failure, permit.as_ref())),
                });
            }),
        );
        Ok(Cancel(handle))
    }

    fn begin_stream(
        &self,
        answers: &Answers,
        done: Py<PyAny>,
        target: String,
        headers: Headers,
        timeout: f64,
        what: String,
    ) -> PyResult<()> {
        let client = self.0.get()?;
        let call = stream_call_of(target, headers, timeout)?;
        let sender = answers.sender()?;
        client.begin_stream(
            call,
            Box::new(move |result| {
                sender.send(done, move |py| {
                    opened(py, what, result)?.into_bound_py_any(py)
                });
            }),
        );
        Ok(())
    }

    fn stream(
        &self,
        py: Python<'_>,
        target: String,
        headers: Headers,
        timeout: f64,
        what: String,
    ) -> PyResult<(HttpResponse, Option<HttpStream>)> {
        let client = self.0.get()?;
        let call = stream_call_of(target, headers, timeout)?;
        opened(py, what, interpreter::detach(py, || client.stream(call)))
    }

    fn probe(
        &self,
        py: Python<'_>,
        target: String,
        headers: Headers,
        timeout: f64,
        what: &str,
    ) -> PyResult<HttpResponse> {
        let client = self.0.get()?;
        let call = Call {
            fresh: true,
            ..call_of("GET".to_owned(), target, headers, None, timeout, None)?
        };
        match interpreter::detach(py, || client.call(call)) {
            Ok(response) => HttpResponse::of(py, &response),
            Err(failure) => Err(raise(py, what, &failure, None)),
        }
    }

    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counts = self.0.get()?.counts();
        [
            ("connecting", counts.connecting),
            ("idle", counts.idle),
            ("call", counts.call),
            ("stream", counts.stream),
            ("resumed", counts.resumed),
            ("full", counts.full),
            ("panics", counts.panics + decoders::panics()),
        ]
        .into_py_dict(py)
    }
}

fn stream_call_of(target: String, headers: Headers, timeout: f64) -> PyResult<StreamCall> {
    Ok(StreamCall {
        target,
        headers: checked(headers)?,
        deadline: deadline(timeout),
        intake_bytes: INTAKE_BYTES,
    })
}

/// Return the head, and the stream if the status is 200.
fn opened(
    py: Python<'_>,
    what: String,
    result: Result<Begun, Failure>,
) -> PyResult<(HttpResponse, Option<HttpStream>)> {
    match result {
        Ok((head, stream)) => Ok((
            HttpResponse::of(py, &head)?,
            stream.map(|stream| HttpStream::new(stream, what)),
        )),
        Err(failure) => Err(raise(py, &what, &failure, None)),
    }
}

fn call_of(
    method: String,
    target: String,
    headers: Headers,
    body: Option<&[u8]>,
    timeout: f64,
    permit: Option<&Bound<'_, PyAny>>,
) -> PyResult<Call> {
    Ok(Call {
        method,
        target,
        headers: checked(headers)?,
        body: body.map_or_else(Bytes::new, Bytes::copy_from_slice),
        deadline: deadline(timeout),
        gate: gate_of(permit)?,
        // The client in Python repeats reads.
        repeat: false,
        fresh: false,
    })
}

/// Call on the thread that handles signals: one that raises ends the call.
fn call_with_signals(
    py: Python<'_>,
    client: &Client,
    call: Call,
) -> PyResult<Result<Response, Failure>> {
    let (sender, receiver) = channel();
    // The receiver is dropped only after a signal has raised.
    let done = Box::new(move |result| drop(sender.send(result)));
    let mut handle: Option<CancelHandle> = None;
    let mut begun = Some((call, done));
    let receiver = Mutex::new(receiver);
    loop {
        let outcome = interpreter::detach(py, || {
            if let Some((call, done)) = begun.take() {
                handle = Some(client.begin(call, done));
            }
            receiver.lock().recv_timeout(SLICE)
        });
        match outcome {
            Ok(answer) => return Ok(answer),
            Err(RecvTimeoutError::Timeout) => {
                if let Err(raised) = py.check_signals() {
                    if let Some(handle) = &handle {
                        handle.cancel();
                    }
                    return Err(raised);
                }
            }
            Err(RecvTimeoutError::Disconnected) => {
                // The I/O thread has ended with the process.
                return Err(crate::errors::raise(
                    py,
                    "TransportError",
                    "the process is ending",
                    "",
                ));
            }
        }
    }
}

/// Cancels a call that was begun.
#[pyclass(frozen, module = "ctrlhost._core")]
pub(crate) struct Cancel(CancelHandle);

#[pymethods]
impl Cancel {
    fn cancel(&self, py: Python<'_>) {
        interpreter::detach(py, || self.0.cancel());
    }
}

type Outcome = Box<dyn for<'py> FnOnce(Python<'py>) -> PyResult<Bound<'py, PyAny>> + Send>;

struct Answer {
    done: Py<PyAny>,
    outcome: Outcome,
}

impl Answer {
    /// Return the function to call, and its arguments: the outcome or the error.
    fn into_call(self, py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
        match (self.outcome)(py) {
            Ok(outcome) => (self.done, outcome, py.None()).into_pyobject(py),
            Err(error) => (self.done, py.None(), error.into_value(py)).into_pyobject(py),
        }
    }
}

/// Where answers are put, from any thread and without the interpreter.
pub(crate) struct AnswerSender(Sender<Answer>);

impl AnswerSender {
    /// Arrange that `done` is called with the outcome, or with the error.
    pub(crate) fn send(
        self,
        done: Py<PyAny>,
        outcome: impl for<'py> FnOnce(Python<'py>) -> PyResult<Bound<'py, PyAny>> + Send + 'static,
    ) {
        let outcome = Box::new(outcome);
        // Nobody waits for answers once the thread that reads them has ended.
        let _ = self.0.send(Answer { done, outcome });
    }
}

/// The answers of calls that were begun, for the one thread that passes them on.
#[pyclass(frozen, module = "ctrlhost._core")]
pub(crate) struct Answers {
    sender: Local<Sender<Answer>>,
    receiver: Local<Mutex<Receiver<Answer>>>,
}

impl Answers {
    pub(crate) fn sender(&self) -> PyResult<AnswerSender> {
        Ok(AnswerSender(self.sender.get()?.clone()))
    }
}

#[pymethods]
impl Answers {
    #[new]
    fn new() -> Self {
        let (sender, receiver) = channel();
        Self {
            sender: Local::new(sender),
            receiver: Local::new(Mutex::new(receiver)),
        }
    }

    /// Wait for answers; return all that there are.
    fn wait<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let receiver = self.receiver.get()?;
        // This object has a sender of its own, so the channel never closes.
        let arrived: Vec<Answer> = interpreter::detach(py, || {
            let receiver = receiver.lock();
            receiver
                .recv()
                .into_iter()
                .chain(receiver.try_iter())
                .collect()
        });
        let calls = arrived.into_iter().map(|answer| answer.into_call(py));
        calls.collect()
    }
}

/// End the I/O thread and the decode threads with the interpreter.
#[pyfunction]
fn _stop_transport(py: Python<'_>) -> bool {
    ENDING.store(true, Ordering::Relaxed);
    interpreter::detach(py, || {
        let until = Instant::now() + PATIENCE;
        // The streams end first, so that nothing new is decoded.
        let io = client::shutdown(PATIENCE);
        let decoding = decoders::shutdown(until.saturating_duration_since(Instant::now()));
        io && decoding
    })
}

/// Register the end of these threads.
pub(super) fn stop_at_exit(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let stop = wrap_pyfunction!(_stop_transport, module)?;
    py.import("atexit")?.call_method1("register", (stop,))?;
    Ok(())
}
