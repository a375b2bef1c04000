"""TLS of connections that Python makes itself: WebSockets to pods, and the fault proxy's to its API server."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ctrlhost.errors import ConfigError

if TYPE_CHECKING:
    from ctrlhost.kubeconfig.connection import Connection


def tls_context(connection: Connection) -> ssl.SSLContext | None:
    """Return a context with the trust of other requests and the client certificate; None for plain http.

    ConfigError for unusable certificates.
    """
    if not connection.url.startswith("https:"):
        return None
    # It names what is unusable better than OpenSSL does.
    connection.tls()
    ca, (cert, key) = connection.ca(), connection.certificate.read()
    context = ssl.create_default_context(cadata=None if ca is None else ca.decode("ascii", "replace"))
    # A cluster's certificate may be its own CA, or lack key identifiers, on which Python 3.13 insists.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not connection.configuration.verify_ssl:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    elif connection.configuration.assert_hostname is False:
        context.check_hostname = False
    if cert is not None and key is not None:
        # OpenSSL reads keys from files only; no other user can read the folder, and it is removed at once.
        with tempfile.TemporaryDirectory(prefix="ctrlhost-") as folder:
            file = Path(folder, "both.pem")
            file.write_bytes(cert + b"\n" + key)
            try:
                # Without a password OpenSSL would ask for one on the terminal.
                context.load_cert_chain(file, password=b"")
            except (OSError, ValueError) as error:
                raise ConfigError(f"{connection.source}: its client certificate is unusable: {error}") from error
    return context
