//! Requests and responses between Python and the transport.

use std::sync::atomic::{AtomicBool, Ordering};

use ctrlhost_transport::client::{Failure, Response, Stage};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyBytes, PyDict};

use crate::interpreter;
use crate::recurring::recurring;

/// Headers of a request, whose characters are bytes.
pub(super) type Headers = Vec<(String, String)>;

/// What the server's owner can do about an unknown authority.
const CA_HINT: &str = "set `certificate-authority` in the kubeconfig to the CA of the server";

/// Check headers before anything is sent.
///
/// # Errors
/// `ValueError` for one that would become two, or that cannot be sent.
pub(super) fn checked(headers: Headers) -> PyResult<Headers> {
    for (name, value) in &headers {
        if value.contains(['\r', '\n', '\0']) {
            let message = format!("the value of the header {name} contains a line break");
            return Err(PyValueError::new_err(message));
        }
        let token = |byte: u8| byte.is_ascii_graphic() && !b"\"(),/:;<=>?@[\\]{}".contains(&byte);
        if name.is_empty() || !name.bytes().all(token) {
            return Err(PyValueError::new_err(format!(
                "invalid header name {name:?}"
            )));
        }
        if value.chars().any(|one| u32::from(one) > 0xff) {
            let message =
                format!("the value of the header {name} contains characters that are not Latin-1");
            return Err(PyValueError::new_err(message));
        }
    }
    Ok(headers)
}

/// Make the error of a request; `what` is its method and URL, and `permit` may have refused it.
pub(crate) fn raise(
    py: Python<'_>,
    what: &str,
    failure: &Failure,
    permit: Option<&Py<PyAny>>,
) -> PyErr {
    if let (Stage::Refused(code), Some(permit)) = (failure.stage, permit) {
        return match permit.bind(py).call_method1("refused", (code,)) {
            Ok(error) => PyErr::from_value(error),
            Err(error) => error,
        };
    }
    if failure.stage == Stage::Cancelled && ENDING.load(Ordering::Relaxed) {
        wait_for_end(py);
    }
    match failure.stage {
        Stage::Request => PyValueError::new_err(format!("{what}: {}", failure.text)),
        Stage::Forked => PyRuntimeError::new_err(failure.text.clone()),
        _ => transport_error(py, &format!("{what}: {}", failure.text), failure),
    }
}

/// Whether the process ends.
pub(super) static ENDING: AtomicBool = AtomicBool::new(false);

/// Keep a thread that the end of the process leaves behind from reporting that its connection is gone.
fn wait_for_end(py: Python<'_>) {
    if interpreter::in_main_thread(py).unwrap_or(true) {
        return;
    }
    interpreter::detach(py, || {
        loop {
            std::thread::park();
        }
    });
}

fn transport_error(py: Python<'_>, message: &str, failure: &Failure) -> PyErr {
    let make = || -> PyResult<PyErr> {
        let class = py.import("ctrlhost.errors")?.getattr("TransportError")?;
        let options = [("sent", failure.sent)].into_py_dict(py)?;
        if failure.unknown_ca {
            options.set_item("hint", CA_HINT)?;
        }
        Ok(PyErr::from_value(class.call((message,), Some(&options))?))
    };
    make().unwrap_or_else(|error| error)
}

/// A whole response, or the head of a stream.
#[pyclass(frozen, get_all, module = "ctrlhost._core")]
pub(crate) struct HttpResponse {
    status: u16,
    headers: Py<PyDict>,
    body: Py<PyBytes>,
    began: f64,
}

impl HttpResponse {
    pub(super) fn of(py: Python<'_>, response: &Response) -> PyResult<Self> {
        let headers = PyDict::new(py);
        for (name, value) in &response.headers {
            let name = recurring(py, name);
            let known = headers.get_item(&name)?;
            match known {
                None => headers.set_item(name, value)?,
                Some(known) => headers.set_item(name, format!("{known}, {value}"))?,
            }
        }
        Ok(Self {
            status: response.status,
            headers: headers.unbind(),
            body: PyBytes::new(py, &response.body).unbind(),
            began: response.began.as_secs_f64(),
        })
    }
}
