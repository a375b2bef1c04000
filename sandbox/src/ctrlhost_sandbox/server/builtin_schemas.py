"""The OpenAPI schemas of built-in kinds, without a server."""

from __future__ import annotations

from typing import Any

from ctrlhost_sandbox.api.openapi import document
from ctrlhost_sandbox.context import Options
from ctrlhost_sandbox.registry.builtin import builtin_kinds


def builtin_schemas(api_version: str) -> dict[str, Any]:
    """Return the schemas of the built-in kinds of `group/version`, and those that they refer to, by name.

    As the components of the document that a server has at `/openapi/v3`; empty if no kind is of this version.
    """
    kinds = [kind for kind in builtin_kinds() if kind.api_version == api_version]
    schemas: dict[str, Any] = document(kinds, Options().version)["components"]["schemas"]
    return schemas
