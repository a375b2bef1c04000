"""The CustomResourceDefinition that the plugin owns, as a YAML file."""

from __future__ import annotations

from importlib import resources
from typing import Any

import yaml


def crds() -> list[dict[str, Any]]:
    """Read it; every call gives fresh dicts."""
    text = resources.files("ctrlhost_bitcoin").joinpath("bitcoinnetworks.yaml").read_text(encoding="utf-8")
    return [yaml.safe_load(text)]
