"""The address, TLS settings and credentials of an API server: the result of every way to configure a client."""

from __future__ import annotations

import ipaddress
import logging
import re
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ctrlhost._core import Tls
from ctrlhost.errors import ConfigError
from ctrlhost.kubeconfig.configuration import new_configuration
from ctrlhost.kubeconfig.credentials import ConfigurationHook, Credentials, StaticHeader, basic_authorization
from ctrlhost.kubeconfig.expiry import certificate_expiry
from ctrlhost.kubeconfig.proxy import Proxy, bypasses_proxy, read_proxy

log = logging.getLogger("ctrlhost.client.kubeconfig")


@dataclass(slots=True)
class Certificate:
    """A client certificate and its key, as files that may be replaced at any time, or as PEM strings."""

    cert_file: str | None = None
    key_file: str | None = None
    cert_pem: str | None = field(default=None, repr=False)
    key_pem: str | None = field(default=None, repr=False)

    def stamp(self) -> object:
        """Return a value that changes when the certificate does, None while a file is missing."""
        if self.cert_pem is not None:
            return self.cert_pem
        return _stamp(self.cert_file, self.key_file)

    def replace(self, cert_pem: str, key_pem: str) -> None:
        """Use these PEM strings from now on."""
        self.cert_pem, self.key_pem = cert_pem, key_pem

    def read(self) -> tuple[bytes | None, bytes | None]:
        """Return the certificate and its key as PEM, None for no certificate; OSError if a file is unreadable."""
        if self.cert_pem is not None:
            return _pem(self.cert_pem), _pem(self.key_pem or "")
        if not self.cert_file:
            return None, None
        cert = Path(self.cert_file).read_bytes()
        # The official client takes one file for both.
        return cert, Path(self.key_file).read_bytes() if self.key_file else cert


@dataclass(slots=True)
class Connection:
    """One API server: the official client's `Configuration`, the credentials, and the source of both."""

    configuration: Any
    source: str
    credentials: Credentials = field(default_factory=StaticHeader)
    certificate: Certificate = field(default_factory=Certificate)
    namespace: str = "default"
    #: The user of the kubeconfig; empty without one.
    user: str = ""
    #: Headers of all requests, in which a name may occur several times: whom to impersonate.
    headers: tuple[tuple[str, str], ...] = ()
    #: The path of the Unix socket to connect to instead of the address; "" for none.
    unix_socket: str = ""

    @property
    def url(self) -> str:
        """The server's address, with its scheme in lower case and without a trailing slash."""
        scheme, separator, rest = str(self.configuration.host).rstrip("/").partition("://")
        return f"{scheme.lower()}{separator}{rest}"

    @property
    def tls_changes(self) -> object:
        """A value that changes when an exec plugin returns another certificate."""
        return self.certificate.cert_pem

    def stamp(self) -> object:
        """Return a value that changes when the CA file or the certificate is replaced, None while a file is missing."""
        certificate, ca = self.certificate.stamp(), _stamp(self.configuration.ssl_ca_cert)
        return None if certificate is None or ca is None else (ca, certificate)

    def check(self) -> None:
        """Raise ConfigError, naming the source, unless the address, the proxy and the certificates are usable.

        Log a warning if others can read the token on its way.
        """
        check_address(self.url, self.source)
        self.proxy()
        self.tls()
        if self._is_readable_by_others() and not self._is_anonymous():
            log.warning("%s: %s is plain http, so others can read the token of every request", self.source, self.url)

    def _is_readable_by_others(self) -> bool:
        parts = urlsplit(self.url)
        return parts.scheme == "http" and not self.unix_socket and not _is_loopback(parts.hostname or "")

    def _is_anonymous(self) -> bool:
        return self.credentials.ready() and self.credentials.authorization(0.0) is None

    def proxy(self) -> Proxy | None:
        """Return the proxy of the server, None for a direct connection; ConfigError if its address is invalid."""
        configuration = self.configuration
        if not configuration.proxy or self.unix_socket:
            return None
        source = f"{self.source}, ${variable}" if (variable := self._proxy_variable()) else self.source
        proxy = read_proxy(str(configuration.proxy), configuration.proxy_headers, source)
        return None if bypasses_proxy(self.url, configuration.no_proxy or "") else proxy

    def tls(self) -> Tls | None:
        """Return the settings of TLS with the current CA and client certificate; None for plain http.

        ConfigError names the source and the file or entry that is unusable.
        """
        if not self.url.startswith("https:"):
            return None
        configuration = self.configuration
        ca_place = configuration.ssl_ca_cert or "its certificate-authority-data"
        cert_place = self.certificate.cert_file or "its client-certificate-data"
        try:
            ca = self.ca()
        except OSError as error:
            problem = f"{ca_place} contains no usable CA certificate: {error.strerror}"
            raise ConfigError(f"{self.source}: {problem}") from error
        try:
            cert, key = self.certificate.read()
        except OSError as error:
            problem = f"{cert_place} and its key are unusable: {error.strerror}"
            raise ConfigError(f"{self.source}: {problem}") from error
        try:
            return Tls(
                ca=ca,
                cert=cert,
                key=key,
                verify=bool(configuration.verify_ssl),
                check_name=configuration.assert_hostname is not False,
                server_name=configuration.tls_server_name or None,
            )
        except ValueError as error:
            part, problem = error.args
            what = {
                "ca": f"{ca_place} contains no usable CA certificate",
                "server_name": f"its tls-server-name {configuration.tls_server_name!r} is invalid",
                "key": f"{self.certificate.key_file or 'its client-key-data'} is unusable",
            }.get(part, f"{cert_place} and its key are unusable")
            raise ConfigError(f"{self.source}: {what}: {problem}") from error

    def account(self) -> str:
        """Return who sends the requests: the source, the user, and when the credentials expire or expired."""
        parts = [self.source, f"user `{self.user}`" if self.user else ""]
        if (variable := self._proxy_variable()) and self.proxy() is not None:
            parts.append(f"through the proxy of ${variable}")
        for what, moment in (("token", self.credentials.expiry()), ("certificate", self.certificate_expiry())):
            if moment is not None:
                verb = "expired" if moment <= time.time() else "expires"
                parts.append(f"whose {what} {verb} at {datetime.fromtimestamp(moment, UTC):%FT%TZ}")
        return ", ".join(filter(None, parts))

    def _proxy_variable(self) -> str:
        """Return the variable of the environment that names the proxy; empty if none does."""
        # The official client class has no such field.
        return str(getattr(self.configuration, "proxy_variable", ""))

    def certificate_expiry(self) -> float | None:
        """Return when the client certificate expires, in seconds since the epoch; None without a readable one."""
        try:
            cert, _ = self.certificate.read()
        except OSError:
            return None
        return certificate_expiry(cert) if cert is not None else None

    def ca(self) -> bytes | None:
        """Return the CA bundle as PEM, None for the system's; OSError if its file is unreadable."""
        configuration = self.configuration
        if configuration.ssl_ca_cert:
            return Path(configuration.ssl_ca_cert).read_bytes()
        data = configuration.ca_cert_data
        return data if data is None or isinstance(data, bytes) else _pem(data)


def _stamp(*files: str | None) -> object:
    """Return what changes when one of the files is replaced; None while one is missing."""
    try:
        stats = [Path(file).stat() for file in files if file]
    except OSError:
        return None
    return tuple((stat.st_ino, stat.st_mtime_ns, stat.st_size) for stat in stats)


def _pem(text: str) -> bytes:
    """Return a text of which only comments have characters other than ASCII."""
    return text.encode("ascii", "replace")


def check_address(url: str, source: str) -> None:
    """Raise ConfigError, naming the source, unless the address is valid for a server."""
    if not _is_url(url, ("http", "https")):
        raise ConfigError(f"{source}: server address {without_secrets(url)!r} is not an http or https URL")
    parts = urlsplit(url)
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise ConfigError(f"{source}: the server's address must only have a host, a port and a path")


def without_secrets(url: str) -> str:
    """Return an address without user, password and parameters, also if it is none."""
    scheme, separator, rest = url.rpartition("://")
    return scheme + separator + re.split(r"[?#]", rest.rpartition("@")[2], maxsplit=1)[0]


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _is_url(text: str, schemes: tuple[str, ...]) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in schemes and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


def from_url(url: str, token: str | None, ca: str | None, verify: bool) -> Connection:
    """Return the connection to the server at `url`; `ca` is PEM or the path of a PEM file."""
    source = f"the URL {without_secrets(url)}"
    check_address(url.rstrip("/"), source)
    inline = ca is not None and "-----BEGIN" in ca
    configuration = new_configuration(
        host=url.rstrip("/"), ssl_ca_cert=None if inline else ca, ca_cert_data=ca if inline else None, verify_ssl=verify
    )
    return Connection(configuration, source, StaticHeader(f"Bearer {token}" if token else None))


def from_unix_socket(path: str) -> Connection:
    """Return the connection to a server on a Unix socket, without credentials."""
    configuration = new_configuration(host="http://localhost")
    # The environment's proxy is for addresses.
    configuration.proxy = None
    return Connection(configuration, f"the socket {path}", unix_socket=path)


def from_configuration(configuration: Any) -> Connection:
    """Return the connection of a loaded `kubernetes.client.Configuration`, with its hook that refreshes tokens."""
    credentials: Credentials = ConfigurationHook(configuration)
    if configuration.username and not configuration.api_key:
        credentials = basic_authorization(configuration.username, configuration.password or "")
    certificate = Certificate(configuration.cert_file, configuration.key_file)
    return Connection(configuration, "the configuration object", credentials, certificate)
