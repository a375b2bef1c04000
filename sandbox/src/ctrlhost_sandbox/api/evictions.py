"""Evictions: deletions of pods that respect PodDisruptionBudgets, as upstream's eviction sub-resource."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status, times
from ctrlhost_sandbox.apimachinery.objects import condition, is_true
from ctrlhost_sandbox.apimachinery.selectors import match_selector
from ctrlhost_sandbox.apimachinery.status import Cause, Failure, bad_request
from ctrlhost_sandbox.registry import meta, views
from ctrlhost_sandbox.registry.operation import Operation
from ctrlhost_sandbox.verbs import deletes, reads, writes

if TYPE_CHECKING:
    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.context import ServerContext

_MOST_DISRUPTED = 2000
_REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."


def evict(context: ServerContext, operation: Operation, body: Any) -> None:
    """Delete a pod; 429 while its budget allows no disruption."""
    if type(body) is not dict or meta.ensure_metadata(body).get("name") != operation.name:
        raise bad_request("name in URL does not match name in Eviction object")
    options = deletes.read_options(operation, body.get("deleteOptions"))
    snapshot = reads.find(context, operation)
    pod = views.load(operation.kind, snapshot)
    ignorable = pod["status"].get("phase") in ("Succeeded", "Failed", "Pending")
    if not ignorable and "deletionTimestamp" not in pod["metadata"]:
        _ask_budget(context, operation, pod)
    if not operation.dry_run and options.version in ("", str(snapshot.revision)):
        version = _mark(context, operation, pod)
        options.version = options.version and version
    deletes.delete(context, operation, options)


def _ask_budget(context: ServerContext, operation: Operation, pod: Object) -> None:
    kind = context.registry.builtin("policy", "PodDisruptionBudget")
    namespace, labels = operation.namespace, pod["metadata"].get("labels") or {}
    stored = [views.load(kind, budget) for budget in context.store.table(kind.table).list(namespace)]
    budgets = [budget for budget in stored if match_selector((budget.get("spec") or {}).get("selector"), labels)]
    if len(budgets) > 1:
        text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise Failure(500, "", text)
    if not budgets:
        return
    (budget,) = budgets
    state = budget.get("status") or {}
    healthy, wanted = state.get("currentHealthy", 0), state.get("desiredHealthy", 0)
    if not is_true(pod, "Ready"):
        always = (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
        if always or healthy >= wanted > 0:
            return
    _check(budget)
    state["disruptionsAllowed"] -= 1
    state.setdefault("disruptedPods", {})[operation.name] = times.now()
    if not operation.dry_run:
        writing = Operation("update", kind, namespace, budget["metadata"]["name"], "status", manager=operation.manager)
        writes.update(context, writing, budget)


def _check(budget: Object) -> None:
    """Raise if the budget allows no disruption now."""
    name, state = budget["metadata"]["name"], budget.get("status") or {}
    if state.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _refused(f"The disruption budget {name} is still being processed by the server.", 10)
    if len(state.get("disruptedPods") or ()) > _MOST_DISRUPTED:
        text = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise status.forbidden("poddisruptionbudget", "policy", name, text)
    if state.get("disruptionsAllowed", 0) > 0:
        return
    healthy, wanted = state.get("currentHealthy", 0), state.get("desiredHealthy", 0)
    allowed = condition(budget, "DisruptionAllowed") or {}
    failed = allowed.get("reason") == "SyncFailed" and allowed.get("message")
    if failed:
        text = f"does not allow evicting pods currently because it failed sync: {allowed['message']}"
    elif healthy <= wanted:
        text = f"needs {wanted} healthy pods and has {healthy} currently"
    else:
        text = "does not allow evicting pods currently"
    raise _refused(f"The disruption budget {name} {text}", None)


def _refused(text: str, retry_after: int | None) -> Failure:
    causes = [Cause("DisruptionBudget", text)]
    return Failure(429, "TooManyRequests", _REFUSED, causes=causes, retry_after=retry_after)


def _mark(context: ServerContext, operation: Operation, pod: Object) -> str:
    """Set the condition that says why the pod is deleted; return the pod's new version."""
    namespace, name = operation.namespace, operation.name
    writing = Operation("update", operation.kind, namespace, name, "status", manager=operation.manager)
    pod["status"]["conditions"] = [
        *(entry for entry in pod["status"].get("conditions") or () if entry["type"] != "DisruptionTarget"),
        {
            "type": "DisruptionTarget",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": times.now(),
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        },
    ]
    return str(writes.update(context, writing, pod).obj["metadata"]["resourceVersion"])
