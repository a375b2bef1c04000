"""Request bodies in protobuf, as kubectl and client-go send them for built-in kinds."""

from __future__ import annotations

from typing import Any

import msgspec

from ctrlhost_sandbox._native import json_from_protobuf
from ctrlhost_sandbox.apimachinery.status import bad_request
from ctrlhost_sandbox.schema.shapes import of_kind

MAGIC = b"k8s\0"


def decode(body: bytes) -> dict[str, Any]:
    """Decode an enveloped object; 400 if it is invalid, LookupError if its kind is not served."""
    if not body.startswith(MAGIC):
        raise bad_request("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    try:
        api_version, kind, text = json_from_protobuf(body)
    except ValueError as error:
        raise bad_request(f"unable to decode the protobuf message: {error}") from error
    group, _, version = api_version.rpartition("/")
    if kind != "DeleteOptions" and of_kind(group, version, kind) is None:
        raise LookupError(kind)
    decoded: dict[str, Any] = msgspec.json.decode(text)
    return {**decoded, "apiVersion": api_version, "kind": kind}
