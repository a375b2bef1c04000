"""Get and list."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from ctrlhost_sandbox.apimachinery import selectors, status
from ctrlhost_sandbox.apimachinery.status import Failure, bad_request
from ctrlhost_sandbox.http.messages import NotYet
from ctrlhost_sandbox.registry import views
from ctrlhost_sandbox.registry.operation import Operation, bad_option
from ctrlhost_sandbox.verbs.shards import read_shard

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ctrlhost_sandbox._native import ShardSelector
    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.apimachinery.status import Cause
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.http.messages import Query
    from ctrlhost_sandbox.registry.registry import Kind
    from ctrlhost_sandbox.storage.store import Snapshot, Table

WAIT_SECONDS = 1.0
"""How long a read waits for a future revision; short, since clients retry the 504 themselves."""

_MISSING: Mapping[tuple[str, ...], str] = {
    ("spec", "hostNetwork"): "false",
    ("spec", "unschedulable"): "false",
    ("status", "replicas"): "0",
    ("status", "succeeded"): "0",
}
"""What selectors see of a field of a built-in kind that is missing."""
_INSTEAD: Mapping[tuple[str, ...], tuple[str, ...]] = {("source", "component"): ("reportingComponent",)}
"""The fields that selectors see instead of empty ones."""


@dataclass(slots=True)
class Page:
    """One page of a list; revision 0 is that of objects that are not stored."""

    revision: int
    items: list[Snapshot]
    continue_: str = ""
    remaining: int | None = None
    shard: str = ""
    """The shard selector that selected the objects."""

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the list."""
        members: dict[str, Any] = {"resourceVersion": str(self.revision)} if self.revision else {}
        if self.continue_:
            members["continue"] = self.continue_
            if self.remaining is not None:
                members["remainingItemCount"] = self.remaining
        return members


@dataclass(slots=True)
class Filter:
    """The selectors of a request."""

    labels: selectors.LabelTest | None
    terms: list[tuple[tuple[str, ...], bool, str]]
    names: list[tuple[str, bool]]
    shard: ShardSelector | None = None

    @property
    def every_shard(self) -> bool:
        """Whether all objects match in some shard."""
        return self.labels is None and not self.terms and not self.names

    @property
    def everything(self) -> bool:
        """Whether all objects match."""
        return self.shard is None and self.every_shard

    def matches(self, kind: Kind, snapshot: Snapshot, parsed: dict[Any, Any] | None = None) -> bool:
        """Return whether an object is selected; `parsed` caches decoded objects for other filters."""
        if self.shard is not None and not self.shard.selects(snapshot.namespace, snapshot.uid):
            return False
        if self.labels is not None and not self.labels(snapshot.labels):
            return False
        for name, equal in self.names:
            if (snapshot.name == name) is not equal:
                return False
        if self.terms:
            key = (id(kind), snapshot.revision)
            obj = None if parsed is None else parsed.get(key)
            if obj is None:
                obj = views.load(kind, snapshot)
                if parsed is not None:
                    parsed[key] = obj
            return all((_text(kind, obj, path) == value) is equal for path, equal, value in self.terms)
        return True


def _text(kind: Kind, obj: Object, path: tuple[str, ...]) -> str:
    """Return what a field selector compares."""
    if kind.custom is not None:
        return selectors.field_text(obj, path)
    instead = _INSTEAD.get(path)
    return selectors.field_text(obj, path, _MISSING.get(path, "")) or (_text(kind, obj, instead) if instead else "")


def find(context: ServerContext, operation: Operation) -> Snapshot:
    """Return the operation's object; 404 if it is missing."""
    snapshot = context.store.table(operation.kind.table).get(operation.namespace, operation.name)
    if snapshot is None:
        raise status.not_found(operation.kind.plural, operation.kind.group, operation.name)
    return snapshot


def get(context: ServerContext, operation: Operation, received: float) -> Snapshot:
    """Read one object, at least as new as `resourceVersion`."""
    # A real server reads Events from its storage, other kinds from its cache, which has other words.
    options = "list" if operation.kind.table == "events" else "GetOptions"
    wanted = parse_revision(operation.query.first("resourceVersion"), options)
    wait_for(context, wanted, received)
    return find(context, operation)


def parse_revision(text: str, options: str) -> int:
    """Parse a resourceVersion; 0 if it is missing."""
    if not text:
        return 0
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        message = f'strconv.ParseUint: parsing "{text}": invalid syntax'
        if options == "watch":
            raise bad_option("ListOptions", status.invalid_value("resourceVersion", text, message))
        if options == "GetOptions":
            # A real server answers without a reason.
            raise Failure(500, "", f"resourceVersion: Invalid value: {status.show(text)}: {message}")
        raise bad_request(f"invalid resource version {text!r}: {message}")
    return int(text)


def wait_for(context: ServerContext, revision: int, received: float) -> None:
    """Defer the request while `revision` is in the future."""
    if revision > context.store.revision:
        text = f"Too large resource version: {revision}, current: {context.store.revision}"
        raise NotYet(received + WAIT_SECONDS, status.timeout(text, too_large=True))


def make_filter(kind: Kind, operation: Operation) -> Filter:
    """Parse the selectors of a request."""
    return _build_filter(kind, *_parsed(operation.query))


def _parsed(query: Query) -> tuple[selectors.LabelTest | None, list[tuple[str, bool, str]]]:
    labels = selectors.parse_labels(query.first("labelSelector"))
    return labels, selectors.parse_fields(query.first("fieldSelector"))


def _build_filter(kind: Kind, labels: selectors.LabelTest | None, fields: list[tuple[str, bool, str]]) -> Filter:
    terms: list[tuple[tuple[str, ...], bool, str]] = []
    names: list[tuple[str, bool]] = []
    for label, equal, value in fields:
        if label == "metadata.name" or (label == "name" and kind.plural == "namespaces"):
            names.append((value, equal))
        elif label == "metadata.namespace" and (kind.namespaced or _knows_only_metadata(kind)):
            terms.append((("metadata", "namespace"), equal, value))
        elif label in kind.field_selectors:
            terms.append((kind.field_selectors[label], equal, value))
        else:
            raise bad_request(_unknown_field(kind, label))
    return Filter(labels, terms, names)


def _knows_only_metadata(kind: Kind) -> bool:
    """Return whether a built-in kind has no selectors of its own; such a kind has both fields in any scope."""
    return kind.custom is None and not kind.field_selectors


def _unknown_field(kind: Kind, label: str) -> str:
    """Return the message in the form that a real server has for the kind."""
    if _knows_only_metadata(kind):
        return f'"{label}" is not a known field selector: only "metadata.name", "metadata.namespace"'
    if kind.group == "batch":
        return f'field label "{label}" not supported for {kind.kind}'
    if kind.group == "resource.k8s.io":
        return f"field label not supported for {kind.api_version}, Kind={kind.kind}: {label}"
    return f"field label not supported: {label}"


def list_page(context: ServerContext, operation: Operation, received: float) -> Page:
    """Read a page of a collection."""
    query, table = operation.query, context.store.table(operation.kind.table)
    query.number("timeoutSeconds")
    query.number("limit")
    parsed = _parsed(query)
    if causes := list(_option_causes(query)):
        raise bad_option("ListOptions", *causes)
    selected = _build_filter(operation.kind, *parsed)
    selected.shard = read_shard(context, query)
    if query.first("continue") and query.first("resourceVersion") not in ("", "0"):
        raise bad_request("specifying resource version is not allowed when using continue")
    version, match, limit = query.first("resourceVersion"), query.first("resourceVersionMatch"), query.number("limit")
    revision, token, start = context.store.revision, query.first("continue"), ""
    namespace = operation.namespace if operation.kind.namespaced and operation.namespace else None
    if token:
        revision, start = _read_token(token)
        items = _at(context, table, revision, namespace, start)
        revision = context.store.revision if revision < 0 else revision
    else:
        wanted = parse_revision(version, "list")
        wait_for(context, wanted, received)
        if wanted and (match == "Exact" or (not match and limit)):
            revision, items = wanted, table.list_at(wanted, namespace)
        else:
            items = _named(table, selected, namespace)
        if version == "0" and match != "Exact":
            limit = None
    if start:
        items = [item for item in items if f"{item.namespace}/{item.name}\0" >= start]
    if selected.terms:
        views.prepare(operation.kind, items)
    page = _cut(operation.kind, selected, items, revision, limit)
    views.prepare(operation.kind, page.items)
    if selected.shard is not None:
        page.shard = selected.shard.text
    return page


def _named(table: Table, selected: Filter, namespace: str | None) -> list[Snapshot]:
    """List; if the selector names one object, look it up."""
    if namespace is not None and len(selected.names) == 1 and selected.names[0][1]:
        snapshot = table.get(namespace, selected.names[0][0])
        return [] if snapshot is None else [snapshot]
    return table.list(namespace)


def _cut(kind: Kind, selected: Filter, items: list[Snapshot], revision: int, limit: int | None) -> Page:
    if limit is None or limit <= 0:
        return Page(
            revision, items if selected.everything else [entry for entry in items if selected.matches(kind, entry)]
        )
    chosen: list[Snapshot] = []
    for index, item in enumerate(items, 1):
        if not selected.matches(kind, item):
            continue
        chosen.append(item)
        if len(chosen) == limit and index < len(items):
            # The next page begins with the next object, whether it is selected or not.
            token = _token(revision, f"{items[index].namespace}/{items[index].name}\0")
            # The objects of all shards are counted, also those that this page skipped.
            return Page(revision, chosen, token, len(items) - limit if selected.every_shard else None)
    return Page(revision, chosen)


def _option_causes(query: Query) -> Iterator[Cause]:
    version, match, field = query.first("resourceVersion"), query.first("resourceVersionMatch"), "resourceVersionMatch"
    if query.first("sendInitialEvents"):
        yield status.forbidden_field("sendInitialEvents", "sendInitialEvents is forbidden for list")
    if match and not version:
        yield status.forbidden_field(field, f"{field} is forbidden unless resourceVersion is provided")
    if match and query.first("continue"):
        yield status.forbidden_field(field, f"{field} is forbidden when continue is provided")
    if match not in ("", "Exact", "NotOlderThan"):
        yield status.not_supported(field, match, ("Exact", "NotOlderThan", ""))
    elif match == "Exact" and version == "0":
        yield status.forbidden_field(field, f'{field} "exact" is forbidden for resourceVersion "0"')


class _Token(msgspec.Struct, tag_field="v", tag="meta.k8s.io/v1"):
    rv: int
    start: str


def _token(revision: int, start: str) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(_Token(revision, start))).decode().rstrip("=")


def _read_token(text: str) -> tuple[int, str]:
    try:
        token = msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=_Token)
    except ValueError as error:
        raise bad_request("continue key is not valid") from error
    return token.rv, token.start


def _at(context: ServerContext, table: Table, revision: int, namespace: str | None, start: str) -> list[Snapshot]:
    if revision < 0:
        return table.list(namespace)
    if revision > context.store.revision:
        raise bad_request("continue key is not valid")
    try:
        return table.list_at(revision, namespace)
    except Failure as gone:
        text = "The provided continue parameter is too old to display a consistent list result."
        raise status.expired(text, _token(-1, start)) from gone


def encode_list(kind: Kind, page: Page) -> bytes:
    """Encode a page from the stored bytes, without type information for built-in kinds."""
    # A real server cannot say it in a list of custom objects, nor in a table or in one of metadata.
    shard = {"shardInfo": {"selector": page.shard}} if page.shard and kind.custom is None else {}
    metadata = page.metadata | shard
    head = msgspec.json.encode({"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": metadata})
    cut = 0 if kind.custom is not None else len(f'{{"apiVersion":"{kind.api_version}","kind":"{kind.kind}",')
    items = [b"{" + views.raw(kind, item)[cut:] if cut else views.raw(kind, item) for item in page.items]
    return b"".join((head[:-1], b',"items":[', b",".join(items), b"]}"))
