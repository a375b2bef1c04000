"""The CustomResourceDefinition of the plugin."""

from __future__ import annotations

from typing import Any

import ctrlhost


def crds() -> list[dict[str, Any]]:
    """Return the CRDs as fresh dicts."""
    return ctrlhost.crds_from("ctrlhost_bitcoin", "bitcoinnetworks.yaml")
