"""The plugin's CustomResourceDefinitions, as YAML files."""

from __future__ import annotations

from importlib import resources
from typing import Any

import yaml


def crds() -> list[dict[str, Any]]:
    """Return the CRDs as fresh dicts."""
    return [
        yaml.safe_load(resources.files(__name__).joinpath(file).read_text(encoding="utf-8"))
        for file in ("providerhosts.yaml", "manifests.yaml")
    ]
