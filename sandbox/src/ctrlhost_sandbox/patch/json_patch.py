"""JSON patch (RFC 6902) and merge patch (RFC 7386)."""

from __future__ import annotations

import copy
from functools import reduce
from typing import Any

import msgspec

from ctrlhost_sandbox.apimachinery.objects import same
from ctrlhost_sandbox.apimachinery.status import Failure, bad_request

MAX_OPERATIONS = 10_000
MAX_COPIED_BYTES = 3 << 20
"""The size of all copied values of a patch, as JSON; copies of copies double."""


class PatchError(Exception):
    """The patch is well-formed but does not fit the document."""


class TestFailed(PatchError):
    """A test operation found another value."""


def json_patch(document: Any, operations: Any) -> Any:
    """Apply a list of operations to a copy of `document`."""
    if type(operations) is not list:
        raise bad_request("json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    if len(operations) > MAX_OPERATIONS:
        text = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}"
        raise Failure(413, "RequestEntityTooLarge", text)
    holder = {"": copy.deepcopy(document)}
    left = MAX_COPIED_BYTES
    for operation in operations:
        if type(operation) is not dict:
            raise bad_request("json: cannot unmarshal value into Go value of type jsonpatch.Operation")
        left -= _operate(holder, operation, left)
    if type(holder[""]) not in (dict, list):
        raise PatchError("the result is not a document")
    return holder[""]


def _operate(holder: dict[str, Any], operation: dict[str, Any], left: int) -> int:
    """Apply one operation that copies at most `left` bytes; return how many it copied."""
    name, path = operation.get("op"), operation.get("path")
    if type(path) is not str:
        raise PatchError("missing path")
    if name in ("add", "replace", "test") and "value" not in operation:
        raise PatchError("missing value")
    if not path and name in ("add", "remove", "move", "copy"):
        # Upstream's library allows the whole document only for replace and test.
        raise PatchError(f"{name} of the whole document")
    pointer = _pointer(path)
    if name == "add":
        _add(holder, pointer, copy.deepcopy(operation["value"]))
    elif name == "remove":
        _remove(holder, pointer)
    elif name == "replace":
        parent, last = _parent(holder, pointer)
        parent[_index(parent, last)] = copy.deepcopy(operation["value"])
    elif name == "test":
        _test(holder, pointer, operation["value"])
    elif name in ("move", "copy"):
        source = operation.get("from")
        if type(source) is not str or not source:
            raise PatchError("missing from")
        parent, last = _parent(holder, _pointer(source))
        if name == "move":
            if path.startswith(source + "/"):
                raise PatchError("cannot move a value into itself")
            value = _step(parent, last)
            _remove(holder, _pointer(source))
            _add(holder, pointer, value)
        else:
            # Upstream's library copies null from a missing key.
            raw = msgspec.json.encode(parent.get(last) if type(parent) is dict else _step(parent, last))
            if len(raw) > left:
                raise PatchError("the copied values are too large")
            _add(holder, pointer, msgspec.json.decode(raw))
            return len(raw)
    else:
        raise PatchError(f"unexpected kind: {name}")
    return 0


def _pointer(text: str) -> list[str]:
    if text and not text.startswith("/"):
        raise PatchError(f"not a JSON pointer: {text}")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")]


def _parent(holder: dict[str, Any], pointer: list[str]) -> tuple[Any, str]:
    value = _get(holder, pointer[:-1])
    if type(value) not in (dict, list):
        raise PatchError("the path leads through a scalar")
    return value, pointer[-1]


def _index(parent: Any, part: str, *, end: bool = False) -> Any:
    if type(parent) is dict:
        return part
    if end and part == "-":
        return len(parent)
    if not part.isascii() or not part.isdigit() or len(part) > 9 or (len(part) > 1 and part[0] == "0"):
        raise PatchError(f"not a list index: {part}")
    index = int(part)
    if index > len(parent) or (index == len(parent) and not end):
        raise PatchError(f"the index is out of bounds: {part}")
    return index


def _step(value: Any, part: str) -> Any:
    if type(value) is dict and part in value:
        return value[part]
    if type(value) is list:
        return value[_index(value, part)]
    raise PatchError(f"missing key: {part}")


def _get(holder: dict[str, Any], pointer: list[str]) -> Any:
    return reduce(_step, pointer, holder)


def _test(holder: dict[str, Any], pointer: list[str], wanted: Any) -> None:
    try:
        value = _get(holder, pointer)
    except PatchError:
        value = None
    if not same(value, wanted):
        raise TestFailed(f"testing value {'/'.join(pointer)} failed: test failed")


def _add(holder: dict[str, Any], pointer: list[str], value: Any) -> None:
    parent, last = _parent(holder, pointer)
    if type(parent) is dict:
        parent[last] = value
    else:
        parent.insert(_index(parent, last, end=True), value)


def _remove(holder: dict[str, Any], pointer: list[str]) -> None:
    parent, last = _parent(holder, pointer)
    if type(parent) is dict and last not in parent:
        path = "/".join(pointer)
        raise PatchError(f"error in remove for path: '{path}': Unable to remove nonexistent key: {last}: missing value")
    del parent[_index(parent, last)]


def merge_patch(document: Any, patch: Any) -> Any:
    """Apply a merge patch; the result shares the document's unchanged parts.

    Unlike in the RFC, and as in a real server, objects in lists lose their nulls.
    """
    if type(patch) is list:
        return [merge_patch(None, item) for item in patch]
    if type(patch) is not dict:
        return patch
    result = dict(document) if type(document) is dict else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result
