"""Structs of whole objects: `Model[Spec, Status]`, its metadata and its status."""

# ruff: noqa: N815 - fields are named as on the wire

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime  # noqa: TC003 - msgspec evaluates the annotations
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar, dataclass_transform

import msgspec

from ctrlhost.errors import InvalidObject
from ctrlhost.models.kinds import names_of

if TYPE_CHECKING:
    from ctrlhost._core import Object

K = TypeVar("K")
Spec = TypeVar("Spec")
Status = TypeVar("Status")

#: How msgspec writes the place of a mistake at the end of a message.
_PLACE = re.compile(r" - at `(?P<key>key in )?\$\.?(?P<path>[^`]*)`$")
_MISSING = re.compile(r"Object missing required field `(?P<field>[^`]*)`")


# For type checkers: without it, subclasses would have to repeat `frozen=True`.
@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Frozen(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, repr_omit_defaults=True):
    """Base of structs whose subclasses are frozen too."""


class OwnerReference(Frozen, frozen=True, kw_only=True):
    """A reference to an owner of an object."""

    apiVersion: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    blockOwnerDeletion: bool = False


class ObjectMeta(Frozen, frozen=True, kw_only=True):
    """The metadata of an object; `namespace` is empty for a cluster-scoped one."""

    name: str = ""
    generateName: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""
    generation: int = 0
    creationTimestamp: datetime | None = None
    deletionTimestamp: datetime | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: list[str] = []
    ownerReferences: list[OwnerReference] = []


class Condition(Frozen, frozen=True, kw_only=True):
    """A condition of a status, as in `metav1.Condition`; `status` is `True`, `False` or `Unknown`."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    lastTransitionTime: datetime | None = None
    observedGeneration: int | None = None


class ModelStatus(Frozen, frozen=True, kw_only=True):
    """The base of status structs, with conditions. Frozen, and so are subclasses."""

    observedGeneration: int | None = None
    """The generation of the object that the status was made from."""
    conditions: list[Condition] = []

    def condition(self, type: str) -> Condition | None:  # noqa: A002 - the name of the API field
        """Return the condition of this type, or None."""
        return next((condition for condition in self.conditions if condition.type == type), None)

    def is_true(self, type: str) -> bool:  # noqa: A002 - the name of the API field
        """Return whether the condition of this type is set and True."""
        condition = self.condition(type)
        return condition is not None and condition.status == "True"


class AnyModel(Frozen, frozen=True, kw_only=True):
    """What all models have."""

    apiVersion: str = ""
    kind: str = ""
    metadata: ObjectMeta

    def __post_init__(self) -> None:
        """Set apiVersion and kind where they are not given."""
        if not self.apiVersion and (names := names_of(type(self))) is not None:
            msgspec.structs.force_setattr(self, "apiVersion", names.api_version)
            msgspec.structs.force_setattr(self, "kind", names.kind)


class Model(AnyModel, Generic[Spec, Status], frozen=True, kw_only=True):
    """The base of structs of whole objects of a custom kind; `Model[Spec, None]` has no status.

    Frozen, and so are subclasses. Put `@ctrlhost.resource` above a subclass: it sets apiVersion and kind where they are
    not given.
    """

    spec: Spec
    status: Status | None = None


class ModelWithoutSpec(AnyModel, Generic[Status], frozen=True, kw_only=True):
    """The base of structs of a custom kind whose fields stand beside `metadata`, as those of a ConfigMap do.

    ```python
    # a part of a plugin
    @ctrlhost.resource("example.com/v1")
    class Shared(ctrlhost.ModelWithoutSpec[None], kw_only=True):
        data: dict[str, str] = {}
        namespaces: list[str]
    ```

    `ModelWithoutSpec[None]` has no status. In all else as `Model`.
    """

    status: Status | None = None


def decode(obj: Object, model: type[K]) -> K:
    """Return a cached object as a fresh struct; changing it changes no cache.

    Unknown fields are ignored. InvalidObject with the field's path if the object does not fit. For any thread.
    """
    try:
        return obj.decode(model)
    except msgspec.ValidationError as error:
        raise InvalidObject(f"{obj.get('kind', model.__name__)} {obj.key}", _explained(error), obj) from None


def decode_json(text: bytes, model: Any, name: str) -> Any:
    """Return an object as a fresh struct, or as whatever `model` is; None for null.

    Unknown fields are ignored. InvalidObject with `name` and the field's path if it does not fit. For any thread.
    """
    if text == b"null":
        return None
    try:
        return msgspec.json.decode(text, type=model)
    except msgspec.ValidationError as error:
        raise InvalidObject(name, _explained(error)) from None


def _explained(error: msgspec.ValidationError) -> str:
    """Return what msgspec found as `spec.size: expected int, got str`."""
    place = _PLACE.search(str(error))
    path = place["path"] if place else ""
    reason = str(error)[: place.start()] if place else str(error)
    if missing := _MISSING.fullmatch(reason):
        path, reason = f"{path}.{missing['field']}".lstrip("."), "required, but missing"
    if place and place["key"]:
        path = f"{path}, a key"
    reason = reason.replace("`", "")
    if reason[1:2].islower():
        reason = f"{reason[0].lower()}{reason[1:]}"
    return f"{path}: {reason}".removeprefix(": ")


def to_dict(model: msgspec.Struct) -> dict[str, Any]:
    """Return an object as fresh dicts and lists, with apiVersion and kind, as the server takes it.

    Fields that are None by default and None are left out. TypeError for a struct without `@ctrlhost.resource`.
    """
    names = names_of(type(model))
    if names is None:
        raise TypeError(f"{type(model).__name__} is not a kind: put `@ctrlhost.resource(…)` above the class")
    return {"apiVersion": names.api_version, "kind": names.kind, **_struct(model)}


def _struct(value: msgspec.Struct) -> dict[str, Any]:
    config = value.__struct_config__
    content: dict[str, Any] = {} if config.tag is None else {str(config.tag_field): config.tag}
    for field in _fields(type(value)):
        field_value = getattr(value, field.name)
        if field_value is msgspec.UNSET or (field.default is None and field_value is None):
            continue
        if config.omit_defaults and not field.required and field_value == default_of(field):
            continue
        content[field.encode_name] = _plain(field_value)
    return content


@lru_cache(maxsize=1024)
def _fields(struct: Any) -> tuple[msgspec.structs.FieldInfo, ...]:
    """Return the fields of a struct, whose annotations msgspec evaluates anew at each call."""
    return msgspec.structs.fields(struct)


def _plain(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return _struct(value)
    # Mappings and sequences may be views of cached objects.
    if isinstance(value, Mapping):
        return {str(msgspec.to_builtins(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray)):
        return [_plain(item) for item in value]
    return msgspec.to_builtins(value, order="deterministic")


def default_of(field: msgspec.structs.FieldInfo) -> Any:
    """Return the default of a field that is not required."""
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
