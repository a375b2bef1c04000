"""APIServices: they are stored and checked, and the sandbox forwards no request to another server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery import status, times
from ctrlhost_sandbox.apimachinery.names import is_label_1035, name_problems
from ctrlhost_sandbox.apimachinery.objects import condition
from ctrlhost_sandbox.kinds.cells import created
from ctrlhost_sandbox.kinds.strategy import BuiltinStrategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctrlhost_sandbox.apimachinery.objects import Object
    from ctrlhost_sandbox.apimachinery.status import Cause
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.registry.operation import Operation

_MOST_GROUP, _MOST_VERSION = 20_000, 1000


class _ApiServices(BuiltinStrategy):
    """A group version and the Service that serves it; without one, the server itself does."""

    defaults = (("spec.service.port", 443),)
    columns = "Service Available Age"

    def cells(self, obj: Object) -> Sequence[Any]:
        service = (obj.get("spec") or {}).get("service")
        target = f"{service.get('namespace', '')}/{service.get('name', '')}" if service else "Local"
        available = condition(obj, "Available") or {}
        state = str(available.get("status", "Unknown"))
        if state != "True" and available.get("reason"):
            state += f" ({available['reason']})"
        return (target, state, created(obj))

    def prepare_create(self, context: ServerContext, operation: Operation, obj: Object) -> None:
        """Mark a local service as available."""
        if not obj["spec"].get("service"):
            obj["status"] = {
                "conditions": [
                    {
                        "type": "Available",
                        "status": "True",
                        "lastTransitionTime": times.now(),
                        "reason": "Local",
                        "message": "Local APIServices are always available",
                    }
                ]
            }

    def causes(self, context: ServerContext, operation: Operation, obj: Object, old: Object | None) -> Iterator[Cause]:
        spec, name = obj["spec"], obj["metadata"].get("name", "")
        group, version, service = spec.get("group", ""), spec.get("version", ""), spec.get("service")
        if name != f"{version}.{group}":
            text = f'must be `spec.version+"."+spec.group`: "{version}.{group}"'
            yield status.invalid_value("metadata.name", name, text)
        if not group and version != "v1":
            text = "only v1 may have an empty group and it better be legacy kube"
            yield status.required("spec.group", text)
        if group and (problems := name_problems("subdomain", group)):
            yield from status.invalid_values("spec.group", group, problems)
        if not is_label_1035(version):
            yield status.invalid_value("spec.version", version, "must be a DNS-1035 label")
        for field, most in (("groupPriorityMinimum", _MOST_GROUP), ("versionPriority", _MOST_VERSION)):
            if not 0 < spec.get(field, 0) <= most:
                yield status.invalid_value(
                    f"spec.{field}", spec.get(field, 0), f"must be positive and less than {most}"
                )
        if service is None:
            if spec.get("caBundle"):
                yield status.invalid_value("spec.caBundle", "", "local APIServices may not have a caBundle")
            if spec.get("insecureSkipTLSVerify"):
                text = "local APIServices may not have insecureSkipTLSVerify"
                yield status.invalid_value("spec.insecureSkipTLSVerify", True, text)
            return
        for field in ("namespace", "name"):
            if not service.get(field):
                yield status.required(f"spec.service.{field}")
        if not 1 <= service.get("port", 443) <= 65535:
            text = "port is not valid: must be between 1 and 65535, inclusive"
            yield status.invalid_value("spec.service.port", service["port"], text)
        if spec.get("caBundle") and spec.get("insecureSkipTLSVerify"):
            text = "may not be true if caBundle is present"
            yield status.invalid_value("spec.insecureSkipTLSVerify", True, text)


STRATEGIES = {("apiregistration.k8s.io", "APIService"): _ApiServices()}
