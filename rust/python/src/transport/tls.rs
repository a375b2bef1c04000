//! What TLS needs, read from PEM.

use ctrlhost_transport::client::{self, Part};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Authorities, the client's certificate and key, and what is verified.
#[pyclass(frozen, module = "ctrlhost._core")]
pub(crate) struct Tls(pub(super) client::Tls);

#[pymethods]
impl Tls {
    #[new]
    #[pyo3(signature = (*, ca=None, cert=None, key=None, verify=true, check_name=true, server_name=None))]
    fn new(
        ca: Option<&[u8]>,
        cert: Option<&[u8]>,
        key: Option<&[u8]>,
        verify: bool,
        check_name: bool,
        server_name: Option<&str>,
    ) -> PyResult<Self> {
        let tls = client::Tls::from_pem(ca, cert, key, verify, check_name, server_name);
        tls.map(Self).map_err(|error| {
            let part = match error.part {
                Part::Ca => "ca",
                Part::Cert => "cert",
                Part::Key => "key",
                Part::ServerName => "server_name",
            };
            PyValueError::new_err((part, error.text))
        })
    }

    #[getter]
    fn notes(&self) -> Vec<String> {
        self.0.notes.clone()
    }
}
