"""Where the certificate of a TLS listener and its key come from: files, or the core, which makes self-signed ones."""

from __future__ import annotations

import contextlib
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ctrlhost._core import self_signed_certificate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_DAY = 24 * 3600
#: Seconds for which a self-signed certificate is valid, and before its end at which another one replaces it.
LIFETIME, RENEW_BEFORE = 90 * _DAY, 30 * _DAY
#: Seconds by which the clock of a client may be slow.
SKEW = 3600
#: Addresses that lead nowhere (RFC 5737, RFC 3849): the system only chooses the source address to reach them.
_NOWHERE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))

#: The name of a pod: its Deployment, the ReplicaSet's hash, and five characters.
_POD = re.compile(r"(?P<deployment>.+)-[bcdfghjklmnpqrstvwxz0-9]{1,10}-[bcdfghjklmnpqrstvwxz0-9]{5}")
#: What `ctrlhost manifests` adds to the Deployment's name for the Service of the metrics.
METRICS_SUFFIX = "-metrics"
NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class KeyPair(NamedTuple):
    """A certificate, with the chain that follows it, and its key, both as PEM."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        """Return a text without the key."""
        return "KeyPair()"


class KeyPairs(Protocol):
    """A source of certificates. For use by one thread."""

    def next(self) -> KeyPair | None:
        """Return the pair to use from now on, None if it has not changed since the last call; OSError."""


class FilePairs:
    """The pair in two PEM files, which another program may replace at any time."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Name the files."""
        self._files = (certificate, key)
        self._stamp: object = None

    def __str__(self) -> str:
        """Return the names of the files."""
        return " and ".join(map(str, self._files))

    def next(self) -> KeyPair | None:
        """Return the files' content if they have changed, also if it is no valid pair; OSError for a missing file."""
        last, self._stamp = self._stamp, None
        stamp = self._stamps()
        pair = None if stamp == last else KeyPair(*(file.read_bytes() for file in self._files))
        if pair is not None and self._stamps() != stamp:
            # Another program is replacing them; the next look finds the rest.
            return None
        self._stamp = stamp
        return pair

    def _stamps(self) -> object:
        return [
            (stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size) for stat in (file.stat() for file in self._files)
        ]


class SelfSignedPairs:
    """Self-signed certificates, of which each is replaced before it expires. Nothing is written to a file."""

    def __init__(self, names: Iterable[str], time: Callable[[], float]) -> None:
        """Certify these host names and addresses; `time` returns seconds since the epoch."""
        self._names = list(names)
        self._time = time
        self._made_at: float | None = None

    def __str__(self) -> str:
        """Return the names."""
        return f"the self-signed certificate of {', '.join(self._names)}"

    def next(self) -> KeyPair | None:
        """Return a new pair if the last one is about to expire, or was made in the future by a clock that was wrong."""
        now = self._time()
        if self._made_at is not None and 0 <= now - self._made_at < LIFETIME - RENEW_BEFORE:
            return None
        certificate, key = self_signed_certificate(self._names, int(now) - SKEW, int(now) + LIFETIME)
        self._made_at = now
        return KeyPair(certificate.encode(), key.encode())


def own_names() -> list[str]:
    """Return what this machine is called; for a pod of a Deployment also the Service of its metrics."""
    host = socket.gethostname()
    names = [host, "localhost", "127.0.0.1", "::1", *_own_addresses()]
    pod = _POD.fullmatch(host)
    with contextlib.suppress(OSError):
        namespace = NAMESPACE.read_text(encoding="ascii").strip()
        if pod is not None:
            service = f"{pod['deployment'].removesuffix(METRICS_SUFFIX)}{METRICS_SUFFIX}.{namespace}.svc"
            names += [service, f"{service}.cluster.local"]
    return list(dict.fromkeys(names))


def _own_addresses() -> Iterator[str]:
    """Return the addresses of this machine in its network. Nothing is sent, and no name server is asked."""
    for family, nowhere in _NOWHERE:
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as asking:
            asking.connect((nowhere, 9))
            yield asking.getsockname()[0]
