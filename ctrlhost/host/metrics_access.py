"""Who may read the metrics at their own address, and its certificate, as the settings say."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ctrlhost.server.authentication import Authenticated
from ctrlhost.server.certificates import ServerCertificate
from ctrlhost.server.key_pairs import FilePairs, KeyPairs, SelfSignedPairs, own_names
from ctrlhost.server.reviews import Reviews

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prometheus_client.core import Metric
    from starlette.types import ASGIApp

    from ctrlhost._core import ServerTls
    from ctrlhost.client import Client
    from ctrlhost.clock import Clock
    from ctrlhost.config.settings import HostSettings


class MetricsAccess:
    """TLS and authentication of the metrics listener; a collector for prometheus-client."""

    def __init__(self, settings: HostSettings, client: Callable[[], Client | None], clock: Clock) -> None:
        """Read or make the certificate; ConfigError if it is unusable. `client` is the host's, once it has one."""
        self._certificate: ServerCertificate | None = None
        self._reviews: Reviews | None = None
        if settings.metrics_tls:
            self._certificate = ServerCertificate("metrics", _pairs(settings, clock), clock)
        if settings.metrics_auth == "kubernetes":
            self._reviews = Reviews(lambda: current.transport if (current := client()) is not None else None, clock)

    @property
    def tls(self) -> ServerTls | None:
        """The certificate of the listener; None for plain HTTP."""
        return self._certificate.tls if self._certificate is not None else None

    def protect(self, app: ASGIApp) -> ASGIApp:
        """Return the application behind the authentication."""
        return Authenticated(app, self._reviews) if self._reviews is not None else app

    def start(self) -> None:
        """Begin to look for new certificates."""
        if self._certificate is not None:
            self._certificate.start()

    def stop(self) -> None:
        """End that."""
        if self._certificate is not None:
            self._certificate.stop()

    def collect(self) -> Iterator[Metric]:
        """Return the current metrics; called by prometheus-client at each scrape."""
        if self._certificate is not None:
            yield from self._certificate.collect()


def _pairs(settings: HostSettings, clock: Clock) -> KeyPairs:
    if settings.tls_cert_file is None or settings.tls_key_file is None:
        return SelfSignedPairs(own_names(), clock.time)
    return FilePairs(Path(settings.tls_cert_file).expanduser(), Path(settings.tls_key_file).expanduser())
