"""What a server answered some time ago, to be answered once more."""

from __future__ import annotations

from collections import deque
from urllib.parse import parse_qsl, urlsplit

_KEPT = 4
_LARGEST = 8 << 20
_END = b"k8s.io/initial-events-end"
#: What does not make two questions different.
_PASSING = frozenset({"resourceVersion", "resourceVersionMatch", "timeoutSeconds", "limit", "timeout"})


def question(target: str, accept: str) -> str:
    """Give what a list or streaming list asks for, whatever the version; empty for what can not be replayed."""
    parts = urlsplit(target)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    if "continue" in query or (query.get("watch") in ("1", "true") and query.get("sendInitialEvents") != "true"):
        return ""
    rest = sorted((key, value) for key, value in query.items() if key not in _PASSING)
    return f"{parts.path} {rest} {accept}"


class Recorder:
    """Keeps the first and the newest answers to each question. For use by one thread."""

    def __init__(self) -> None:
        """Know nothing."""
        self._kept: dict[str, deque[bytes]] = {}

    def oldest(self, asked: str) -> bytes | None:
        """Give the oldest answer that is kept."""
        kept = self._kept.get(asked)
        return kept[0] if kept else None

    def keep(self, asked: str, body: bytes) -> None:
        """Keep a whole list, or the initial events up to their end."""
        self._kept.setdefault(asked, deque(maxlen=_KEPT)).append(body)


class Recording:
    """One answer as it passes by."""

    def __init__(self, recorder: Recorder, asked: str, *, watch: bool) -> None:
        """Record the answer to `asked`; nothing where that is empty."""
        self._recorder, self._asked, self._watch = recorder, asked, watch
        self._pieces: list[bytes] | None = [] if asked else None
        self._size = 0

    def take(self, piece: bytes) -> None:
        """Hear of a piece that passed by."""
        if self._pieces is None:
            return
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > _LARGEST:
            self._pieces = None
        elif self._watch and _END in piece:
            self.done()

    def done(self) -> None:
        """Keep what was recorded: the answer is complete."""
        if self._pieces is not None and self._pieces:
            body = b"".join(self._pieces)
            # The rest of a list that was asked for in pages can not be told with its first page.
            if self._watch or b'"continue":"' not in body[:4096]:
                self._recorder.keep(self._asked, body)
        self._pieces = None
