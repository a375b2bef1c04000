"""Conversion of the objects of a kind between its versions, by the functions of `@plugin.convert`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from itertools import pairwise, permutations
from typing import TYPE_CHECKING, Any

import msgspec

from ctrlhost.webhooks.envelope import Envelope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    #: Converts an object; its apiVersion, kind and metadata are those of the argument.
    Convert: TypeAlias = Callable[[Mapping[str, Any]], Mapping[str, Any]]

#: The versions of a chain, the first and the last included.
MOST_VERSIONS = 4


class ConversionFailed(Exception):
    """An object cannot be converted; the message names it."""


class _Request(msgspec.Struct, rename="camel"):
    uid: str
    desired_api_version: str = msgspec.field(name="desiredAPIVersion")
    objects: list[dict[str, Any]] = []


_REVIEW = Envelope("apiextensions.k8s.io/v1", "ConversionReview", _Request)


class Converters:
    """The conversions of one kind. For any thread."""

    def __init__(
        self,
        plugin: str,
        crd: Mapping[str, Any],
        functions: Mapping[tuple[str, str], Convert],
    ) -> None:
        """Convert the objects of a CRD with these functions, by the versions from and to which they convert."""
        spec = crd["spec"]
        self.plugin = plugin
        self.group: str = spec["group"]
        self.kind: str = spec["names"]["kind"]
        self.plural: str = spec["names"]["plural"]
        #: The versions that are served or stored.
        self.versions = tuple(
            version["name"] for version in spec["versions"] if version["served"] or version["storage"]
        )
        self.storage: str = next(version["name"] for version in spec["versions"] if version["storage"])
        self._functions = functions
        self._chains: dict[tuple[str, str], tuple[str, ...]] = {}
        self._log = logging.getLogger(f"ctrlhost.plugin.{plugin}")

    @property
    def path(self) -> str:
        """The path on the listener."""
        return f"/convert/{self.group}/{self.plural}"

    @property
    def crd_name(self) -> str:
        """The name of the CustomResourceDefinition."""
        return f"{self.plural}.{self.group}"

    def missing(self) -> list[tuple[str, str]]:
        """Return the pairs of versions between which there is no chain."""
        return [pair for pair in permutations(self.versions, 2) if not self.chain(*pair)]

    def chain(self, source: str, target: str) -> tuple[str, ...]:
        """Return the versions through which an object goes, the first and the last included; empty without a way.

        The shortest way counts, and among several the one through the stored version.
        """
        pair = (source, target)
        if pair not in self._chains:
            chains = sorted(self._all_chains((source,), target), key=self._rank)
            self._chains[pair] = chains[0] if chains else ()
        return self._chains[pair]

    def _rank(self, chain: tuple[str, ...]) -> tuple[int, bool]:
        return len(chain), self.storage not in chain

    def _all_chains(self, begun: tuple[str, ...], target: str) -> Iterator[tuple[str, ...]]:
        if begun[-1] == target:
            yield begun
        elif len(begun) < MOST_VERSIONS:
            for source, following in self._functions:
                if source == begun[-1] and following not in begun:
                    yield from self._all_chains((*begun, following), target)

    def convert(self, obj: Mapping[str, Any], version: str) -> dict[str, Any]:
        """Return an object in another version; ConversionFailed with its name if that fails.

        Of its metadata, a function may change labels and annotations.
        """
        source = str(obj.get("apiVersion", "")).rpartition("/")[2]
        chain = self.chain(source, version)
        if not chain:
            raise ConversionFailed(f"{_name(obj)}: no conversion from {source} to {version}")
        converted = dict(obj)
        for before, after in pairwise(chain):
            try:
                # A fresh copy: a function may change what it gets.
                returned = self._functions[before, after](_fresh(converted))
                converted = {
                    **_checked(returned),
                    "apiVersion": f"{self.group}/{after}",
                    "kind": obj["kind"],
                    "metadata": _metadata(converted, returned),
                }
            except BaseException as error:
                raise ConversionFailed(f"{_name(obj)}: the conversion from {before} to {after} failed") from error
        return converted

    def answer(self, body: bytes) -> bytes:
        """Return the answer to a review: all objects converted, or a failure that names the first that cannot be.

        Raises InvalidReview. What the functions raise is logged.
        """
        request = _REVIEW.request(body)
        group, _, version = request.desired_api_version.rpartition("/")
        converted: list[dict[str, Any]] = []
        result = {"status": "Success"}
        try:
            if group != self.group:
                raise ConversionFailed(f"{request.desired_api_version} is not of the group {self.group}")
            converted = [self.convert(obj, version) for obj in request.objects]
        except ConversionFailed as error:
            result = {"status": "Failure", "message": f"plugin {self.plugin}: {error}"}
            converted = []
            self._log.error("plugin %s: %s", self.plugin, error, exc_info=error.__cause__)
        response = {"uid": request.uid, "result": result, "convertedObjects": converted}
        return _REVIEW.review(response)


def _fresh(obj: Mapping[str, Any]) -> dict[str, Any]:
    fresh: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(obj))
    return fresh


def _checked(returned: object) -> dict[str, Any]:
    if not isinstance(returned, Mapping):
        raise TypeError(f"returned {type(returned).__name__}; it must return the object as a mapping")
    return _fresh(dict(returned))


def _name(obj: Mapping[str, Any]) -> str:
    """Return kind, namespace and name, as in messages."""
    metadata = obj.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    return f"{obj.get('kind', '')} {'/'.join(filter(None, (metadata.get('namespace'), metadata.get('name'))))}".strip()


def _metadata(obj: Mapping[str, Any], returned: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of an object, with the labels and annotations of what a function returned, if it has any."""
    metadata = dict(obj.get("metadata") or {})
    texts = returned.get("metadata")
    if isinstance(texts, Mapping):
        for member in ("labels", "annotations"):
            metadata.pop(member, None)
            if texts.get(member):
                metadata[member] = _fresh(dict(texts[member]))
    return metadata
