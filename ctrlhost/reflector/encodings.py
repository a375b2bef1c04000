"""The encodings in which a host reads each kind, by its settings and by what its reflectors learned."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Literal

from ctrlhost._core import knows_protobuf, protobuf_release

if TYPE_CHECKING:
    from collections.abc import Mapping

log = logging.getLogger("ctrlhost.informers.encodings")

Encoding = Literal["auto", "json"]


class Encodings:
    """Decides which kinds may come as protobuf. Safe to use from any thread."""

    def __init__(self, encoding: Encoding = "auto", kinds: Mapping[str, Encoding] | None = None) -> None:
        """Read protobuf where it can be read (`auto`) or never; `kinds` overrides this by `APIVERSION/KIND`."""
        self._encoding = encoding
        self._kinds = {kind.lower(): chosen for kind, chosen in (kinds or {}).items()}
        self._lock = threading.Lock()
        self._incomplete: set[tuple[str, str]] = set()

    def may_be_protobuf(self, api_version: str, kind: str, *, metadata_only: bool) -> bool:
        """Return whether protobuf may be asked for; metadata is the same message for every kind."""
        if self._kinds.get(f"{api_version}/{kind}".lower(), self._encoding) == "json":
            return False
        with self._lock:
            incomplete = (api_version, kind) in self._incomplete
        return not incomplete and (metadata_only or knows_protobuf(api_version, kind))

    def lacks_field(self, api_version: str, kind: str, field: str) -> None:
        """Read a kind as JSON from the next list on, since the server knows a field that this release does not."""
        with self._lock:
            if (api_version, kind) in self._incomplete:
                return
            self._incomplete.add((api_version, kind))
        log.warning(
            "the server's %s (%s) has a field that Kubernetes %s lacks, %s; reading it as JSON from the next list on",
            kind,
            api_version,
            protobuf_release(),
            field,
        )
