"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ctrlhost.selectors.namespaces import LABEL

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.config.load import Configuration
    from ctrlhost.sandbox import Sandbox

PLUGINS = click.option(
    "--plugins", metavar="NAME,NAME…", multiple=True, help="Plugins to load; no other plugin is imported."
)
NAMESPACE = click.option(
    "--namespace",
    "-n",
    "namespaces",
    metavar="NS,NS…",
    multiple=True,
    help="Limit controllers to these: names, globs (`team-*`), or `label:SELECTOR`, followed as they come and go.",
)
CONFIG = click.option(
    "--config", type=click.Path(path_type=Path), metavar="FILE", envvar="CTRLHOST_CONFIG", help="Settings file (TOML)."
)
SET = click.option(
    "--set",
    "assignments",
    metavar="NAME.key=value",
    multiple=True,
    help="A setting of a plugin, or of the host with NAME `host`; over file and environment.",
)


_POD_DELAYS = {
    "start": "How long a pod takes to run, with the controllers `workloads`.",
    "ready": "How long a container takes to be ready.",
    "stop": "How long a pod takes to go.",
}
_NETWORKS = {"pod": "pods", "service": "Services", "lb": "load balancers"}
_FIELDS = {"lb_cidr": "load_balancer_cidr"}
_FINE = ("version", *(f"pod_{what}_delay" for what in _POD_DELAYS), *(f"{what}_cidr" for what in _NETWORKS))


def _seconds(flag: str, text: str) -> float:
    """Read a time as settings have it, such as `300ms`."""
    from ctrlhost.duration import Duration
    from ctrlhost.errors import ConfigError

    try:
        return float(Duration(text))
    except ValueError as error:
        raise ConfigError(f"{flag}: {error}") from None


def names(values: tuple[str, ...]) -> tuple[str, ...]:
    """Read lists that may be given in one piece or several, without doubles; a label selector is one piece."""
    pieces = (piece for value in values for piece in ([value] if value.startswith(LABEL) else value.split(",")))
    return tuple(dict.fromkeys(piece.strip() for piece in pieces if piece.strip()))


def gather(config: Path | None, assignments: tuple[str, ...], **flags: Any) -> Configuration:
    """Read all settings; `flags` are the host's own that have an option."""
    import os

    from ctrlhost.config.load import Configuration

    return Configuration.gather(config, os.environ, assignments, flags)


def sandbox_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of the sandbox to a command, which gets them by names that begin with `sandbox_`."""
    path = click.Path(path_type=Path)
    options = [
        click.option("--sandbox-addr", default="127.0.0.1:0", metavar="HOST:PORT", help="Where the sandbox listens."),
        click.option("--sandbox-kubeconfig", type=path, metavar="FILE", help="Where it writes its kubeconfig."),
        click.option("--sandbox-data", type=path, metavar="DIR", help="Keep its objects there over restarts."),
        click.option("--sandbox-audit-log", type=path, metavar="FILE", help="Append an audit event per request there."),
        click.option("--sandbox-rbac", is_flag=True, help="Let Roles and bindings decide who may do what."),
        click.option("--sandbox-admin", is_flag=True, help="Serve end points for tests under /sandbox/v1/."),
        click.option("--sandbox-version", metavar="X.Y.Z", help="The version of Kubernetes that it says it has."),
        *(click.option(f"--sandbox-pod-{what}-delay", metavar="TIME", help=text) for what, text in _POD_DELAYS.items()),
        *(
            click.option(f"--sandbox-{what}-cidr", metavar="NETWORK", help=f"Where addresses of {text} are from.")
            for what, text in _NETWORKS.items()
        ),
        click.option("--sandbox-insecure-http", is_flag=True, help="Serve it without TLS and without a token."),
        click.option(
            "--sandbox-controllers",
            metavar="NAME,NAME…|none",
            help="Which run; workloads (pods start) and service stand for several. Without it gc and namespace.",
        ),
        click.option(
            "--sandbox-crd-conditions",
            type=click.Choice(["builtin", "external"]),
            default="builtin",
            help="Who judges the names of CRDs: the sandbox, or a controller such as the plugin `naming`.",
        ),
        click.option(
            "--sandbox-cel",
            type=click.Choice(["enforce", "warn"]),
            default="enforce",
            help="Whether the validation rules of CRDs are evaluated, or only warned about.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def make_sandbox(chosen: dict[str, Any]) -> Sandbox:
    """Make the sandbox that the options describe; ConfigError if they make no sense."""
    from ctrlhost.sandbox import Options, Sandbox
    from ctrlhost.server.listener import parse_address

    host, port = parse_address(chosen["sandbox_addr"], "--sandbox-addr")
    more: dict[str, Any] = {}
    if chosen["sandbox_controllers"] is not None:
        more["controllers"] = [name for name in names((chosen["sandbox_controllers"],)) if name != "none"]
    fine = {_FIELDS.get(name, name): value for name in _FINE if (value := chosen[f"sandbox_{name}"]) is not None}
    for name in [name for name in fine if name.endswith("_delay")]:
        fine[name] = _seconds(f"--sandbox-{name.replace('_', '-')}", fine[name])
    return Sandbox(
        options=Options(admin=chosen["sandbox_admin"], cel=chosen["sandbox_cel"], **fine),
        address=host,
        port=port,
        data_dir=chosen["sandbox_data"],
        kubeconfig=chosen["sandbox_kubeconfig"],
        insecure_http=chosen["sandbox_insecure_http"],
        rbac=chosen["sandbox_rbac"],
        audit_log=chosen["sandbox_audit_log"],
        crd_conditions=chosen["sandbox_crd_conditions"],
        **more,
    )
