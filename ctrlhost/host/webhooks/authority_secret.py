"""The Secret with the authority of webhooks, which the replicas of a host share."""

from __future__ import annotations

import base64
import binascii
import logging
from typing import TYPE_CHECKING, Any

from ctrlhost.errors import AlreadyExists, Conflict, CtrlhostError
from ctrlhost.server.authority import NAME, Authority

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ctrlhost.client import Client

log = logging.getLogger("ctrlhost.host")

_SECRET = ("v1", "Secret")
#: Attempts against others that write it at the same time.
_TRIES = 10


class InvalidAuthority(CtrlhostError):
    """The Secret has something else than an authority."""


class AuthoritySecret:
    """Creates and renews the authority, and reads what another replica wrote. For use by one thread."""

    def __init__(self, client: Client, namespace: str, time: Callable[[], float]) -> None:
        """Prepare; `time` returns seconds since the epoch."""
        self._client = client
        self._namespace = namespace
        self._time = time
        #: The authority that was read last; None before.
        self.authority: Authority | None = None

    def read(self) -> Authority:
        """Return the authority of the Secret, which is created if it does not exist, and renewed when that is due.

        InvalidAuthority for a Secret with anything else, which stays as it is; ApiError and TransportError.
        """
        left = _TRIES
        while True:
            left -= 1
            try:
                self.authority = authority = self._current()
            except (AlreadyExists, Conflict):
                if not left:
                    raise
            else:
                return authority

    def rotate(self) -> Authority:
        """Renew the authority now; InvalidAuthority if there is none, or if it is replacing the one before it."""
        now, secret = self._time(), self._find()
        if secret is None:
            hint = "hosts with webhooks create it; name their namespace"
            raise InvalidAuthority(f"Secret {self._namespace}/{NAME} does not exist", hint=hint)
        authority = self._read(secret)
        if now < authority.settled:
            hours = (authority.settled - now) / 3600
            raise InvalidAuthority(
                f"Secret {self._namespace}/{NAME}: the last new authority is still replacing the one before it",
                hint=f"try again in {hours:.0f} h",
            )
        return self._replace(secret, authority.renewed(now))

    def _current(self) -> Authority:
        now, secret = self._time(), self._find()
        if secret is None:
            # Clients still trust the one that was in the Secret.
            authority = Authority.new(now, self.authority.signing(now) if self.authority is not None else None)
            metadata = {"name": NAME, "namespace": self._namespace}
            kind = dict(zip(("apiVersion", "kind"), _SECRET, strict=True))
            self._client.create({**kind, "metadata": metadata, "data": _encoded(authority)})
            log.info("created the authority of the webhooks in Secret %s/%s", self._namespace, NAME)
            return authority
        authority = self._read(secret)
        return (
            self._replace(secret, authority.renewed(now)) if now >= max(authority.due, authority.settled) else authority
        )

    def _find(self) -> dict[str, Any] | None:
        return self._client.find(*_SECRET, NAME, self._namespace)

    def _read(self, secret: Mapping[str, Any]) -> Authority:
        try:
            return Authority.read({key: base64.b64decode(text) for key, text in (secret.get("data") or {}).items()})
        except (ValueError, binascii.Error) as error:
            raise InvalidAuthority(
                f"Secret {self._namespace}/{NAME}: {error}", hint="delete it, and a host creates another one"
            ) from error

    def _replace(self, secret: dict[str, Any], authority: Authority) -> Authority:
        # With the resourceVersion of what was read.
        self._client.replace({**secret, "data": _encoded(authority)})
        log.info("another authority of the webhooks is in Secret %s/%s", self._namespace, NAME)
        return authority


def _encoded(authority: Authority) -> dict[str, str]:
    return {key: base64.b64encode(entry).decode() for key, entry in authority.entries().items()}
