"""Pods with scheduling gates: an update may narrow down the nodes that they fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ctrlhost_sandbox.apimachinery.status import Cause

_ADDITIONS = "only additions are allowed (no mutations or deletions)"
_TERMS = "requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"


def placement_causes(spec: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[Cause]:
    """Check that an update only adds to the node selector, and to each term of the node affinity."""
    selector = spec.get("nodeSelector") or {}
    if any(selector.get(key) != value for key, value in (before.get("nodeSelector") or {}).items()):
        text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        yield status.invalid_value("spec.nodeSelector", selector or None, text)
    terms, old, path = _terms(spec), _terms(before), f"spec.affinity.nodeAffinity.{_TERMS}"
    if old and len(old) != len(terms):
        text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        yield status.invalid_value(path, terms or None, text)
        return
    for index, (term, was) in enumerate(zip(terms, old, strict=False)):
        if not _adds(term, was):
            yield status.invalid_value(f"{path}[{index}]", term, _ADDITIONS)


def placed_as(spec: dict[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """Return a spec with the node selector and the node affinity of another one."""
    old = (before.get("affinity") or {}).get("nodeAffinity")
    affinity = {**(spec.get("affinity") or {}), "nodeAffinity": old}
    kept = {
        "nodeSelector": before.get("nodeSelector"),
        "affinity": {key: item for key, item in affinity.items() if item},
    }
    return {
        **{key: item for key, item in spec.items() if key not in kept},
        **{key: item for key, item in kept.items() if item},
    }


def _terms(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return list(required.get("nodeSelectorTerms") or ())


def _adds(term: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Return whether a term has all requirements of another one in their places; nothing is added to an empty one."""
    lists = [(term.get(name) or [], before.get(name) or []) for name in ("matchExpressions", "matchFields")]
    if not any(old for _, old in lists):
        return not any(new for new, _ in lists)
    return all(new[: len(old)] == old for new, old in lists)
