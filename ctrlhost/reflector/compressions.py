"""When informers compress the objects in their caches, by the settings of a host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Compression = Literal["off", "auto", "on"]


class Compressions:
    """Decides whether the cached objects of a kind are compressed. Immutable."""

    def __init__(self, compression: Compression = "auto", kinds: Mapping[str, Compression] | None = None) -> None:
        """Compress large caches (`auto`), all (`on`) or none (`off`); `kinds` overrides this by `APIVERSION/KIND`."""
        self._compression = compression
        self._kinds = {kind.lower(): chosen for kind, chosen in (kinds or {}).items()}

    def of(self, api_version: str, kind: str) -> Compression:
        """Return the setting of a kind."""
        return self._kinds.get(f"{api_version}/{kind}".lower(), self._compression)
