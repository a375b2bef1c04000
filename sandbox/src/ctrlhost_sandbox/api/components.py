"""ComponentStatuses: the parts of this server, computed for each request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.registry import views
from ctrlhost_sandbox.storage.store import Snapshot
from ctrlhost_sandbox.verbs import reads

if TYPE_CHECKING:
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.registry.operation import Operation

TABLE = "componentstatuses"


def find(context: ServerContext, operation: Operation) -> Snapshot:
    """Return the status of one part; 404 if there is no such part."""
    for component in _all(context):
        if component.name == operation.name:
            return component
    raise status.not_found("componentstatus", "", operation.name)


def page(context: ServerContext, operation: Operation) -> reads.Page:
    """Return the selected parts."""
    selected = reads.make_filter(operation.kind, operation)
    return reads.Page(0, [component for component in _all(context) if selected.matches(operation.kind, component)])


def _all(context: ServerContext) -> list[Snapshot]:
    chosen = context.options.controllers
    return [
        _status("controller-manager", "" if chosen else "no controller is enabled"),
        _status("scheduler", "" if "scheduler" in chosen else "the controller `scheduler` is not enabled"),
        _status("etcd-0", ""),
    ]


def _status(name: str, problem: str) -> Snapshot:
    healthy = {"type": "Healthy", "status": "False" if problem else "True", "message": problem or "ok"}
    body = {"apiVersion": "v1", "kind": "ComponentStatus", "metadata": {"name": name}, "conditions": [healthy]}
    return Snapshot(views.encode(body), 0, "", name, "", {}, (), None, TABLE)
