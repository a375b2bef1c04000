"""Limit ranges: defaults for the resources of containers, and the bounds of containers, pods and claims."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.admission import pod_resources
from ctrlhost_sandbox.admission.request import CREATE, DELETE
from ctrlhost_sandbox.apimachinery.status import joined
from ctrlhost_sandbox.schema.quantities import Amounts, Quantity, parsed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctrlhost_sandbox.admission.request import Request
    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.context import ServerContext

TABLE = "limitranges"
ANNOTATION = "kubernetes.io/limit-ranger"


def mutate(context: ServerContext, request: Request) -> None:
    """Set the default requests and limits of a new pod's containers."""
    if request.operation.kind.table != "pods" or not _concerns(request) or request.obj is None:
        return
    for limit_range in _ranges(context, request):
        _default(request.obj, limit_range)


def validate(context: ServerContext, request: Request) -> None:
    """Raise 403 for resources outside of the bounds."""
    if not _concerns(request) or request.obj is None:
        return
    for limit_range in _ranges(context, request):
        problems = list(dict.fromkeys(_problems(limit_range, request.obj)))
        if problems:
            raise request.forbidden(joined(problems))


def _concerns(request: Request) -> bool:
    table = request.operation.kind.table
    if table not in ("pods", "persistentvolumeclaims") or request.subresource or request.action == DELETE:
        return False
    # The resources of a pod cannot be changed.
    if table == "pods":
        return request.action == CREATE
    return request.old is None or "deletionTimestamp" not in request.old["metadata"]


def _ranges(context: ServerContext, request: Request) -> Iterator[Object]:
    for snapshot in context.store.table(TABLE).list(request.namespace):
        yield snapshot.decode()


def _default(pod: Object, limit_range: Object) -> None:
    defaults: dict[str, dict[str, str]] = {"requests": {}, "limits": {}}
    for limit in _of_type(limit_range, "Container"):
        defaults["requests"] |= limit.get("defaultRequest") or {}
        defaults["limits"] |= limit.get("default") or {}
    notes: list[str] = []
    spec = pod["spec"]
    for word, containers in (("container", spec.get("containers")), ("init container", spec.get("initContainers"))):
        for container in containers or ():
            notes += _fill(container, defaults, word)
    if notes:
        annotations = pod["metadata"].setdefault("annotations", {})
        annotations[ANNOTATION] = f"LimitRanger plugin set: {'; '.join(notes)}"


def _fill(container: dict[str, Any], defaults: dict[str, dict[str, str]], word: str) -> Iterator[str]:
    """Set the missing resources of a container; say which."""
    for part, values in defaults.items():
        own = (container.get("resources") or {}).get(part) or {}
        missing = {name: text for name, text in values.items() if name not in own}
        if missing:
            container.setdefault("resources", {})[part] = {**own, **missing}
            yield f"{', '.join(sorted(missing))} {part.removesuffix('s')} for {word} {container.get('name', '')}"


def _of_type(limit_range: Object, name: str) -> Iterator[dict[str, Any]]:
    return (limit for limit in limit_range["spec"].get("limits") or () if limit.get("type") == name)


def _problems(limit_range: Object, obj: Object) -> Iterator[str]:
    spec = obj["spec"]
    if obj["kind"] == "PersistentVolumeClaim":
        requests = pod_resources.of_container(spec, "requests")
        for limit in _of_type(limit_range, "PersistentVolumeClaim"):
            yield from _below_minimum(limit, requests, {})
            yield from _above_maximum_request(limit, requests)
        return
    for limit in limit_range["spec"].get("limits") or ():
        if limit.get("type") == "Container":
            for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
                parts = (pod_resources.of_container(container, part) for part in ("requests", "limits"))
                yield from _out_of_bounds(limit, *parts)
        elif limit.get("type") == "Pod":
            yield from _out_of_bounds(limit, *(pod_resources.total(spec, part) for part in ("requests", "limits")))


def _out_of_bounds(limit: dict[str, Any], requests: Amounts, limits: Amounts) -> Iterator[str]:
    yield from _below_minimum(limit, requests, limits)
    yield from _above_maximum(limit, requests, limits)
    yield from _beyond_ratio(limit, requests, limits)


def _below_minimum(limit: dict[str, Any], requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, bound in parsed(limit.get("min")).items():
        text = f"minimum {name} usage per {limit['type']} is {bound}"
        if name not in requests:
            yield f"{text}.  No request is specified"
        elif requests[name].amount < bound.amount:
            yield f"{text}, but request is {requests[name]}"
        elif name in limits and limits[name].amount < bound.amount:
            yield f"{text}, but limit is {limits[name]}"


def _above_maximum(limit: dict[str, Any], requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, bound in parsed(limit.get("max")).items():
        text = f"maximum {name} usage per {limit['type']} is {bound}"
        if name not in limits:
            yield f"{text}.  No limit is specified"
        elif limits[name].amount > bound.amount:
            yield f"{text}, but limit is {limits[name]}"
        elif name in requests and requests[name].amount > bound.amount:
            yield f"{text}, but request is {requests[name]}"


def _above_maximum_request(limit: dict[str, Any], requests: Amounts) -> Iterator[str]:
    for name, bound in parsed(limit.get("max")).items():
        text = f"maximum {name} usage per {limit['type']} is {bound}"
        if name not in requests:
            yield f"{text}.  No request is specified"
        elif requests[name].amount > bound.amount:
            yield f"{text}, but request is {requests[name]}"


def _beyond_ratio(limit: dict[str, Any], requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, bound in parsed(limit.get("maxLimitRequestRatio")).items():
        text = f"{name} max limit to request ratio per {limit['type']} is {bound}, but"
        request, most = requests.get(name, Quantity()), limits.get(name, Quantity())
        if not request.amount:
            yield f"{text} no request is specified or request is 0"
        elif not most.amount:
            yield f"{text} no limit is specified or limit is 0"
        elif most.amount / request.amount > bound.amount:
            yield f"{text} provided ratio is {float(most.amount / request.amount):.6f}"
