"""The address, TLS settings and credentials of an API server: the result of every way to configure a client."""

from __future__ import annotations

import ssl
import tempfile
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ctrlhost.errors import ConfigError
from ctrlhost.kubeconfig.configuration import new_configuration
from ctrlhost.kubeconfig.credentials import ConfigurationHook, Credentials, StaticHeader, basic_authorization

_SOCKS = ("socks4", "socks4a", "socks5", "socks5h")


@dataclass(slots=True)
class Certificate:
    """A client certificate and its key, as files that may be replaced at any time, or as PEM strings."""

    cert_file: str | None = None
    key_file: str | None = None
    cert_pem: str | None = None
    key_pem: str | None = None

    def stamp(self) -> object:
        """Return a value that changes when the certificate does, None while a file is missing."""
        if self.cert_pem is not None:
            return self.cert_pem
        try:
            return tuple(Path(name).stat().st_mtime_ns for name in (self.cert_file, self.key_file) if name)
        except OSError:
            return None

    def replace(self, cert_pem: str, key_pem: str) -> None:
        """Use these PEM strings from now on."""
        self.cert_pem, self.key_pem = cert_pem, key_pem

    def load_into(self, context: ssl.SSLContext) -> None:
        """Load the certificate into a TLS context."""
        if self.cert_pem is None:
            if self.cert_file:
                context.load_cert_chain(self.cert_file, self.key_file)
            return
        # OpenSSL reads keys from files only; no other user can read the folder, and it is removed at once.
        with tempfile.TemporaryDirectory(prefix="ctrlhost-") as folder:
            cert, key = Path(folder, "cert.pem"), Path(folder, "key.pem")
            cert.write_text(self.cert_pem, encoding="ascii")
            key.write_text(self.key_pem or "", encoding="ascii")
            context.load_cert_chain(cert, key)


@dataclass(slots=True)
class Connection:
    """One API server: the official client's `Configuration`, the credentials, and the source of both."""

    configuration: Any
    source: str
    credentials: Credentials = field(default_factory=StaticHeader)
    certificate: Certificate = field(default_factory=Certificate)
    namespace: str = "default"
    #: Headers of all requests, in which a name may occur several times: whom to impersonate.
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def url(self) -> str:
        """The server's address, without a trailing slash."""
        return str(self.configuration.host).rstrip("/")

    def stamp(self) -> object:
        """Return a value that changes when the CA file or the certificate is replaced, None while a file is missing."""
        certificate = self.certificate.stamp()
        try:
            ca = Path(self.configuration.ssl_ca_cert).stat().st_mtime_ns if self.configuration.ssl_ca_cert else 0
        except OSError:
            return None
        return None if certificate is None else (ca, certificate)

    def check(self) -> None:
        """Raise ConfigError, naming the source, unless the address and the certificates are usable."""
        check_address(self.url, self.source)
        proxy = self.configuration.proxy
        if proxy:
            self._check_proxy(str(proxy))
        self.tls_context()

    def _check_proxy(self, proxy: str) -> None:
        if "://" not in proxy:
            # As in environment variables.
            self.configuration.proxy = proxy = f"http://{proxy}"
        if not _is_url(proxy, ("http", "https", *_SOCKS)):
            raise ConfigError(f"{self.source}: the proxy's address {proxy!r} is not an http, https or socks5 URL")
        if proxy.startswith("socks") and find_spec("socks") is None:
            raise ConfigError(
                f"{self.source}: the proxy {proxy} requires a missing package", hint="pip install PySocks"
            )

    def tls_context(self) -> ssl.SSLContext | None:
        """Return a TLS context with the current CA and client certificate; None for plain http."""
        if not self.url.startswith("https:"):
            return None
        configuration, pem = self.configuration, self.configuration.ca_cert_data
        # ssl refuses a text with other characters, which only comments have.
        data = None if pem is None else pem.encode("ascii", "replace").decode("ascii")
        try:
            context = ssl.create_default_context(cafile=configuration.ssl_ca_cert, cadata=data)
        except (ssl.SSLError, OSError, ValueError) as error:
            place = configuration.ssl_ca_cert or "its certificate-authority-data"
            raise ConfigError(f"{self.source}: {place} contains no usable CA certificate: {_reason(error)}") from error
        if not configuration.verify_ssl:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif configuration.assert_hostname is False:
            context.check_hostname = False
        try:
            self.certificate.load_into(context)
        except (ssl.SSLError, OSError, ValueError) as error:
            place = self.certificate.cert_file or "its client-certificate-data"
            raise ConfigError(f"{self.source}: {place} and its key are unusable: {_reason(error)}") from error
        return context


def check_address(url: str, source: str) -> None:
    """Raise ConfigError, naming the source, unless the address is valid for a server."""
    if not _is_url(url, ("http", "https")):
        raise ConfigError(f"{source}: server address {url!r} is not an http or https URL")
    parts = urlsplit(url)
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise ConfigError(f"{source}: the server's address must only have a host, a port and a path")


def _is_url(text: str, schemes: tuple[str, ...]) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in schemes and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or getattr(error, "reason", None) or str(error)


def from_url(url: str, token: str | None, ca: str | None, verify: bool) -> Connection:
    """Return the connection to the server at `url`; `ca` is PEM or the path of a PEM file."""
    source = f"the URL {url}"
    check_address(url.rstrip("/"), source)
    inline = ca is not None and "-----BEGIN" in ca
    configuration = new_configuration(
        host=url.rstrip("/"), ssl_ca_cert=None if inline else ca, ca_cert_data=ca if inline else None, verify_ssl=verify
    )
    return Connection(configuration, source, StaticHeader(f"Bearer {token}" if token else None))


def from_configuration(configuration: Any) -> Connection:
    """Return the connection of a loaded `kubernetes.client.Configuration`, with its hook that refreshes tokens."""
    credentials: Credentials = ConfigurationHook(configuration)
    if configuration.username and not configuration.api_key:
        credentials = basic_authorization(configuration.username, configuration.password or "")
    certificate = Certificate(configuration.cert_file, configuration.key_file)
    return Connection(configuration, "the configuration object", credentials, certificate)
