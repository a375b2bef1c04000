"""Plural and scope of the kinds that every API server has, so that the usual case needs no discovery."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlhost._core import builtin_resources
from ctrlhost.suggestions import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Plural, and whether it is namespaced, by kind within group and version; the core group first.
BUILTIN_KINDS: dict[str, dict[str, tuple[str, bool]]] = {"v1": {}}
#: Those that have a status subresource, as apiVersion and kind; reviews are answered and never stored.
_WITH_STATUS: set[tuple[str, str]] = set()
for _version, _kind, _plural, _namespaced, _has_status in builtin_resources():
    BUILTIN_KINDS.setdefault(_version, {})[_kind] = (_plural, _namespaced)
    if _has_status and not _kind.endswith("Review"):
        _WITH_STATUS.add((_version, _kind))


def has_status(api_version: str, kind: str) -> bool | None:
    """Return whether a built-in kind has a status subresource; None for any other kind."""
    return (api_version, kind) in _WITH_STATUS if builtin_plural(api_version, kind) is not None else None


def builtin_plural(api_version: str, kind: str) -> tuple[str, bool] | None:
    """Return the plural of a built-in kind and whether it is namespaced; None for any other kind."""
    return BUILTIN_KINDS.get(api_version, {}).get(kind)


def builtin_kind(api_version: str, plural: str) -> tuple[str, bool] | None:
    """Return the built-in kind of a plural and whether it is namespaced; None for any other plural."""
    kinds = BUILTIN_KINDS.get(api_version, {}).items()
    return next(((kind, namespaced) for kind, (known, namespaced) in kinds if known == plural), None)


def spelt(kind: str, kinds: Mapping[str, tuple[str, bool]]) -> str | None:
    """Return the kind that was written with another case or in the plural; None if no known one was."""
    written = kind.lower()
    return next((known for known, (plural, _) in kinds.items() if written in (known.lower(), plural)), None)


def builtin_elsewhere(api_version: str, kind: str) -> str | None:
    """Return the question for the group and version in which Kubernetes has the kind; None unless one is alike.

    A group that is a domain may have a kind of its own of any name.
    """
    versions = {version: known for version, kinds in BUILTIN_KINDS.items() if (known := spelt(kind, kinds))}
    elsewhere = nearest(api_version, versions, least=0.6 if "." in api_version else 0.0)
    return f"did you mean `{versions[elsewhere]}` in {elsewhere}?" if elsewhere else None
