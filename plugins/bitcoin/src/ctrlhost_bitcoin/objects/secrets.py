"""Where Secrets are read: from the cache, or from the server where the plugin may not list them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Protocol

import ctrlhost
from ctrlhost.cache import Object
from ctrlhost_bitcoin.objects.credentials import Unusable
from ctrlhost_bitcoin.objects.names import PASSWORD_KEY, USER_KEY

if TYPE_CHECKING:
    from ctrlhost import Clock

SECRET = ("v1", "Secret")
#: All that is cached of a Secret besides its metadata.
READS = (f"data.{USER_KEY}", f"data.{PASSWORD_KEY}")
#: How long an answer is good for, in seconds.
KEPT_FOR = 30.0


class SecretSource(Protocol):
    """Gives Secrets, from any thread."""

    def find(self, ctx: Any, namespace: str, name: str) -> Object | None:
        """Give one, None where there is none; `Unusable` where it may not be read."""
        ...


class WatchedSecrets:
    """Secrets from the cache of the reconcile's controller."""

    def find(self, ctx: ctrlhost.Context, namespace: str, name: str) -> Object | None:
        """Give one from the cache, where it is not in there from the server.

        One that was made together with its network may not have come through the watch yet.
        """
        cached = ctx.lister(*SECRET).get(name, namespace)
        if cached is not None:
            return cached
        try:
            found = ctx.client.find(*SECRET, name, namespace)
        except ctrlhost.Forbidden:
            return None
        return None if found is None else Object(found)


class AskedSecrets:
    """Secrets from the server, each asked for every 30 s at most."""

    def __init__(self, clock: Clock) -> None:
        """Have asked for nothing yet."""
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], tuple[float, Object | Unusable | None]] = {}

    def find(self, ctx: ctrlhost.Context, namespace: str, name: str) -> Object | None:
        """Give one as it was within the last 30 s."""
        key, now = (namespace, name), self._clock.now()
        with self._lock:
            self._known = {one: known for one, known in self._known.items() if now - known[0] < KEPT_FOR}
            known = self._known.get(key)
        found = known[1] if known is not None else self._ask(ctx, namespace, name)
        with self._lock:
            self._known.setdefault(key, (now, found))
        if isinstance(found, Unusable):
            raise found
        return found

    def _ask(self, ctx: ctrlhost.Context, namespace: str, name: str) -> Object | Unusable | None:
        try:
            found = ctx.client.find(*SECRET, name, namespace)
        except ctrlhost.Forbidden:
            return Unusable("Forbidden", f"not allowed to read secret {name}")
        return None if found is None else Object(found)
