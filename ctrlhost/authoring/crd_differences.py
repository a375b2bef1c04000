"""Where the CRDs of a file differ from those that a plugin's models and files define."""

from __future__ import annotations

from difflib import unified_diff
from typing import TYPE_CHECKING, Any

from ctrlhost.declarative.crds import generated_crds
from ctrlhost.declarative.plugin import Plugin
from ctrlhost.errors import ConfigError
from ctrlhost.supervisor.crd_changes import newly_required
from ctrlhost.yaml_text import dump_document, load_objects

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ctrlhost.supervisor.loader import Plugin as LoadedPlugin


def defined_crds(plugins: Iterable[LoadedPlugin]) -> list[dict[str, Any]]:
    """Return the CRDs of plugins, generated from models where there are some, even if a file of a plugin wins."""
    crds: dict[str, dict[str, Any]] = {}
    for plugin in plugins:
        for crd in plugin.crds():
            crds.setdefault(crd["metadata"]["name"], crd)
        if isinstance(plugin.implementation, Plugin):
            for crd in generated_crds(plugin.implementation.declaration):
                crds[crd["metadata"]["name"]] = crd
    return list(crds.values())


def differences(file: str, text: str, expected: Sequence[Mapping[str, Any]]) -> tuple[str, list[str]]:
    """Return a unified diff from the CRDs of a file's text to the expected ones; empty if they are equal.

    Comments, the order of the documents and of the fields, and `status` do not count. Also return a line for each CRD
    by which objects that are stored become invalid. ConfigError if the file is not YAML, or has another object than a
    CRD.
    """
    try:
        documents = load_objects(text)
    except ValueError as error:
        raise ConfigError(f"{file}: {error}") from None
    for document in documents:
        if document.get("kind") != "CustomResourceDefinition":
            raise ConfigError(f"{file} has an object that is not a CustomResourceDefinition")
    known = {_name(crd): crd for crd in documents}
    warnings = [
        f"{_name(crd)}: objects that were stored without {path} become invalid; give it a default, or None"
        for crd in expected
        if _name(crd) in known
        for path in sorted({*newly_required(known[_name(crd)], crd)})
    ]
    return "".join(unified_diff(_lines(documents), _lines(expected), file, "plugins")), warnings


def _lines(crds: Iterable[Mapping[str, Any]]) -> list[str]:
    lines: list[str] = []
    for crd in sorted(crds, key=_name):
        content = {name: value for name, value in crd.items() if name != "status"}
        lines += ["---\n", *dump_document(content, sort_keys=True).splitlines(keepends=True)]
    return lines


def _name(crd: Mapping[str, Any]) -> str:
    metadata = crd.get("metadata")
    return str(metadata.get("name")) if isinstance(metadata, dict) else ""
