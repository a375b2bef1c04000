"""The daemons' user and password: read from a Secret, validated, with a digest for the pods started with them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import ctrlhost
from ctrlhost_bitcoin.model import Rejected
from ctrlhost_bitcoin.rpc.client import Credentials

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost import Clock, Context, Object

SECRET = ("v1", "Secret")
_USER_KEY, _PASSWORD_KEY = "BC_RPC_USER", "BC_RPC_PASSWORD"
#: The fields of a Secret that are cached besides its metadata.
READS = (f"data.{_USER_KEY}", f"data.{_PASSWORD_KEY}")
#: The most seconds that a fetched Secret is used for; a rotated one is seen at most so much later than a resync.
_MAX_AGE = 4.0
#: The image's own credentials, which are publicly known.
DEFAULT = Credentials("user", "password")
DEFAULT_DIGEST = "default"
_DIGITS = 16
_MAX_DIGESTS = 4096


@dataclass(frozen=True, slots=True)
class Usable:
    """Credentials, their digest on a pod, and the condition's reason and message."""

    credentials: Credentials
    digest: str
    reason: str
    message: str


class CredentialReader:
    """Reads the credentials of networks, from any thread; computes slow digests once per version of a Secret."""

    def __init__(self, find: Callable[[Context, str, str], Object | None]) -> None:
        """Read Secrets through `find`, by namespace and name."""
        self._find = find
        self._digests: OrderedDict[tuple[str, str], str] = OrderedDict()

    def read(self, ctx: Context, namespace: str, secret: str) -> Usable:
        """Return the credentials in a Secret, the well-known ones if `secret` is empty; `Rejected` if unusable."""
        if not secret:
            message = "no secret set: using the publicly known default credentials"
            return Usable(DEFAULT, DEFAULT_DIGEST, "DefaultCredentials", message)
        data = self._find(ctx, namespace, secret)
        if data is None:
            raise Rejected("SecretNotFound", f"there is no secret {secret}")
        credentials = Credentials(_value(secret, data, _USER_KEY), _value(secret, data, _PASSWORD_KEY))
        return Usable(credentials, self._digest(data, credentials), "FromSecret", f"using secret {secret}")

    def _digest(self, secret: Object, credentials: Credentials) -> str:
        version = (secret.uid, secret.resource_version)
        known = self._digests.get(version)
        if known is None:
            known = self._digests[version] = digest(secret.uid, credentials)
            while len(self._digests) > _MAX_DIGESTS:
                self._digests.popitem(last=False)
        return known


def digest(uid: str, credentials: Credentials) -> str:
    """Return a digest of the credentials; slow on purpose, since pods are easier to read than Secrets."""
    text = f"{credentials.user}\0{credentials.password}".encode()
    return hashlib.scrypt(text, salt=uid.encode(), n=2**14, r=8, p=1, maxmem=2**26).hex()[:_DIGITS]


def _value(name: str, secret: Object, key: str) -> str:
    """Return the value of a key; `Rejected` if a daemon cannot be started or called with it."""

    def invalid(what: str) -> Rejected:
        return Rejected("SecretInvalid", f"secret {name}: the key {key} {what}")

    encoded = secret.get_path("data", key)
    if encoded is None:
        raise invalid("is missing")
    try:
        text = base64.b64decode(encoded, validate=True).decode()
    except (binascii.Error, TypeError, ValueError):
        raise invalid("is not UTF-8 text") from None
    if not text:
        raise invalid("is empty")
    if any(ord(character) < 0x20 or 0x7F <= ord(character) < 0xA0 for character in text):
        # Usually a trailing newline from `echo | base64`.
        raise invalid("has a control character, such as a newline")
    if ":" in text:
        raise invalid("has a colon, which prevents a daemon from starting")
    return text


def cached_secret(ctx: Context, namespace: str, name: str) -> Object | None:
    """Return a Secret from the cache, None if there is none."""
    return ctx.cache(SECRET).get(name, namespace)


class PolledSecrets:
    """Secrets from the server, kept for a few seconds, and for less than `resync`; used by all workers."""

    def __init__(self, clock: Clock, resync: float) -> None:
        """Start with an empty cache; `resync` 0 is none."""
        self._clock, self._max_age = clock, min(_MAX_AGE, resync / 2 or _MAX_AGE)
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], tuple[float, Object | Rejected | None]] = {}

    def __call__(self, ctx: Context, namespace: str, name: str) -> Object | None:
        """Return a Secret, None if there is none; `Rejected` where it may not be read."""
        key, now = (namespace, name), self._clock.now()
        with self._lock:
            self._known = {item: known for item, known in self._known.items() if now - known[0] < self._max_age}
            known = self._known.get(key)
        if known is None:
            answer = _fetched(ctx, namespace, name)
            with self._lock:
                known = self._known.setdefault(key, (now, answer))
        if isinstance(known[1], Rejected):
            raise known[1]
        return known[1]


def _fetched(ctx: Context, namespace: str, name: str) -> Object | Rejected | None:
    try:
        secret = ctx.client.find(*SECRET, name, namespace)
    except ctrlhost.Forbidden:
        return Rejected("Forbidden", f"not allowed to read secret {name}")
    return None if secret is None else ctrlhost.Object(secret)


class History:
    """The current credentials of a network, and the previous ones, which pods not yet restarted still have.

    Used by the one worker that has the network.
    """

    def __init__(self) -> None:
        """Start without credentials."""
        self._current: tuple[str, Credentials] | None = None
        self._previous: tuple[str, Credentials] | None = None
        #: The number of changes; a new one is a reason to call nodes that refused the old credentials.
        self.revision = 0

    def use(self, usable: Usable) -> None:
        """Record the current credentials."""
        current = (usable.digest, usable.credentials)
        if self._current == current:
            return
        if self._current is not None and self._current[1] != usable.credentials:
            self._previous = self._current
        self._current = current
        self.revision += 1

    def candidates(self, digest: str | None) -> tuple[Credentials, ...]:
        """Return the credentials for a pod with that digest, in the order in which to try them."""
        pairs = [pair for pair in (self._current, self._previous) if pair is not None]
        pairs.sort(key=lambda pair: pair[0] != digest)
        return tuple(dict.fromkeys(credentials for _, credentials in pairs))
