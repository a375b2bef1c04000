"""Prepared data: byte strings that the status pages serve, made anew only when what they show has changed."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    import ctrlhost

LONGEST = 8 * 1024 * 1024


class Prepared(NamedTuple):
    """What a page serves; `prepared_at` is in seconds since the epoch. Empty bytes: nothing was prepared yet."""

    data: bytes
    prepared_at: float


class PreparedResult:
    """The data of one page. All methods may be called from any thread."""

    def __init__(self, clock: ctrlhost.Clock) -> None:
        """Start empty and clean."""
        self._clock = clock
        self._lock = threading.Lock()
        self._dirty = False
        self._prepared = Prepared(b"", clock.time())

    @property
    def dirty(self) -> bool:
        """Whether the data has to be prepared anew."""
        with self._lock:
            return self._dirty

    def flag(self) -> None:
        """Say that what the page shows has changed."""
        with self._lock:
            self._dirty = True

    def get(self) -> Prepared:
        """Give what was prepared last."""
        with self._lock:
            return self._prepared

    def set(self, data: bytes) -> None:
        """Store freshly prepared bytes, cut at 8 MiB, and be clean."""
        with self._lock:
            self._store(data)
            self._dirty = False

    def refresh(self, prepare: Callable[[], bytes]) -> bool:
        """Prepare if the page is dirty and say whether that was so; what `prepare` raises leaves the page dirty."""
        with self._lock:
            if not self._dirty:
                return False
            # Cleared first: a change while `prepare` runs must make the page dirty again.
            self._dirty = False
        try:
            data = prepare()
        except BaseException:
            self.flag()
            raise
        with self._lock:
            self._store(data)
        return True

    def _store(self, data: bytes) -> None:
        self._prepared = Prepared(data[:LONGEST], self._clock.time())


class PreparedPages:
    """The prepared results by path."""

    def __init__(self, clock: ctrlhost.Clock) -> None:
        """Start without pages."""
        self._clock = clock
        self._pages: dict[str, tuple[PreparedResult, Callable[[], bytes]]] = {}

    def add(self, path: str, prepare: Callable[[], bytes]) -> PreparedResult:
        """Register a page; `ValueError` for a path that is taken or a `prepare` that is None."""
        if path in self._pages:
            raise ValueError(f"prepared result exists for path: {path}")
        if prepare is None:
            raise ValueError("passed nil value for prepare function")
        result = PreparedResult(self._clock)
        self._pages[path] = (result, prepare)
        return result

    def get(self, path: str) -> PreparedResult | None:
        """Give the result of a path, None where there is none."""
        page = self._pages.get(path)
        return page[0] if page else None

    def refresh(self) -> None:
        """Prepare every dirty page. The first failure is raised once the other pages had their turn."""
        failure: Exception | None = None
        for result, prepare in self._pages.values():
            try:
                result.refresh(prepare)
            except Exception as error:  # noqa: BLE001 - raised below, after the other pages
                failure = failure or error
        if failure is not None:
            raise failure
