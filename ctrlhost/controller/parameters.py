"""The run-time base of generic classes whose type parameters have defaults (PEP 696).

A type checker sees `typing.Generic` in its place, with the type variables of `typing_extensions`. At run time
`typing.Generic` would not take fewer parameters, and `typing_extensions` is no dependency.
"""

from __future__ import annotations

from types import GenericAlias
from typing import Any


class Parameters:
    """Takes any number of type parameters, and ignores them."""

    __slots__ = ()
    __class_getitem__: Any = classmethod(GenericAlias)
