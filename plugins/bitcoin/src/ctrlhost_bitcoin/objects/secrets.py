"""Reading Secrets: from the cache, or from the server where the plugin may not list them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import ctrlhost
from ctrlhost_bitcoin.objects.names import PASSWORD_KEY, USER_KEY
from ctrlhost_bitcoin.objects.spec import Rejected

if TYPE_CHECKING:
    from ctrlhost import Clock, Context, Object

SECRET = ("v1", "Secret")
#: The fields of a Secret that are cached besides its metadata.
READS = (f"data.{USER_KEY}", f"data.{PASSWORD_KEY}")
#: The most seconds that a fetched Secret is used for; a rotated one is seen at most so much later than a resync.
_MAX_AGE = 4.0


def watched_secret(ctx: Context, namespace: str, name: str) -> Object | None:
    """Return a Secret from the cache, or else from the server; None if there is none.

    A Secret created together with its network may not have reached the cache yet.
    """
    cached = ctx.lister(*SECRET).get(name, namespace)
    if cached is not None:
        return cached
    try:
        return _fetch(ctx, namespace, name)
    except ctrlhost.Forbidden:
        return None


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
            self._known = {one: known for one, known in self._known.items() if now - known[0] < self._max_age}
            known = self._known.get(key)
        if known is None:
            found: Object | Rejected | None
            try:
                found = _fetch(ctx, namespace, name)
            except ctrlhost.Forbidden:
                found = Rejected("Forbidden", f"not allowed to read secret {name}")
            with self._lock:
                known = self._known.setdefault(key, (now, found))
        if isinstance(known[1], Rejected):
            raise known[1]
        return known[1]


def _fetch(ctx: Context, namespace: str, name: str) -> Object | None:
    found = ctx.client.find(*SECRET, name, namespace)
    return None if found is None else ctrlhost.Object(found)
