"""Record a server's answers, so that an older one can be sent again."""

from __future__ import annotations

from collections import deque
from urllib.parse import parse_qsl, urlsplit

_KEPT = 4
_MAX_BYTES = 8 << 20
_END = b"k8s.io/initial-events-end"
#: Query parameters that do not distinguish two requests.
_IGNORED = frozenset({"resourceVersion", "resourceVersionMatch", "timeoutSeconds", "limit", "timeout"})


def replay_key(target: str, accept: str) -> str:
    """Return the key of a list or streaming list, whatever its version; "" if it cannot be replayed."""
    parts = urlsplit(target)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    if "continue" in query or (query.get("watch") in ("1", "true") and query.get("sendInitialEvents") != "true"):
        return ""
    rest = sorted((key, value) for key, value in query.items() if key not in _IGNORED)
    return f"{parts.path} {rest} {accept}"


class Recorder:
    """Keeps the newest answers to each request. For use by one thread."""

    def __init__(self) -> None:
        """Start empty."""
        self._kept: dict[str, deque[bytes]] = {}

    def oldest(self, key: str) -> bytes | None:
        """Return the oldest recorded answer."""
        kept = self._kept.get(key)
        return kept[0] if kept else None

    def keep(self, key: str, body: bytes) -> None:
        """Record a whole list, or the initial events up to their end."""
        self._kept.setdefault(key, deque(maxlen=_KEPT)).append(body)


class Recording:
    """Recording of one answer while it is forwarded."""

    def __init__(self, recorder: Recorder, key: str, *, watch: bool) -> None:
        """Record the answer under `key`; nothing if that is empty."""
        self._recorder, self._key, self._watch = recorder, key, watch
        self._pieces: list[bytes] | None = [] if key else None
        self._size = 0

    def take(self, piece: bytes) -> None:
        """Record a forwarded piece."""
        if self._pieces is None:
            return
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > _MAX_BYTES:
            self._pieces = None
        elif self._watch and _END in piece:
            self.done()

    def done(self) -> None:
        """Keep the recording: the answer is complete."""
        if self._pieces:
            body = b"".join(self._pieces)
            # The first page of a list cannot be replayed without the others.
            if self._watch or b'"continue":"' not in body[:4096]:
                self._recorder.keep(self._key, body)
        self._pieces = None
