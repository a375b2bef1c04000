"""The plugin's CustomResourceDefinitions, as YAML files."""

from __future__ import annotations

from typing import Any

import ctrlhost


def crds() -> list[dict[str, Any]]:
    """Return the CRDs as fresh dicts."""
    return ctrlhost.crds_from(__name__, "providerhosts.yaml", "manifests.yaml")
