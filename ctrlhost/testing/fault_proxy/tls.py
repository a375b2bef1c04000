"""TLS of the proxy's connections to its API server, which run in asyncio."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctrlhost.kubeconfig.connection import Connection


def tls_context(connection: Connection) -> ssl.SSLContext | None:
    """Return a context with the CA and the client certificate of a kubeconfig; None for plain http."""
    if not connection.url.startswith("https:"):
        return None
    ca = connection.ca()
    context = ssl.create_default_context(cadata=None if ca is None else ca.decode("ascii", "replace"))
    if not connection.configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    cert, key = connection.certificate.read()
    if cert is not None and key is not None:
        # OpenSSL reads keys from files only; no other user can read the folder, and it is removed at once.
        with tempfile.TemporaryDirectory(prefix="ctrlhost-") as folder:
            file = Path(folder, "both.pem")
            file.write_bytes(cert + b"\n" + key)
            context.load_cert_chain(file)
    return context
