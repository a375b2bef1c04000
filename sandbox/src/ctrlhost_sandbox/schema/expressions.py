"""The CEL expressions of admission policies, compiled once for each text."""

from __future__ import annotations

from functools import lru_cache

from ctrlhost_sandbox._native import CelExpressions

Typed = tuple[tuple[str, str], ...]
"""Expressions with the types that they must have."""
Variables = tuple[tuple[str, str], ...]
"""Names and expressions."""


@lru_cache(maxsize=512)
def compiled(
    expressions: Typed,
    variables: Variables = (),
    *,
    params: bool = False,
    authorizer: bool = True,
    schema: str | None = None,
) -> CelExpressions:
    """Compile expressions that are evaluated together; `schema` is that of the objects, to check types."""
    return CelExpressions(expressions, variables, params=params, authorizer=authorizer, schema=schema)
