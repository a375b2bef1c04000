"""RuntimeClasses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost.sandbox.kinds.cells import created
from ctrlhost.sandbox.kinds.checks import named, required, unchanged
from ctrlhost.sandbox.kinds.strategy import BuiltinStrategy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctrlhost.sandbox.apimachinery.objects import Object


class _RuntimeClasses(BuiltinStrategy):
    """The handler of a class is immutable."""

    columns = "Handler Age"
    checks = (required("handler"), named("label", "handler"), unchanged("handler"))

    def cells(self, obj: Object) -> Sequence[Any]:
        return (obj.get("handler", ""), created(obj))


STRATEGIES = {("node.k8s.io", "RuntimeClass"): _RuntimeClasses()}
