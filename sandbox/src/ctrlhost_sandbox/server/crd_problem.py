"""What a server answers to a CustomResourceDefinition, without a server."""

from __future__ import annotations

import asyncio
import copy
from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery.status import Failure
from ctrlhost_sandbox.context import Options, ServerContext
from ctrlhost_sandbox.registry.operation import Operation
from ctrlhost_sandbox.verbs.writes import create

if TYPE_CHECKING:
    from collections.abc import Mapping


def crd_problem(crd: Mapping[str, Any]) -> str | None:
    """Return why a server refuses to create a CRD, in its words; None for a valid one.

    Unknown fields are refused, as for `kubectl apply`.
    """
    loop = asyncio.new_event_loop()
    try:
        context = ServerContext(Options(), loop)
        kind = context.registry.builtin("apiextensions.k8s.io", "CustomResourceDefinition")
        create(context, Operation("create", kind, dry_run=True, field_validation="Strict"), copy.deepcopy(dict(crd)))
    except Failure as failure:
        return failure.message
    finally:
        loop.close()
    return None
