"""The certificate authority of a host's webhooks, which signs the certificates of its replicas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ctrlhost._core import ServerTls, certificate_authority, signed_certificate
from ctrlhost.kubeconfig.expiry import certificate_validity
from ctrlhost.server.key_pairs import LIFETIME, RENEW_BEFORE, SKEW, KeyPair

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

#: The names of this machine, such as for a port of a pod that is forwarded.
LOOPBACK = ("localhost", "127.0.0.1", "::1")
#: The name of the Secret, and the subject of the certificates in it.
NAME = "ctrlhost-webhook-ca"
_DAY = 24 * 3600
#: Seconds for which an authority is valid; another one replaces it after two thirds of them.
AUTHORITY_LIFETIME = 3650 * _DAY
#: Seconds for which clients trust a new authority before it signs, and trust the one before it after that.
OVERLAP = _DAY
#: The entries of the Secret: the newest authority, and the one before it.
_NEWEST, _PREVIOUS = ("tls.crt", "tls.key"), ("previous.crt", "previous.key")


@dataclass(frozen=True, slots=True)
class Authority:
    """The newest authority, and the one before it, if there was any."""

    newest: KeyPair
    previous: KeyPair | None = None

    @classmethod
    def new(cls, now: float, previous: KeyPair | None = None) -> Authority:
        """Create an authority that replaces `previous`; `now` is in seconds since the epoch, here and below."""
        certificate, key = certificate_authority(NAME, int(now) - SKEW, int(now) + AUTHORITY_LIFETIME)
        return cls(KeyPair(certificate.encode(), key.encode()), previous)

    @classmethod
    def read(cls, data: Mapping[str, bytes]) -> Authority:
        """Read the entries of the Secret; ValueError says what is wrong with them."""
        newest = _read(data, *_NEWEST)
        if newest is None:
            raise ValueError(f"`{_NEWEST[0]}` and `{_NEWEST[1]}` are missing")
        return cls(newest, _read(data, *_PREVIOUS))

    def entries(self) -> dict[str, bytes]:
        """Return the entries of the Secret."""
        entries = dict(zip(_NEWEST, self.newest, strict=True))
        return entries if self.previous is None else entries | dict(zip(_PREVIOUS, self.previous, strict=True))

    def renewed(self, now: float) -> Authority:
        """Return a new authority beside the one that signs now."""
        return Authority.new(now, self.signing(now))

    @property
    def created(self) -> float:
        """When the newest authority was created, in seconds since the epoch."""
        return _validity(self.newest)[0] + SKEW

    @property
    def due(self) -> float:
        """When the newest authority needs a successor."""
        start, end = _validity(self.newest)
        return end - (end - start) / 3

    @property
    def settled(self) -> float:
        """When the authority before the newest one is no longer trusted; until then it cannot be renewed again."""
        return self.created + (2 * OVERLAP if self.previous is not None else 0)

    def signing(self, now: float) -> KeyPair:
        """Return the authority that signs now."""
        return self.newest if self.previous is None or now >= self.created + OVERLAP else self.previous

    def bundle(self, now: float) -> bytes:
        """Return the certificates that clients should trust now, as PEM."""
        trusted = [self.newest] if self.previous is None or now >= self.settled else [self.newest, self.previous]
        return b"".join(pair.certificate.strip() + b"\n" for pair in trusted)

    def next_change(self, now: float) -> float:
        """Return when the bundle changes, or a successor is due, next."""
        return self.settled if now < self.settled else self.due


class AuthorityPairs:
    """Certificates that the authority signs, of which each is replaced before it expires, or when another one signs."""

    def __init__(self, authority: Callable[[], Authority], names: Iterable[str], time: Callable[[], float]) -> None:
        """Certify these host names and addresses; `time` returns seconds since the epoch."""
        self._authority = authority
        self._names = list(names)
        self._time = time
        self._issuer: KeyPair | None = None
        self._made_at = 0.0

    def __str__(self) -> str:
        """Return the names."""
        return f"the certificate of {', '.join(self._names)}"

    def next(self) -> KeyPair | None:
        """Return a new pair if the last one is about to expire, or another authority signs; ValueError."""
        now = self._time()
        issuer = self._authority().signing(now)
        if issuer == self._issuer and 0 <= now - self._made_at < LIFETIME - RENEW_BEFORE:
            return None
        times = int(now) - SKEW, int(now) + LIFETIME
        certificate, key = signed_certificate(self._names, *times, NAME, issuer.key.decode())
        self._issuer, self._made_at = issuer, now
        return KeyPair(certificate.encode(), key.encode())


def service_names(service: str, namespace: str) -> Iterator[str]:
    """Yield the names of a Service."""
    yield service
    yield f"{service}.{namespace}"
    yield f"{service}.{namespace}.svc"
    yield f"{service}.{namespace}.svc.cluster.local"


def _read(data: Mapping[str, bytes], certificate: str, key: str) -> KeyPair | None:
    """Return a pair of entries, None if both are missing; ValueError for anything but a certificate with its key."""
    if not data.get(certificate) and not data.get(key):
        return None
    pair = KeyPair(data.get(certificate, b""), data.get(key, b""))
    try:
        ServerTls(*pair)
        signed_certificate(["localhost"], 0, 1, NAME, pair.key.decode())
        _validity(pair)
    except ValueError as error:
        reason = f"{certificate} and {key}: they are no certificate with its ECDSA key, both as PEM"
        raise ValueError(reason) from error
    return pair


def _validity(pair: KeyPair) -> tuple[float, float]:
    validity = certificate_validity(pair.certificate)
    if validity is None:
        raise ValueError("unreadable certificate")
    return validity
