"""The certificate of a TLS listener, which is replaced while the listener serves."""

from __future__ import annotations

import logging
import os
import ssl
import tempfile
import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ctrlhost.errors import ConfigError
from ctrlhost.kubeconfig.expiry import certificate_expiry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

    from ctrlhost.clock import Clock
    from ctrlhost.server.key_pairs import KeyPair, KeyPairs

log = logging.getLogger("ctrlhost.server")

#: Seconds between two looks at the source of the certificate.
PERIOD = 10.0
_WORDS = {
    "KEY_VALUES_MISMATCH": "the key does not belong to the certificate",
    "PEM_LIB": "one of them is no PEM, or the key has a pass phrase",
}


class ServerCertificate:
    """Asks its source for another certificate every ten seconds, on a thread of its own.

    New connections get the new certificate; those that exist go on. An unusable one is counted and logged, and the
    last usable one stays. A collector for prometheus-client; methods may be called from any thread.
    """

    def __init__(self, listener: str, source: KeyPairs, clock: Clock) -> None:
        """Read the first certificate; ConfigError if it is unusable. `start` starts the thread."""
        self._listener = listener
        self._source = source
        self._clock = clock
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._errors = 0
        #: Why the last certificate of the source is unusable; "" if it is in use.
        self._problem = ""
        pair = None
        try:
            pair = source.next()
            if pair is None:
                raise ConfigError(f"{source}: another program is replacing them", hint="start again")
            self._use(pair)
        except (OSError, ValueError) as error:
            hint = "a certificate and its key, both PEM, without a pass phrase"
            raise ConfigError(f"{source}: {_reason(error)}", hint=f"it needs {hint}") from error
        #: What the server gets: each of its handshakes continues with the context of the current certificate.
        self.context = server_context(pair)
        self.context.sni_callback = self._choose

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name=f"certificate of {self._listener}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()
        if self._thread is not None:
            # A file system that hangs must not hold up the shutdown.
            self._thread.join(1.0)

    def collect(self) -> Iterator[Metric]:
        """Return the current metrics; called by prometheus-client at each scrape."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        expiry = GaugeMetricFamily(
            "ctrlhost_certificate_expiry_timestamp_seconds",
            "When the certificate that the listener shows expires, in seconds since the epoch.",
            labels=["listener"],
        )
        if self._expiry is not None:
            expiry.add_metric([self._listener], self._expiry)
        yield expiry
        errors = CounterMetricFamily(
            "ctrlhost_certificate_errors", "Certificates that the listener could not use.", labels=["listener"]
        )
        errors.add_metric([self._listener], self._errors)
        yield errors

    def _run(self) -> None:
        while not self._clock.wait(self._stopped, PERIOD):
            try:
                self._look()
            except (OSError, ValueError) as error:
                self._unusable(_reason(error))

    def _look(self) -> None:
        """Use the source's next certificate, if there is one; OSError or ValueError if it is unusable."""
        pair = self._source.next()
        if pair is None:
            return
        self._use(pair)
        self._problem = ""
        until = "" if self._expiry is None else f", which expires at {datetime.fromtimestamp(self._expiry, UTC):%FT%TZ}"
        log.info("listener %s: using another certificate%s", self._listener, until)

    def _use(self, pair: KeyPair) -> None:
        self._in_use, self._expiry = server_context(pair), certificate_expiry(pair.certificate)

    def _unusable(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            self._errors += 1
            log.error("listener %s: %s: %s; the last usable one stays", self._listener, self._source, problem)

    def _choose(self, connection: ssl.SSLObject | ssl.SSLSocket, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._in_use


def _reason(error: OSError | ValueError) -> str:
    """Return what is wrong, without the place in OpenSSL's sources."""
    if isinstance(error, ssl.SSLError):
        # OpenSSL often has no better one than this.
        reason = error.reason or "PEM_LIB"
        return _WORDS.get(reason, reason.replace("_", " ").lower())
    return f"{error.strerror}: {error.filename}" if isinstance(error, OSError) and error.filename else str(error)


def server_context(pair: KeyPair) -> ssl.SSLContext:
    """Return the context of a server with this certificate; SSLError or ValueError if it is unusable."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    with _expose(pair.certificate + b"\n" + pair.key) as path:
        # An empty pass phrase, since OpenSSL asks for one at the terminal otherwise.
        context.load_cert_chain(path, password="")
    return context


@contextmanager
def _expose(content: bytes) -> Iterator[str]:
    """Return a path from which OpenSSL, which reads no bytes, can read the content; where possible, no file."""
    if not hasattr(os, "memfd_create"):
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name
        return
    descriptor = os.memfd_create("certificate")
    try:
        os.write(descriptor, content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
