//! The client of the API server in Python: calls and streams that need the interpreter only to begin and to end.

mod certificate;
mod client;
mod messages;
mod stream;
mod tls;

pub(crate) use client::Answers;
pub(crate) use messages::raise;
use pyo3::prelude::*;
pub(crate) use stream::HttpStream;

/// Add the classes to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<client::HttpClient>()?;
    module.add_class::<client::ServerLastByte>()?;
    module.add_class::<client::Cancel>()?;
    module.add_class::<client::Answers>()?;
    module.add_class::<messages::HttpResponse>()?;
    module.add_class::<stream::HttpStream>()?;
    module.add_class::<tls::Tls>()?;
    module.add_function(wrap_pyfunction!(
        certificate::self_signed_certificate,
        module
    )?)?;
    module.add_function(wrap_pyfunction!(
        certificate::certificate_authority,
        module
    )?)?;
    module.add_function(wrap_pyfunction!(certificate::signed_certificate, module)?)?;
    client::stop_at_exit(module)
}
