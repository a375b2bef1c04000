"""The certificate of a TLS listener, which is replaced while the listener serves."""

from __future__ import annotations

import logging
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ctrlhost._core import ServerTls
from ctrlhost.errors import ConfigError
from ctrlhost.kubeconfig.expiry import certificate_expiry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

    from ctrlhost.clock import Clock
    from ctrlhost.server.key_pairs import KeyPairs

log = logging.getLogger("ctrlhost.server")

#: Seconds between two looks at the source of the certificate.
PERIOD = 10.0


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
        try:
            pair = source.next()
            if pair is None:
                raise ConfigError(f"{source}: another program is replacing them", hint="start again")
            #: What the server gets; new handshakes use the current certificate.
            self.tls = ServerTls(*pair)
            self._expiry = certificate_expiry(pair.certificate)
        except (OSError, ValueError) as error:
            hint = "a certificate and its key, both PEM, without a pass phrase"
            raise ConfigError(f"{source}: {_reason(error)}", hint=f"it needs {hint}") from error

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
        self.tls.replace(*pair)
        self._expiry = certificate_expiry(pair.certificate)
        self._problem = ""
        until = "" if self._expiry is None else f", which expires at {datetime.fromtimestamp(self._expiry, UTC):%FT%TZ}"
        log.info("listener %s: using another certificate%s", self._listener, until)

    def _unusable(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            self._errors += 1
            log.error("listener %s: %s: %s; the last usable one stays", self._listener, self._source, problem)


def _reason(error: OSError | ValueError) -> str:
    """Return what is wrong."""
    return f"{error.strerror}: {error.filename}" if isinstance(error, OSError) and error.filename else str(error)
