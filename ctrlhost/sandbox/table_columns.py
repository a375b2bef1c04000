"""The columns of the built-in kinds' tables: their heads as data, their cells as one function per kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ctrlhost.sandbox.apimachinery.durations import age
from ctrlhost.sandbox.apimachinery.selectors import selector_text
from ctrlhost.sandbox.pod_status import pod_cells

Object = Mapping[str, Any]
Cells = Callable[[Object], Sequence[Any]]
NONE = "<none>"


def _created(obj: Object) -> str:
    return age(obj["metadata"].get("creationTimestamp"))


def _images(obj: Object) -> tuple[str, str]:
    containers = (((obj.get("spec") or {}).get("template") or {}).get("spec") or {}).get("containers") or ()
    return ",".join(item["name"] for item in containers), ",".join(item.get("image", "") for item in containers)


def _labels(selector: Any) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((selector or {}).items())) or NONE


def _service(obj: Object) -> Sequence[Any]:
    spec = obj["spec"]
    kind = spec.get("type", "")
    ports = ",".join(
        f"{port['port']}" + (f":{port['nodePort']}" if port.get("nodePort") else "") + f"/{port.get('protocol', 'TCP')}"
        for port in spec.get("ports") or ()
    )
    return (
        kind,
        spec.get("clusterIP") or NONE,
        _external(obj, kind),
        ports or NONE,
        _created(obj),
        _labels(spec.get("selector")),
    )


def _external(obj: Object, kind: str) -> str:
    spec = obj["spec"]
    listed = list(spec.get("externalIPs") or ())
    if kind == "ExternalName":
        return str(spec.get("externalName") or NONE)
    if kind == "LoadBalancer":
        addresses = _addresses((obj.get("status") or {}).get("loadBalancer"))
        return ",".join([*addresses, *listed]) or "<pending>"
    return ",".join(listed) or NONE


def _addresses(balancer: Any) -> list[str]:
    return [item.get("ip") or item.get("hostname") or "" for item in (balancer or {}).get("ingress") or ()]


def _deployment(obj: Object) -> Sequence[Any]:
    spec, status = obj["spec"], obj.get("status") or {}
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}"
    numbers = (status.get("updatedReplicas", 0), status.get("availableReplicas", 0))
    return (ready, *numbers, _created(obj), *_images(obj), selector_text(spec.get("selector")))


def _replica_set(obj: Object) -> Sequence[Any]:
    spec, status = obj["spec"], obj.get("status") or {}
    numbers = (spec.get("replicas", 0), status.get("replicas", 0), status.get("readyReplicas", 0))
    return (*numbers, _created(obj), *_images(obj), selector_text(spec.get("selector")))


def _stateful_set(obj: Object) -> Sequence[Any]:
    ready = f"{(obj.get('status') or {}).get('readyReplicas', 0)}/{obj['spec'].get('replicas', 0)}"
    return (ready, _created(obj), *_images(obj))


def _daemon_set(obj: Object) -> Sequence[Any]:
    status = obj.get("status") or {}
    names = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    template = ((obj.get("spec") or {}).get("template") or {}).get("spec") or {}
    numbers = [status.get(name, 0) for name in names]
    selector = selector_text(obj["spec"].get("selector"))
    return (*numbers, _labels(template.get("nodeSelector")), _created(obj), *_images(obj), selector)


def _node(obj: Object) -> Sequence[Any]:
    status, labels = obj.get("status") or {}, obj["metadata"].get("labels") or {}
    ready = next((item["status"] for item in status.get("conditions") or () if item["type"] == "Ready"), "Unknown")
    state = {"True": "Ready", "False": "NotReady"}.get(ready, "Unknown")
    if (obj.get("spec") or {}).get("unschedulable"):
        state += ",SchedulingDisabled"
    prefix = "node-role.kubernetes.io/"
    roles = ",".join(sorted(key[len(prefix) :] for key in labels if key.startswith(prefix))) or NONE
    info = status.get("nodeInfo") or {}
    found = {item["type"]: item["address"] for item in status.get("addresses") or ()}
    return (
        state,
        roles,
        _created(obj),
        info.get("kubeletVersion", ""),
        found.get("InternalIP", NONE),
        found.get("ExternalIP", NONE),
        info.get("osImage", "<unknown>"),
        info.get("kernelVersion", "<unknown>"),
        info.get("containerRuntimeVersion", "<unknown>"),
    )


def _endpoints(obj: Object) -> Sequence[Any]:
    pairs = [
        f"{address['ip']}:{port['port']}"
        for subset in obj.get("subsets") or ()
        for port in subset.get("ports") or ()
        for address in subset.get("addresses") or ()
    ]
    return (_first(pairs, NONE), _created(obj))


def _first(items: list[str], nothing: str) -> str:
    text = ",".join(items[:3]) or nothing
    return text + (f" + {len(items) - 3} more..." if len(items) > 3 else "")


def _slice(obj: Object) -> Sequence[Any]:
    ports = [str(port.get("port", "*")) for port in obj.get("ports") or ()]
    addresses = [address for item in obj.get("endpoints") or () for address in item.get("addresses") or ()]
    return (obj.get("addressType", ""), _first(ports, "<unset>"), _first(addresses, "<unset>"), _created(obj))


def _event(obj: Object) -> Sequence[Any]:
    about = obj.get("involvedObject") or obj.get("regarding") or {}
    source = obj.get("source") or obj.get("deprecatedSource") or {}
    first = obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp") or obj.get("eventTime")
    series = obj.get("series") or {}
    last = series.get("lastObservedTime") or obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp") or first
    target = (
        f"{about.get('kind', '').lower()}/{about.get('name', '')}"
        if about.get("name")
        else about.get("kind", "").lower()
    )
    reporter = obj.get("reportingComponent") or obj.get("reportingController") or ""
    origin = source.get("component") or reporter
    if source.get("host"):
        origin = f"{origin}, {source['host']}"
    return (
        age(last),
        obj.get("type", ""),
        obj.get("reason", ""),
        target,
        about.get("fieldPath", ""),
        origin,
        (obj.get("message") or obj.get("note") or "").strip(),
        age(first),
        series.get("count") or obj.get("count") or obj.get("deprecatedCount") or 1,
        obj["metadata"]["name"],
    )


def _ingress(obj: Object) -> Sequence[Any]:
    spec = obj.get("spec") or {}
    hosts = [rule["host"] for rule in spec.get("rules") or () if rule.get("host")]
    address = ",".join(_addresses((obj.get("status") or {}).get("loadBalancer")))
    ports = "80, 443" if spec.get("tls") else "80"
    return (spec.get("ingressClassName") or NONE, _first(hosts, "*"), address, ports, _created(obj))


def _ingress_class(obj: Object) -> Sequence[Any]:
    found = (obj.get("spec") or {}).get("parameters")
    text = NONE
    if found:
        text = found["kind"] + (f".{found['apiGroup']}" if found.get("apiGroup") else "") + f"/{found['name']}"
    return ((obj.get("spec") or {}).get("controller", ""), text, _created(obj))


def _binding(obj: Object) -> Sequence[Any]:
    role, subjects = obj["roleRef"], obj.get("subjects") or ()
    names: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in subjects:
        prefix = f"{subject.get('namespace', '')}/" if subject["kind"] == "ServiceAccount" else ""
        names.setdefault(subject["kind"], []).append(prefix + subject["name"])
    users, groups, accounts = (", ".join(names[kind]) for kind in ("User", "Group", "ServiceAccount"))
    return (f"{role['kind']}/{role['name']}", _created(obj), users, groups, accounts)


def _timestamp(obj: Object) -> Sequence[Any]:
    return (obj["metadata"].get("creationTimestamp"),)


def _count(obj: Object) -> int:
    return len(obj.get("data") or ()) + len(obj.get("binaryData") or ())


_WORKLOAD = "Containers:w Images:w"
_COLUMNS: Mapping[str, tuple[str, Cells]] = {
    "Pod": (
        "Ready Status Restarts Age IP:w Node:w Nominated-Node:w Readiness-Gates:w",
        pod_cells,
    ),
    "Service": ("Type Cluster-IP External-IP Port(s) Age Selector:w", _service),
    "Deployment": (f"Ready Up-to-date:i Available:i Age {_WORKLOAD} Selector:w", _deployment),
    "ReplicaSet": (f"Desired:i Current:i Ready:i Age {_WORKLOAD} Selector:w", _replica_set),
    "StatefulSet": (f"Ready Age {_WORKLOAD}", _stateful_set),
    "DaemonSet": (
        f"Desired:i Current:i Ready:i Up-to-date:i Available:i Node-Selector Age {_WORKLOAD} Selector:w",
        _daemon_set,
    ),
    "Namespace": ("Status Age", lambda obj: ((obj.get("status") or {}).get("phase", ""), _created(obj))),
    "Node": (
        "Status Roles Age Version Internal-IP:w External-IP:w OS-Image:w Kernel-Version:w Container-Runtime:w",
        _node,
    ),
    "ConfigMap": ("Data Age", lambda obj: (_count(obj), _created(obj))),
    "Secret": ("Type Data Age", lambda obj: (obj.get("type", ""), _count(obj), _created(obj))),
    "ServiceAccount": ("Age", lambda obj: (_created(obj),)),
    "Endpoints": ("Endpoints Age", _endpoints),
    "EndpointSlice": ("AddressType Ports Endpoints Age", _slice),
    "Event": (
        "Last-Seen Type Reason Object Subobject:w Source:w Message First-Seen:w Count:w Name:w",
        _event,
    ),
    "Ingress": ("Class Hosts Address Ports Age", _ingress),
    "IngressClass": ("Controller Parameters Age", _ingress_class),
    "Lease": ("Holder Age", lambda obj: ((obj.get("spec") or {}).get("holderIdentity", ""), _created(obj))),
    "RoleBinding": ("Role Age Users:w Groups:w ServiceAccounts:w", _binding),
    "ClusterRoleBinding": ("Role Age Users:w Groups:w ServiceAccounts:w", _binding),
    "Role": ("Created-At:d", _timestamp),
    "ClusterRole": ("Created-At:d", _timestamp),
    "CustomResourceDefinition": ("Created-At:d", _timestamp),
    "ControllerRevision": (
        "Revision:i Age",
        lambda obj: (obj.get("revision", 0), _created(obj)),
    ),
    "Scale": (
        "Desired:i Available:i Age",
        lambda obj: (
            (obj.get("spec") or {}).get("replicas", 0),
            (obj.get("status") or {}).get("replicas", 0),
            _created(obj),
        ),
    ),
}
_SPACED = {"Nominated-Node", "Readiness-Gates", "Node-Selector", "Last-Seen", "First-Seen", "Created-At"}
_TYPES = {"i": "integer", "d": "date"}


def definition(
    name: str, kind: str = "string", *, priority: int = 0, format_: str = "", text: str = ""
) -> dict[str, Any]:
    """Make one column's head."""
    return {"name": name, "type": kind, "format": format_, "description": text, "priority": priority}


def columns_of(kind: str) -> tuple[list[dict[str, Any]], Cells]:
    """Give the heads behind the name, and what makes the cells; an age alone for kinds without columns of their own."""
    heads, cells = _COLUMNS.get(kind, ("Age", lambda obj: (_created(obj),)))
    found = []
    for head in heads.split():
        name, _, flag = head.partition(":")
        shown = name.replace("-", " ") if name in _SPACED else name
        found.append(definition(shown, _TYPES.get(flag, "string"), priority=1 if flag == "w" else 0))
    if kind == "Event":
        return found, cells
    return found, cells
