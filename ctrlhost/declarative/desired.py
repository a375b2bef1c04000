"""An object as a plugin wants it: plain JSON, with a digest that the applied object carries as an annotation."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec

from ctrlhost import _core
from ctrlhost.client.kind_schemas import Schema
from ctrlhost.declarative.comparison import Leaf, differing, leaf_paths
from ctrlhost.declarative.unmanaged_values import KEY, Unmanaged, split
from ctrlhost.models.typed_objects import form_of, mapping_of

if TYPE_CHECKING:
    from ctrlhost.models.typed_objects import AnyObject

_ANNOTATION = "applied.ctrlhost.dev/"
_DIGITS = 16
#: What identifies an object or is the server's own.
_NOT_COMPARED = frozenset({"apiVersion", "kind", "metadata"})
_COMPARED_METADATA = ("labels", "annotations", "finalizers", "ownerReferences")
#: Their schema, the same for all kinds.
_METADATA = Schema(
    fields={
        "labels": Schema(values=Schema()),
        "annotations": Schema(values=Schema()),
        "finalizers": Schema(list_type="set"),
        "ownerReferences": Schema(list_type="map", keys=("uid",)),
    }
)
_SECRET = ("v1", "Secret")


def annotation_of(plugin: str) -> str:
    """Return the annotation with the digest of what the plugin applied last."""
    return _ANNOTATION + plugin


def is_digest(text: str) -> bool:
    """Return whether the text has the form of a digest; another one was written by hand."""
    return len(text) == _DIGITS and not set(text) - set("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class Desired:
    """An object as a plugin wants it; `namespace` is empty if it names none."""

    api_version: str
    kind: str
    name: str
    namespace: str
    #: The content, as JSON decodes.
    content: dict[str, Any]
    #: What an object is created with, if it has `unmanaged` values.
    initial: dict[str, Any] | None
    #: 16 hexadecimal digits; of a Secret they cover only the paths, since the digest of a weak password reveals it.
    digest: str

    def __str__(self) -> str:
        """Return kind and name, as in messages."""
        return f"{self.kind} {self.name}"

    def differing(self, live: Mapping[str, Any], schema: Schema | None) -> list[Leaf]:
        """Return the leaves that differ in the live object, by the schema of its kind; None if that is not known."""
        wanted = {name: value for name, value in self.content.items() if name not in _NOT_COMPARED}
        leaves = differing(wanted, {name: _plain(live.get(name)) for name in wanted}, schema)
        own, metadata = self.content["metadata"], live.get("metadata") or {}
        named = {name: own[name] for name in _COMPARED_METADATA if name in own}
        if named:
            there = {name: _plain(metadata.get(name)) for name in named}
            leaves += differing(named, there, _METADATA, ("metadata",))
        return leaves


def encode(obj: AnyObject) -> bytes:
    """Return a mapping or a typed object as JSON with sorted keys; TypeError for values that JSON does not have."""
    return _encoder.encode(mapping_of(obj))


def desired_of(obj: AnyObject, encoded: bytes | None = None) -> Desired:
    """Return the object of a mapping or a typed object; ValueError if it does not name its kind and itself.

    `encoded` is its JSON, if it is known. TypeError for values that JSON does not have.
    """
    encoded = encode(obj) if encoded is None else encoded
    content: dict[str, Any] = _decoder.decode(encoded)
    initial: dict[str, Any] | None = None
    if KEY.encode() in encoded:
        content, initial = split(content)
        _complete(initial, obj)
    metadata = _complete(content, obj)
    api_version, kind, name = content["apiVersion"], content["kind"], metadata["name"]
    encoded = _encoder.encode(content)
    if (api_version, kind) == _SECRET:
        encoded = _encoder.encode(sorted(map(repr, leaf_paths(content))))
    digest = sha256(encoded).hexdigest()[:_DIGITS]
    return Desired(api_version, kind, name, metadata.get("namespace") or "", content, initial, digest)


def _complete(content: dict[str, Any], obj: AnyObject) -> dict[str, Any]:
    """Bring an object into the form in which it is applied, and return its metadata; ValueError if it lacks a name."""
    if not isinstance(obj, Mapping):
        for field, value in list(content.items()):
            content[field] = _without_nulls(value)
            if value is None or field == "status":
                del content[field]
    api_version, kind = content.get("apiVersion"), content.get("kind")
    if not (isinstance(api_version, str) and api_version and isinstance(kind, str) and kind):
        what = "an object" if isinstance(obj, Mapping) else type(obj).__name__
        raise ValueError(f"{what} needs apiVersion and kind")
    metadata: Any = content.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not (isinstance(name, str) and name):
        raise ValueError(f"a {kind} needs metadata.name")
    _leave_out_what_the_server_sets(content, metadata)
    if (api_version, kind) == _SECRET:
        _encode_string_data(content)
    completed: dict[str, Any] = content["metadata"]
    return completed


def _leave_out_what_the_server_sets(content: dict[str, Any], metadata: dict[str, Any]) -> None:
    """Leave out what an object that was read has, and the empty status of kubectl's: it differs after each apply."""
    if metadata.get("uid") or not content.get("status"):
        content.pop("status", None)
    wanted = {name: metadata[name] for name in ("name", "namespace", *_COMPARED_METADATA) if metadata.get(name)}
    wanted = {name: value for name, member in wanted.items() if (value := _without_nulls(member))}
    if annotations := wanted.get("annotations"):
        kept = {name: value for name, value in annotations.items() if not name.startswith(_ANNOTATION)}
        wanted["annotations"] = kept
        if not kept:
            del wanted["annotations"]
    content["metadata"] = wanted


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(below) for name, below in value.items() if below is not None}
    return [_without_nulls(below) for below in value] if isinstance(value, list) else value


def _encode_string_data(secret: dict[str, Any]) -> None:
    """Move `stringData`, which the server never returns, to `data`."""
    texts = secret.pop("stringData", None)
    if isinstance(texts, dict) and texts:
        encoded = {name: b64encode(str(text).encode()).decode() for name, text in texts.items() if text is not None}
        secret["data"] = {**(secret.get("data") or {}), **encoded}


def _plain(value: Any) -> Any:
    """Return a view of a cached object as a dict or a list."""
    if isinstance(value, _core.MapView):
        return value.to_dict()
    return value.to_list() if isinstance(value, _core.ListView) else value


def _encodable(value: Any) -> Any:
    if isinstance(value, Unmanaged):
        return {KEY: value.value}
    if isinstance(value, Mapping):
        return dict(value)
    plain = form_of(_plain(value))
    if plain is value:
        raise TypeError(f"{type(value).__name__} has no form in JSON: {value!r}")
    return plain


_encoder = msgspec.json.Encoder(order="sorted", enc_hook=_encodable)
_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
