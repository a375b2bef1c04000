"""The options of a sandbox on a command line, here and in every other command that starts one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost_sandbox.server.server import Sandbox

_POD_DELAYS = {
    "start": "Time until a pod runs, with the controllers `workloads`.",
    "ready": "Time until a container is ready.",
    "run": "Time until a pod ends that is not restarted forever.",
    "stop": "Time until a deleted pod is gone.",
}
_NETWORKS = {"pod": "pods", "service": "Services", "lb": "load balancers"}
_FIELDS = {"lb_cidr": "load_balancer_cidr"}
_TUNING = ("version", *(f"pod_{what}_delay" for what in _POD_DELAYS), *(f"{what}_cidr" for what in _NETWORKS))
#: Options that are arguments of the same name.
_ARGUMENTS = ("kubeconfig", "insecure_http", "rbac", "audit_log", "crd_conditions")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_TIME = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")


class _Time(click.ParamType[float]):
    """A time such as `300ms` or `1m30s`, as seconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse the text."""
        if isinstance(value, float):
            return value
        if not re.fullmatch(rf"(?:{_TIME.pattern})+", str(value)):
            self.fail(f"invalid duration `{value}`: write a number and a unit, such as 300ms or 1m30s", param, ctx)
        return sum(float(number) * _UNITS[unit] for number, unit in _TIME.findall(str(value)))


class _Address(click.ParamType[tuple[str, int]]):
    """`HOST:PORT`, as both."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """Parse the text."""
        if isinstance(value, tuple):
            return value
        host, colon, port = str(value).rpartition(":")
        if not colon or not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65535:
            self.fail(f"invalid address `{value}`: write HOST:PORT, for example 127.0.0.1:6443", param, ctx)
        return host.strip("[]"), int(port)


class _Service(click.ParamType[tuple[str, tuple[str, int]]]):
    """`NS/NAME=HOST:PORT`, as the Service and the address of its webhooks."""

    name = "service"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, tuple[str, int]]:
        """Parse the text."""
        if isinstance(value, tuple):
            return value
        service, _, address = str(value).partition("=")
        if not re.fullmatch(r"[^/]+/[^/]+", service):
            self.fail(f"invalid Service `{value}`: write NS/NAME=HOST:PORT", param, ctx)
        return service, _Address().convert(address, param, ctx)


class _Gates(click.ParamType[dict[str, bool]]):
    """`NAME=true,…`, as names and values."""

    name = "gates"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, bool]:
        """Parse the text."""
        if isinstance(value, dict):
            return value
        try:
            return read_gates(str(value))
        except ValueError as error:
            self.fail(f"invalid feature gate `{error}`: write NAME=true or NAME=false", param, ctx)


def read_gates(text: str) -> dict[str, bool]:
    """Read feature gates as kube-apiserver's flag has them; ValueError with the gate that is invalid."""
    gates = {}
    for gate in filter(None, text.split(",")):
        name, equal, value = (part.strip() for part in gate.partition("="))
        if not equal or value.lower() not in ("true", "false"):
            raise ValueError(gate)
        gates[name] = value.lower() == "true"
    return gates


def sandbox_options(prefix: str = "--") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options of a sandbox to a command; it passes all that it receives to `make_sandbox`."""
    path = click.Path(path_type=Path)

    def option(name: str, **rest: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        return click.option(f"{prefix}{name}", f"sandbox_{name.replace('-', '_')}", **rest)

    options = [
        option("addr", default="127.0.0.1:0", type=_Address(), metavar="HOST:PORT", help="Address of the sandbox."),
        option("kubeconfig", type=path, metavar="FILE", help="File for its kubeconfig."),
        option("data", type=path, metavar="DIR", help="Directory that keeps its objects across restarts."),
        option("audit-log", type=path, metavar="FILE", help="File for its audit events, one per request."),
        option("rbac", is_flag=True, help="Authorize requests by Roles and bindings."),
        option("admin", is_flag=True, help="Serve endpoints for tests under /sandbox/v1/."),
        option("version", metavar="X.Y.Z", help="Kubernetes version to report."),
        *(option(f"pod-{what}-delay", type=_Time(), metavar="TIME", help=text) for what, text in _POD_DELAYS.items()),
        *(option(f"{what}-cidr", metavar="NETWORK", help=f"Address range of {of}.") for what, of in _NETWORKS.items()),
        option(
            "service",
            type=_Service(),
            multiple=True,
            metavar="NS/NAME=HOST:PORT",
            help="Where the webhooks of a Service listen (default: as its EndpointSlices say).",
        ),
        option("insecure-http", is_flag=True, help="Serve without TLS and tokens."),
        option(
            "controllers",
            metavar="NAME,NAME…|none",
            help="Controllers to run; `workloads` and `service` are groups (default: gc and namespace).",
        ),
        option(
            "crd-conditions",
            type=click.Choice(["builtin", "external"]),
            default="builtin",
            help="Who accepts the names of CRDs: the sandbox, or a controller such as the plugin `naming`.",
        ),
        option(
            "cel",
            type=click.Choice(["enforce", "warn"]),
            default="enforce",
            help="Whether to enforce the validation rules of CRDs, or only warn.",
        ),
        option(
            "feature-gates",
            type=_Gates(),
            metavar="NAME=true,…",
            help="Feature gates of Kubernetes to turn on; `ShardedListAndWatch` is known.",
        ),
    ]

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for decorate in reversed(options):
            command = decorate(command)
        return command

    return add


def make_sandbox(values: dict[str, Any]) -> Sandbox:
    """Return the sandbox that the values of the options describe; SandboxError for an invalid one."""
    from ctrlhost_sandbox.context import Options
    from ctrlhost_sandbox.server.server import Sandbox

    host, port = values["sandbox_addr"]
    arguments = {name: values[f"sandbox_{name}"] for name in _ARGUMENTS}
    if (names := values["sandbox_controllers"]) is not None:
        arguments["controllers"] = [name.strip() for name in names.split(",") if name.strip() not in ("", "none")]
    tuning = {_FIELDS.get(name, name): value for name in _TUNING if (value := values[f"sandbox_{name}"]) is not None}
    return Sandbox(
        options=Options(
            admin=values["sandbox_admin"],
            cel=values["sandbox_cel"],
            services=dict(values["sandbox_service"]),
            feature_gates=values["sandbox_feature_gates"] or {},
            **tuning,
        ),
        address=host,
        port=port,
        data_dir=values["sandbox_data"],
        **arguments,
    )
