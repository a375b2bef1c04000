"""What one reflector accepts: protobuf first, where the server and this release both know it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctrlhost.cache import SharedInformer
    from ctrlhost.errors import ApiError
    from ctrlhost.reflector.encodings import Encodings

log = logging.getLogger("ctrlhost.informers.negotiation")

_JSON = "application/json"
_PROTOBUF = "application/vnd.kubernetes.protobuf"
_AS = ";as={};g=meta.k8s.io;v=v1"
_NOT_ACCEPTABLE = (406, 415)


class Negotiation:
    """Chooses the `Accept` header of one reflector's requests. For use by its thread."""

    def __init__(
        self, api_version: str, kind: str, engine: SharedInformer, encodings: Encodings, *, metadata_only: bool = False
    ) -> None:
        """Ask for objects of this kind, or for their metadata, for an engine that has received nothing yet."""
        self._api_version, self._kind = api_version, kind
        self._engine = engine
        self._encodings = encodings
        self._metadata_only = metadata_only
        #: The server does not accept protobuf.
        self._refused = False
        self._unknown = engine.stats()["unknown_fields"]

    @property
    def protobuf(self) -> bool:
        """Whether protobuf is asked for."""
        return not self._refused and self._encodings.may_be_protobuf(
            self._api_version, self._kind, metadata_only=self._metadata_only
        )

    def accept(self, metadata_kind: str) -> str:
        """Return the header; `metadata_kind` is what metadata is asked for as."""
        media = (_PROTOBUF, _JSON) if self.protobuf else (_JSON,)
        if not self._metadata_only:
            return ",".join(media)
        # A server without this form sends whole objects.
        return ",".join((*(media_type + _AS.format(metadata_kind) for media_type in media), _JSON))

    def refused(self, error: ApiError) -> bool:
        """Return whether to repeat a request that failed: as JSON, and so are all later ones."""
        if error.status not in _NOT_ACCEPTABLE or not self.protobuf:
            return False
        log.info("the server does not send %s (%s) as protobuf; reading JSON: %s", self._kind, self._api_version, error)
        self.only_json()
        return True

    def only_json(self) -> None:
        """Ask for JSON alone from now on."""
        self._refused = True

    def must_list_as_json(self) -> bool:
        """Return whether objects came with fields that this release does not know; True once for all of them."""
        stats = self._engine.stats()
        if stats["unknown_fields"] == self._unknown:
            return False
        self._unknown = stats["unknown_fields"]
        self._encodings.lacks_field(self._api_version, self._kind, stats["last_unknown"])
        return True
