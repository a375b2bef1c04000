//! The parser of requests in Python, for a server that runs there.

use ctrlhost_requests::{Event, Head, Parser};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};

/// The head of a request.
#[pyclass(frozen, get_all, module = "ctrlhost_sandbox._native")]
pub(crate) struct RequestHead {
    method: Py<PyString>,
    target: Py<PyString>,
    headers: Py<PyDict>,
    keep_alive: bool,
}

impl RequestHead {
    fn of(py: Python<'_>, head: &Head) -> PyResult<Self> {
        let headers = PyDict::new(py);
        for (name, value) in &head.headers {
            let name = PyString::new(py, name);
            let known = headers.get_item(&name)?;
            match known {
                None => headers.set_item(name, value)?,
                Some(known) => headers.set_item(name, format!("{known},{value}"))?,
            }
        }
        Ok(Self {
            method: PyString::new(py, &head.method).unbind(),
            target: PyString::new(py, &head.target).unbind(),
            headers: headers.unbind(),
            keep_alive: head.keep_alive,
        })
    }
}

#[derive(Default)]
struct State {
    parser: Parser,
    failed: bool,
}

/// Parses the requests of one connection, for one thread at a time.
#[pyclass(frozen, module = "ctrlhost_sandbox._native")]
pub(crate) struct RequestParser(Mutex<State>);

#[pymethods]
impl RequestParser {
    #[new]
    fn new() -> Self {
        Self(Mutex::default())
    }

    #[getter]
    fn pending(&self) -> usize {
        self.0.lock().parser.pending()
    }

    #[getter]
    fn failed(&self) -> bool {
        self.0.lock().failed
    }

    fn parse<'py>(
        &self,
        py: Python<'py>,
        data: &[u8],
    ) -> PyResult<(Bound<'py, PyList>, Bound<'py, PyBytes>)> {
        let events = PyList::empty(py);
        let mut raised = Ok(());
        let state = &mut *self.0.lock();
        let rest = state.parser.parse(data, &mut |event| {
            let added = match event {
                Event::Head(head) => {
                    RequestHead::of(py, &head).and_then(|head| events.append(head))
                }
                Event::Body(piece) => events.append(PyBytes::new(py, piece)),
                Event::End => events.append(py.None()),
            };
            if raised.is_ok() {
                raised = added;
            }
        });
        raised?;
        state.failed |= rest.is_err();
        Ok((events, PyBytes::new(py, rest.unwrap_or_default())))
    }
}
