"""Answers of an API server in protobuf, built field by field."""

from __future__ import annotations

from typing import Any

MEDIA = "application/vnd.kubernetes.protobuf"
WATCH_MEDIA = f"{MEDIA};stream=watch"
_MAGIC = b"k8s\x00"


def varint(number: int) -> bytes:
    out = bytearray()
    number &= (1 << 64) - 1
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def message(*fields: tuple[int, bytes | str | int]) -> bytes:
    """Write fields by number: numbers as varints, everything else with its length."""
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(data)) + data
    return out


def string_map(number: int, content: dict[str, str]) -> list[tuple[int, bytes]]:
    return [(number, message((1, key), (2, value))) for key, value in content.items()]


def envelope(api_version: str, kind: str, raw: bytes, *more: tuple[int, bytes | str | int]) -> bytes:
    kinds = message((1, api_version), (2, kind))
    return _MAGIC + message((1, kinds), (2, raw), *(more or ((3, ""), (4, ""))))


def metadata(name: str, version: int | str, *more: tuple[int, bytes | str | int], **labels: str) -> bytes:
    fields: list[tuple[int, bytes | str | int]] = [(1, name), (2, ""), (3, "default"), (4, ""), (5, f"uid-{name}")]
    return message(*fields, (6, str(version)), (7, 0), *string_map(11, labels), *more)


def pod(name: str, version: int | str, *spec: tuple[int, bytes | str | int], **labels: str) -> bytes:
    """Return what `stub_api_server.pod` describes, with further fields of the spec."""
    return message((1, metadata(name, version, **labels)), (2, message((10, "n1"), *spec)))


def pod_list(version: int | str, *pods: bytes, continue_: str = "", remaining: int | None = None) -> bytes:
    about: list[tuple[int, Any]] = [(1, ""), (2, str(version)), (3, continue_)]
    if remaining is not None:
        about.append((4, remaining))
    return envelope("v1", "PodList", message((1, message(*about)), *((2, item) for item in pods)))


def metadata_list(version: int | str, *objects: bytes) -> bytes:
    """Return a `PartialObjectMetadataList` of objects that `metadata` made."""
    items = ((2, message((1, obj))) for obj in objects)
    return envelope("meta.k8s.io/v1", "PartialObjectMetadataList", message((1, message((2, str(version)))), *items))


def frame(kind: str, obj: bytes) -> bytes:
    """Return a frame of a watch with an envelope."""
    event = message((1, kind), (2, message((1, obj))))
    return len(event).to_bytes(4, "big") + event


def event(kind: str, pod: bytes) -> bytes:
    return frame(kind, envelope("v1", "Pod", pod))


def bookmark(version: int | str, *, initial_end: bool = False) -> bytes:
    end = string_map(12, {"k8s.io/initial-events-end": "true"}) if initial_end else []
    return event("BOOKMARK", message((1, message((6, str(version)), *end))))


def status(
    code: int, reason: str = "", text: str = "", *, retry_after: int = 0, causes: tuple[tuple[str, str, str], ...] = ()
) -> bytes:
    """Return a `Status` in its envelope; causes are reason, message and field."""
    details = [(4, message((1, why), (2, what), (3, field))) for why, what, field in causes]
    if retry_after:
        details.append((5, retry_after))  # type: ignore[arg-type]
    fields: list[tuple[int, Any]] = [(1, b""), (2, "Failure"), (3, text), (4, reason)]
    return envelope("v1", "Status", message(*fields, (5, message(*details)), (6, code)))


def error_event(code: int, reason: str = "", text: str = "", *, retry_after: int = 0) -> bytes:
    return frame("ERROR", status(code, reason, text, retry_after=retry_after))
