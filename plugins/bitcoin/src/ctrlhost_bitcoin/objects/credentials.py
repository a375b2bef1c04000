"""The daemons' user and password: from a Secret, checked, with a digest that goes onto the pods made with them."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctrlhost_bitcoin.objects.names import PASSWORD_KEY, USER_KEY
from ctrlhost_bitcoin.rpc.client import Credentials

if TYPE_CHECKING:
    from ctrlhost.cache import Object
    from ctrlhost_bitcoin.objects.secrets import SecretSource

#: What the image is configured with unless it is told otherwise; everybody knows it.
DEFAULT = Credentials("user", "password")
DEFAULT_DIGEST = "default"
_DIGITS = 16
_REMEMBERED = 4096


class Unusable(Exception):
    """There are no credentials to use; `reason` is the condition's. The message never holds a value."""

    def __init__(self, reason: str, message: str) -> None:
        """Keep both."""
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Usable:
    """Credentials, what stands for them on a pod, and the condition's reason and message."""

    credentials: Credentials
    digest: str
    reason: str
    message: str


class CredentialReader:
    """Gives the credentials of networks, from any thread; slow digests are computed once per version of a Secret."""

    def __init__(self, secrets: SecretSource) -> None:
        """Read from there."""
        self._secrets = secrets
        self._digests: OrderedDict[tuple[str, str], str] = OrderedDict()

    def read(self, ctx: Any, namespace: str, secret: str) -> Usable:
        """Give the credentials in a Secret, the well-known ones where `secret` is empty; else raises `Unusable`."""
        if not secret:
            message = "no secret set: using the publicly known default credentials"
            return Usable(DEFAULT, DEFAULT_DIGEST, "DefaultCredentials", message)
        found = self._secrets.find(ctx, namespace, secret)
        if found is None:
            raise Unusable("SecretNotFound", f"there is no secret {secret}")
        credentials = parse(secret, found)
        return Usable(credentials, self._digest(found, credentials), "FromSecret", f"using secret {secret}")

    def _digest(self, secret: Object, credentials: Credentials) -> str:
        version = (secret.uid, secret.resource_version)
        known = self._digests.get(version)
        if known is None:
            known = self._digests[version] = digest(secret.uid, credentials)
            while len(self._digests) > _REMEMBERED:
                self._digests.popitem(last=False)
        return known


def parse(name: str, secret: Object) -> Credentials:
    """Read a Secret's two keys; `Unusable` for what a daemon could not be started or called with."""
    return Credentials(_value(name, secret, USER_KEY), _value(name, secret, PASSWORD_KEY))


def digest(uid: str, credentials: Credentials) -> str:
    """Give what may be shown in place of the credentials; slow on purpose, as pods are easier to read than Secrets."""
    text = f"{credentials.user}\0{credentials.password}".encode()
    return hashlib.scrypt(text, salt=uid.encode(), n=2**14, r=8, p=1, maxmem=2**26).hex()[:_DIGITS]


def _value(name: str, secret: Object, key: str) -> str:
    def wrong(what: str) -> Unusable:
        return Unusable("SecretInvalid", f"secret {name}: the key {key} {what}")

    encoded = secret.get_path("data", key)
    if encoded is None:
        raise wrong("is missing")
    try:
        text = base64.b64decode(encoded, validate=True).decode()
    except (binascii.Error, TypeError, ValueError):
        raise wrong("is not UTF-8 text") from None
    if not text:
        raise wrong("is empty")
    if any(ord(each) < 0x20 or 0x7F <= ord(each) < 0xA0 for each in text):
        # Mostly a newline at the end, which came from `echo | base64`.
        raise wrong("has a control character, such as a newline, in it")
    if ":" in text:
        raise wrong("has a colon in it, with which a daemon does not start")
    return text


class History:
    """The credentials of one network: the present ones, and those before, which pods not yet restarted still have.

    Used by the one worker that has the network.
    """

    def __init__(self) -> None:
        """Know none yet."""
        self._current: tuple[str, Credentials] | None = None
        self._previous: tuple[str, Credentials] | None = None
        #: Counts the changes: a new one is a reason to call again who refused the old ones.
        self.revision = 0

    def use(self, usable: Usable) -> None:
        """Take note of the present ones."""
        present = (usable.digest, usable.credentials)
        if self._current == present:
            return
        if self._current is not None and self._current[1] != usable.credentials:
            self._previous = self._current
        self._current = present
        self.revision += 1

    def candidates(self, digest: str | None) -> tuple[Credentials, ...]:
        """Give what to call a pod with that digest with, in the order in which to try."""
        pairs = [pair for pair in (self._current, self._previous) if pair is not None]
        pairs.sort(key=lambda pair: pair[0] != digest)
        return tuple(dict.fromkeys(credentials for _, credentials in pairs))
