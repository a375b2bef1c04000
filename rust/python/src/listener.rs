//! Listeners in Python: it starts them, publishes what probes show, and answers the requests that need it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::Arc;

use bytes::Bytes;
use ctrlhost_core::clock::seconds;
use ctrlhost_transport::listener::{
    self as native, Counts, Event, Exchange, Guard, Inbox, Service,
};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyTuple};

use crate::interpreter::{Local, detach};

/// What one or more listeners have counted.
#[pyclass(frozen, module = "ctrlhost._core")]
#[derive(Default)]
pub(crate) struct ListenerCounts(Arc<Counts>);

#[pymethods]
impl ListenerCounts {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    #[getter]
    fn requests(&self) -> BTreeMap<u16, u64> {
        self.0.requests()
    }

    #[getter]
    fn rejected(&self) -> BTreeMap<&'static str, u64> {
        self.0.rejected()
    }
}

/// The certificate of a listener, which may be replaced while it serves.
#[pyclass(frozen, module = "ctrlhost._core")]
pub(crate) struct ServerTls(Arc<native::ServerTls>);

#[pymethods]
impl ServerTls {
    #[new]
    fn new(certificate: &[u8], key: &[u8]) -> PyResult<Self> {
        let tls = Self(Arc::default());
        tls.replace(certificate, key)?;
        Ok(tls)
    }

    fn replace(&self, certificate: &[u8], key: &[u8]) -> PyResult<()> {
        let replaced = self.0.replace(certificate, key);
        replaced.map_err(|error| PyValueError::new_err(error.to_string()))
    }
}

/// What listeners answer without Python.
#[pyclass(frozen, module = "ctrlhost._core")]
pub(crate) struct Probes(Arc<native::Probes>);

#[pymethods]
impl Probes {
    #[new]
    fn new(gil_limit: f64) -> Self {
        Self(Arc::new(native::Probes::new(seconds(gil_limit))))
    }

    fn turn(&self, threads: Vec<(u64, String)>) {
        self.0.turn(threads);
    }

    fn outdate(&self) {
        self.0.outdate();
    }

    fn publish(&self, passed: bool, text: String, lines: String, outdated: bool) {
        self.0.publish(passed, text.into(), lines.into(), outdated);
    }
}

/// See the class of this name in Python.
#[derive(FromPyObject)]
struct Limits {
    connections: usize,
    idle: f64,
    header: f64,
    header_bytes: usize,
    unread: f64,
    kept: Option<usize>,
}

impl From<Limits> for native::Limits {
    fn from(limits: Limits) -> Self {
        Self {
            connections: limits.connections,
            idle: seconds(limits.idle),
            header: seconds(limits.header),
            header_bytes: limits.header_bytes,
            unread: seconds(limits.unread),
            kept: limits.kept,
        }
    }
}

/// See the class of this name in Python.
#[derive(FromPyObject)]
struct Front {
    hosts: Option<Vec<String>>,
    probes: Option<Py<Probes>>,
    answers_probes: bool,
    shows_metrics: bool,
}

/// A server at one or more sockets, on a thread of its own.
#[pyclass(frozen, module = "ctrlhost._core")]
pub(crate) struct HttpListener {
    listener: Local<Arc<native::Listener>>,
    inbox: Arc<Inbox>,
}

impl Drop for HttpListener {
    fn drop(&mut self) {
        self.listener.keep_in_child();
    }
}

/// Take over a descriptor that Python has detached from its socket.
fn owned(descriptor: i32) -> OwnedFd {
    // SAFETY: the caller gives the descriptor away.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

#[pymethods]
impl HttpListener {
    #[new]
    #[pyo3(signature = (name, sockets, wake, limits, counts, front=None, tls=None))]
    fn new(
        name: &str,
        sockets: Vec<(i32, bool)>,
        wake: i32,
        limits: Limits,
        counts: &ListenerCounts,
        front: Option<Front>,
        tls: Option<&ServerTls>,
    ) -> PyResult<Self> {
        let inbox = Arc::new(Inbox::new(owned(wake).into()));
        let sockets = sockets.into_iter();
        let sockets = sockets.map(|(descriptor, is_unix)| (owned(descriptor), is_unix));
        let probes = front.as_ref().and_then(|front| front.probes.as_ref());
        let service = Service {
            limits: limits.into(),
            counts: counts.0.clone(),
            inbox: inbox.clone(),
            tls: tls.map(|tls| tls.0.clone()),
            probes: probes.map(|probes| probes.get().0.clone()),
            answers_probes: front.as_ref().is_some_and(|front| front.answers_probes),
            shows_metrics: front.as_ref().is_some_and(|front| front.shows_metrics),
            guard: front.map(|front| Guard(front.hosts)),
        };
        let listener = native::Listener::start(name, sockets.collect(), service)?;
        let listener = Local::new(Arc::new(listener));
        Ok(Self { listener, inbox })
    }

    /// Return what has happened since the last call: a kind, and what belongs to it.
    fn events<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let events = self.inbox.take().into_iter().map(|event| match event {
            Event::Request(exchange) => ("request", HttpExchange(*exchange)).into_pyobject(py),
            Event::News(key) => ("news", key).into_pyobject(py),
            Event::OtherUser(user) => ("other_user", user).into_pyobject(py),
            Event::NotAccepted(why) => ("not_accepted", why).into_pyobject(py),
            Event::Refused(path, peer, status, error) => {
                ("refused", (path, peer, status, error)).into_pyobject(py)
            }
        });
        events.collect()
    }

    fn end(&self) -> PyResult<()> {
        self.listener.get()?.end();
        Ok(())
    }

    fn stop(&self, py: Python<'_>, patience: f64) -> PyResult<()> {
        let listener = self.listener.get()?;
        detach(py, || listener.stop(seconds(patience)));
        Ok(())
    }
}

/// A request that Python answers.
#[pyclass(frozen, module = "ctrlhost._core")]
pub(crate) struct HttpExchange(Exchange);

#[pymethods]
impl HttpExchange {
    #[getter]
    fn key(&self) -> usize {
        self.0.key
    }

    /// Return method, version, path, query and headers.
    fn head<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let head = &self.0.head;
        let (method, version) = (head.method.as_str(), format!("{:?}", head.version));
        let bytes = |text: &[u8]| PyBytes::new(py, text);
        let path = bytes(head.uri.path().as_bytes());
        let query = bytes(head.uri.query().unwrap_or_default().as_bytes());
        let headers = head.headers.iter();
        let headers =
            headers.map(|(name, value)| (bytes(name.as_str().as_bytes()), bytes(value.as_bytes())));
        (method, version, path, query, headers.collect::<Vec<_>>()).into_pyobject(py)
    }

    /// Return where it came from: client and server, user and process at a Unix socket, and whether with TLS.
    fn origin<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let origin = self.0.origin;
        let address = |address: SocketAddr| (address.ip().to_string(), address.port());
        let (client, server) = (origin.client.map(address), origin.server.map(address));
        (client, server, origin.peer, origin.https).into_pyobject(py)
    }

    fn receive<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.0.receive().map(|part| PyBytes::new(py, &part))
    }

    #[getter]
    fn is_over(&self) -> bool {
        self.0.is_over()
    }

    #[getter]
    fn has_room(&self) -> bool {
        self.0.has_room()
    }

    fn respond(
        &self,
        status: u16,
        headers: Vec<(PyBackedBytes, PyBackedBytes)>,
        body: &[u8],
        more: bool,
    ) -> PyResult<()> {
        let headers = headers.into_iter();
        let headers = headers.map(|(name, value)| (name.to_vec(), value.to_vec()));
        let begun = self
            .0
            .respond(status, headers, Bytes::copy_from_slice(body), more);
        begun.map_err(PyRuntimeError::new_err)
    }

    fn send(&self, body: &[u8], more: bool) {
        self.0.send(Bytes::copy_from_slice(body), more);
    }

    fn cut(&self) {
        self.0.cut();
    }
}

/// Add the classes to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ListenerCounts>()?;
    module.add_class::<ServerTls>()?;
    module.add_class::<Probes>()?;
    module.add_class::<HttpListener>()?;
    module.add_class::<HttpExchange>()
}
