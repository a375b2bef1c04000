"""A kustomize base: a file for each object, and the kustomization that lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost.manifests.folders import file_names
from ctrlhost.yaml_text import dump_document

if TYPE_CHECKING:
    from collections.abc import Sequence


def kustomization(documents: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return the files of the base by their names."""
    names = file_names(documents)
    base = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": names}
    objects = {name: dump_document(document) for name, document in zip(names, documents, strict=True)}
    return {"kustomization.yaml": dump_document(base), **objects}
