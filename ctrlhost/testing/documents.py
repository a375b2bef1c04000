"""Objects as a test writes them: files, YAML texts, mappings and models."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctrlhost.models.typed_objects import mapping_of
from ctrlhost.yaml_text import load_objects

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctrlhost.models.typed_objects import AnyObject


def documents(what: Any) -> Iterator[dict[str, Any]]:
    """Return the objects of a path, a YAML text, a mapping or a model, in their order.

    A string with more than one line, or that begins with `{`, is YAML; any other is a path. ValueError, which names the
    file, for a document that is no object; TypeError for anything else.
    """
    if isinstance(what, str) and ("\n" in what or what.lstrip().startswith("{")):
        yield from _of_text(what, "the text")
    elif isinstance(what, (str, os.PathLike)):
        yield from _of_text(_content(what), str(what))
    elif isinstance(what, Mapping):
        to_dict = getattr(what, "to_dict", None)
        yield to_dict() if callable(to_dict) else dict(what)
    else:
        yield _of_typed(what)


def _content(path: str | os.PathLike[str]) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        if isinstance(path, str):
            error.add_note("a string of one line is a path; a YAML text has several lines, or begins with `{`")
        raise


def _of_text(text: str, where: str) -> list[dict[str, Any]]:
    try:
        return load_objects(text)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def _of_typed(obj: AnyObject) -> dict[str, Any]:
    """Return what a typed object sets: without its status, and without what is None or empty in its metadata."""
    try:
        content = dict(mapping_of(obj))
    except TypeError as error:
        raise TypeError(f"an object is a path, a YAML text, a mapping or a model: {error}") from None
    content.pop("status", None)
    metadata = {name: value for name, value in content.get("metadata", {}).items() if value not in ("", 0, {}, [])}
    return {**content, "metadata": metadata}
