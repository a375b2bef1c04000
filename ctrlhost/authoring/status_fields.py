"""Fields of a status that every object would need: one that is new has none of them."""

from __future__ import annotations

from types import NoneType
from typing import Any, get_args, get_origin

import msgspec


def required_status_fields(model: type[Any]) -> list[str]:
    """Return the fields of a struct's status that have no default, and `status` itself if it has none."""
    status = next((field for field in msgspec.structs.fields(model) if field.encode_name == "status"), None)
    if status is None or status.type is NoneType:
        return []
    required = ["status"] if status.required else []
    for member in (status.type, *get_args(status.type)):
        struct = get_origin(member) or member
        if isinstance(struct, type) and issubclass(struct, msgspec.Struct):
            required += [f"status.{field.name}" for field in msgspec.structs.fields(struct) if field.required]
    return required
