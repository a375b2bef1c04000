"""Where the state of an operator is kept in its objects: the last handled configuration, and the progress of handlers.

Names and formats are those of kopf 1.45, so that an object moves between kopf and this package without being handled
again.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import warnings
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypedDict

from ctrlhost_kopf.dicts import FieldPath, FieldSpec, cherrypick, ensure, parse_field, remove, resolve

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

_PREFIX = "kopf.zalando.org"
_MARKER = "kopf-managed"
#: Of a name, and of what a prefix may have at most beside it.
_MAX_NAME, _MAX_PREFIX = 63, 253 - 63 - 1
_SAFE = str.maketrans({"/": ".", "<": "_", ">": "_"})


class ProgressRecord(TypedDict, total=False):
    """The stored progress of a handler; times are texts."""

    started: str | None
    stopped: str | None
    delayed: str | None
    purpose: str | None
    retries: int | None
    success: bool | None
    failure: bool | None
    message: str | None
    subrefs: Collection[str] | None


class _Annotations:
    """The names of annotations with a prefix: the present ones, and with `v1` those of old versions of kopf."""

    def __init__(self, *, prefix: str, v1: bool) -> None:
        if not prefix:
            raise ValueError("a storage in annotations needs a prefix")
        if len(prefix) > _MAX_PREFIX:
            warnings.warn(f"the prefix {prefix!r} is too long for annotations", stacklevel=3)
        self.prefix, self.v1 = prefix, v1

    def make_keys(self, key: str, *, body: Any = None) -> list[str]:
        """Return the names of the annotations for a key, the present one first."""
        owners = resolve(body, "metadata.ownerReferences", None) or ()
        if resolve(body, "kind", None) == "ReplicaSet" and any(owner["kind"] == "Deployment" for owner in owners):
            # Kubernetes copies the annotations of a Deployment to its ReplicaSets.
            key = f"{key}-ofDRS"
        keys = [self.make_v2_key(key), *([self.make_v1_key(key)] if self.v1 else [])]
        return list(dict.fromkeys(keys))

    def make_v1_key(self, key: str, max_length: int = _MAX_NAME) -> str:
        """Return the name as old versions shortened it: with the prefix, it has 63 characters at most."""
        safe, room = key.translate(_SAFE), max_length - len(self.prefix) - 1
        suffix = "" if len(safe) <= room else self.make_suffix(safe)
        return f"{self.prefix}/{safe[: room - len(suffix)]}{suffix}"

    def make_v2_key(self, key: str, max_length: int = _MAX_NAME) -> str:
        """Return the name: without the prefix, it has 63 characters at most."""
        suffix = self.make_suffix(key) if len(key) > max_length else ""
        return f"{self.prefix}/{key.translate(_SAFE)[: max(0, max_length - len(suffix))]}{suffix}"

    @staticmethod
    def make_suffix(key: str) -> str:
        """Return what distinguishes a shortened key from others."""
        digest = hashlib.blake2b(key.encode(), digest_size=4).digest()
        return f"-{base64.b64encode(digest, altchars=b'-.').decode()}".rstrip("=-.")

    def _mark(self, body: Any, patch: Any) -> None:
        """Show other operators that the prefix is not the user's."""
        name = f"{self.prefix}/{_MARKER}"
        annotations = resolve(body, "metadata.annotations", None) or {}
        if not self.prefix.startswith("kopf.") and name not in annotations:
            ensure(patch, ("metadata", "annotations", name), "yes")


class _Field:
    """The path of a field in which `{name}` is replaced; set as kopf's paths are."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._slot = f"_{name}"

    def __get__(self, storage: Any, owner: type | None = None) -> FieldPath:
        path: FieldPath = getattr(storage, self._slot)
        return path

    def __set__(self, storage: Any, field: FieldSpec) -> None:
        named = field.format(name=storage.name) if isinstance(field, str) else field
        setattr(storage, self._slot, parse_field(named))


def _drop_annotations(essence: dict[str, Any], dropped: Any) -> None:
    annotations = resolve(essence, "metadata.annotations", None)
    if isinstance(annotations, dict):
        for name in [name for name in annotations if dropped(name)]:
            del annotations[name]


def _drop_empty(essence: dict[str, Any]) -> None:
    metadata = essence.get("metadata", {})
    for name in ("annotations", "labels"):
        if name in metadata and not metadata[name]:
            del metadata[name]
    for name in ("metadata", "status"):
        if name in essence and not essence[name]:
            del essence[name]


def _is_operators(prefix: str, name: str) -> bool:
    return name == _MARKER or prefix == _PREFIX or prefix.endswith(f".{_PREFIX}")


class DiffBaseStorage(ABC):
    """Keeps the last handled configuration of an object."""

    def __init__(self, ignored_fields: Iterable[FieldSpec] | None = None) -> None:
        self.ignored_fields = list(ignored_fields or ())

    def build(self, *, body: Any, extra_fields: Iterable[FieldSpec] | None = None) -> dict[str, Any]:
        """Return what is compared: the object without its status and system fields, but with `extra_fields`."""
        left_out = ("apiVersion", "kind", "metadata", "status")
        essence = {name: copy.deepcopy(value) for name, value in body.items() if name not in left_out}
        cherrypick(body, essence, ("metadata.labels", "metadata.annotations"), copy.deepcopy)
        names = [name.split("/", 1) for name in resolve(essence, "metadata.annotations", None) or {} if "/" in name]
        prefixes = {prefix for prefix, name in names if _is_operators(prefix, name)}
        applied = "kubectl.kubernetes.io/last-applied-configuration"
        _drop_annotations(essence, lambda name: name == applied or (name.split("/", 1)[0] in prefixes and "/" in name))
        cherrypick(body, essence, extra_fields or (), copy.deepcopy)
        _drop_empty(essence)
        for field in self.ignored_fields:
            with suppress(TypeError):
                remove(essence, field)
        return essence

    @abstractmethod
    def fetch(self, *, body: Any) -> dict[str, Any] | None:
        """Return the last handled configuration; None for an object that was never handled."""

    @abstractmethod
    def store(self, *, body: Any, patch: Any, essence: dict[str, Any]) -> None:
        """Add the configuration to the patch of the object."""


class AnnotationsDiffBaseStorage(_Annotations, DiffBaseStorage):
    """Keeps the configuration in an annotation."""

    def __init__(
        self,
        *,
        prefix: str = _PREFIX,
        key: str = "last-handled-configuration",
        ignored_fields: Iterable[FieldSpec] | None = None,
        v1: bool = True,
    ) -> None:
        """Use the annotation `prefix/key`."""
        _Annotations.__init__(self, prefix=prefix, v1=v1)
        DiffBaseStorage.__init__(self, ignored_fields)
        self.key = key

    def build(self, *, body: Any, extra_fields: Iterable[FieldSpec] | None = None) -> dict[str, Any]:
        essence = super().build(body=body, extra_fields=extra_fields)
        _drop_annotations(essence, set(self.make_keys(self.key, body=body)).__contains__)
        _drop_empty(essence)
        return essence

    def fetch(self, *, body: Any) -> dict[str, Any] | None:
        essence: dict[str, Any] | None = _decoded(body, self.make_keys(self.key, body=body))
        return essence

    def store(self, *, body: Any, patch: Any, essence: dict[str, Any]) -> None:
        encoded = json.dumps(essence, separators=(",", ":")) + "\n"
        for name in self.make_keys(self.key, body=body):
            ensure(patch, ("metadata", "annotations", name), encoded)
        self._mark(body, patch)


class StatusDiffBaseStorage(DiffBaseStorage):
    """Keeps the configuration in a field of the status."""

    field = _Field()

    def __init__(
        self,
        *,
        name: str = "kopf",
        field: FieldSpec = "status.{name}.last-handled-configuration",
        ignored_fields: Iterable[FieldSpec] | None = None,
    ) -> None:
        """Use a field, in which `{name}` is replaced."""
        super().__init__(ignored_fields)
        self.name = name
        self.field = field

    def build(self, *, body: Any, extra_fields: Iterable[FieldSpec] | None = None) -> dict[str, Any]:
        essence = super().build(body=body, extra_fields=extra_fields)
        remove(essence, self.field)
        return essence

    def fetch(self, *, body: Any) -> dict[str, Any] | None:
        encoded = resolve(body, self.field, None)
        essence: dict[str, Any] | None = None if encoded is None else json.loads(encoded)
        return essence

    def store(self, *, body: Any, patch: Any, essence: dict[str, Any]) -> None:  # noqa: ARG002 - as the others
        ensure(patch, self.field, json.dumps(essence, separators=(",", ":")))


class MultiDiffBaseStorage(DiffBaseStorage):
    """Keeps the configuration in several storages, and reads the first one that has it."""

    def __init__(self, storages: Collection[DiffBaseStorage]) -> None:
        super().__init__()
        self.storages = storages

    def build(self, *, body: Any, extra_fields: Iterable[FieldSpec] | None = None) -> dict[str, Any]:
        essence = super().build(body=body, extra_fields=extra_fields)
        for storage in self.storages:
            essence = storage.build(body=essence, extra_fields=extra_fields)
        return essence

    def fetch(self, *, body: Any) -> dict[str, Any] | None:
        return next((essence for storage in self.storages if (essence := storage.fetch(body=body)) is not None), None)

    def store(self, *, body: Any, patch: Any, essence: dict[str, Any]) -> None:
        for storage in self.storages:
            storage.store(body=body, patch=patch, essence=essence)


class ProgressStorage(ABC):
    """Keeps the progress of the handlers of an object until all have ended."""

    @abstractmethod
    def fetch(self, *, key: str, body: Any) -> ProgressRecord | None:
        """Return the record of a handler; None before its first attempt."""

    @abstractmethod
    def store(self, *, key: str, record: ProgressRecord, body: Any, patch: Any) -> None:
        """Add the record of a handler to the patch of the object."""

    @abstractmethod
    def purge(self, *, key: str, body: Any, patch: Any) -> None:
        """Remove the record of a handler from the object and from its patch."""

    @abstractmethod
    def touch(self, *, body: Any, patch: Any, value: str | None) -> None:
        """Set the field whose change wakes up an operator; None removes it."""

    @abstractmethod
    def clear(self, *, essence: Any) -> Any:
        """Return a copy of what is compared without the records."""
        return copy.deepcopy(essence)

    def flush(self) -> None:  # noqa: B027 - not all storages need it
        """Called when all records of a pass are stored."""


class AnnotationsProgressStorage(_Annotations, ProgressStorage):
    """Keeps each record in an annotation."""

    def __init__(
        self, *, prefix: str = _PREFIX, verbose: bool = False, touch_key: str = "touch-dummy", v1: bool = True
    ) -> None:
        """Use the annotations `prefix/HANDLER`; with `verbose` empty fields are kept, too."""
        super().__init__(prefix=prefix, v1=v1)
        self.verbose, self.touch_key = verbose, touch_key

    def fetch(self, *, key: str, body: Any) -> ProgressRecord | None:
        record: ProgressRecord | None = _decoded(body, self.make_keys(key, body=body))
        return record

    def store(self, *, key: str, record: ProgressRecord, body: Any, patch: Any) -> None:
        kept = {name: value for name, value in record.items() if self.verbose or value is not None}
        for name in self.make_keys(key, body=body):
            ensure(patch, ("metadata", "annotations", name), json.dumps(kept, separators=(",", ":")))
        self._mark(body, patch)

    def purge(self, *, key: str, body: Any, patch: Any) -> None:
        for name in self.make_keys(key, body=body):
            _purge(("metadata", "annotations", name), body, patch)

    def touch(self, *, body: Any, patch: Any, value: str | None) -> None:
        for name in self.make_keys(self.touch_key, body=body):
            if resolve(body, ("metadata", "annotations", name), None) != value:
                ensure(patch, ("metadata", "annotations", name), value)
                self._mark(body, patch)

    def clear(self, *, essence: Any) -> Any:
        essence = super().clear(essence=essence)
        _drop_annotations(essence, lambda name: name.startswith(f"{self.prefix}/"))
        _drop_empty(essence)
        return essence


class StatusProgressStorage(ProgressStorage):
    """Keeps the records in a field of the status."""

    field, touch_field = _Field(), _Field()

    def __init__(
        self,
        *,
        name: str = "kopf",
        field: FieldSpec = "status.{name}.progress",
        touch_field: FieldSpec = "status.{name}.dummy",
    ) -> None:
        """Use fields, in which `{name}` is replaced."""
        self.name = name
        self.field, self.touch_field = field, touch_field

    def fetch(self, *, key: str, body: Any) -> ProgressRecord | None:
        record: ProgressRecord | None = resolve(body, (*self.field, key), None)
        return record

    def store(self, *, key: str, record: ProgressRecord, body: Any, patch: Any) -> None:  # noqa: ARG002 - as the others
        ensure(patch, (*self.field, key), record)

    def purge(self, *, key: str, body: Any, patch: Any) -> None:
        _purge((*self.field, key), body, patch)

    def touch(self, *, body: Any, patch: Any, value: str | None) -> None:
        if resolve(body, self.touch_field, None) != value:
            ensure(patch, self.touch_field, value)

    def clear(self, *, essence: Any) -> Any:
        essence = super().clear(essence=essence)
        remove(essence, self.field)
        _drop_empty(essence)
        return essence


class MultiProgressStorage(ProgressStorage):
    """Keeps the records in several storages, and reads the first one that has a record."""

    def __init__(self, storages: Collection[ProgressStorage]) -> None:
        self.storages = storages

    def fetch(self, *, key: str, body: Any) -> ProgressRecord | None:
        records = (storage.fetch(key=key, body=body) for storage in self.storages)
        return next((record for record in records if record is not None), None)

    def store(self, *, key: str, record: ProgressRecord, body: Any, patch: Any) -> None:
        for storage in self.storages:
            storage.store(key=key, record=record, body=body, patch=patch)

    def purge(self, *, key: str, body: Any, patch: Any) -> None:
        for storage in self.storages:
            storage.purge(key=key, body=body, patch=patch)

    def touch(self, *, body: Any, patch: Any, value: str | None) -> None:
        for storage in self.storages:
            storage.touch(body=body, patch=patch, value=value)

    def clear(self, *, essence: Any) -> Any:
        for storage in self.storages:
            essence = storage.clear(essence=essence)
        return essence


class _ReadOnlyStatus(StatusProgressStorage):
    """Reads and removes the records of old versions of kopf."""

    def store(self, **_: Any) -> None:
        """Store nothing."""

    def touch(self, **_: Any) -> None:
        """Set nothing."""


class SmartProgressStorage(MultiProgressStorage):
    """Keeps the records in annotations, and reads those in the status as well."""

    def __init__(
        self,
        *,
        name: str = "kopf",
        field: FieldSpec = "status.{name}.progress",
        touch_key: str = "touch-dummy",
        touch_field: FieldSpec = "status.{name}.dummy",
        prefix: str = _PREFIX,
        v1: bool = True,
        verbose: bool = False,
    ) -> None:
        """Use annotations with `prefix`; the status has what an old version has left there."""
        annotations = AnnotationsProgressStorage(v1=v1, prefix=prefix, verbose=verbose, touch_key=touch_key)
        super().__init__([annotations, _ReadOnlyStatus(name=name, field=field, touch_field=touch_field)])


def _decoded(body: Any, names: Iterable[str]) -> Any:
    """Return the decoded value of the first of the annotations; None without one."""
    annotations: Mapping[str, str] = resolve(body, "metadata.annotations", None) or {}
    decoded = (json.loads(annotations[name]) for name in names if name in annotations)
    return next((value for value in decoded if value is not None), None)


def _purge(field: FieldPath, body: Any, patch: Any) -> None:
    absent = object()
    if resolve(body, field, absent) is not absent:
        ensure(patch, field, None)
    elif resolve(patch, field, absent) is not absent:
        remove(patch, field)
