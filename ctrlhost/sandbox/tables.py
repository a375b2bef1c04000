"""Objects as tables and as metadata alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ctrlhost.sandbox import reads, views

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.sandbox.call import Call
    from ctrlhost.sandbox.kinds import Kind
    from ctrlhost.sandbox.negotiation import Accepted


def partial(raw: bytes, version: str) -> bytes:
    """Keep an object's metadata only."""
    obj = msgspec.json.decode(raw)
    return views.encode(
        {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}", "metadata": obj["metadata"]}
    )


def presenter(kind: Kind, call: Call, accepted: Accepted) -> Callable[[bytes], bytes] | None:
    """Give what turns a watched object into the form that was asked for; None if it stays as it is."""
    if accepted.form == "PartialObjectMetadata":
        return lambda raw: partial(raw, accepted.version)
    return None


def present_object(call: Call, accepted: Accepted, raw: bytes) -> bytes:
    """Put one object into the form that was asked for."""
    return partial(raw, accepted.version) if accepted.form == "PartialObjectMetadata" else raw


def present_list(call: Call, accepted: Accepted, page: reads.Page) -> bytes:
    """Put a list into the form that was asked for."""
    if accepted.form == "PartialObjectMetadataList":
        metadata: dict[str, object] = {"resourceVersion": str(page.revision)}
        if page.continue_:
            metadata["continue"] = page.continue_
        head = {"kind": accepted.form, "apiVersion": f"meta.k8s.io/{accepted.version}", "metadata": metadata}
        items = [partial(views.raw(call.kind, item), accepted.version) for item in page.items]
        return msgspec.json.encode(head)[:-1] + b',"items":[' + b",".join(items) + b"]}"
    return reads.encode_list(call.kind, page)
