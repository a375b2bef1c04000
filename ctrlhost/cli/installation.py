"""What `manifests` and `chart` share: the options that describe an installation, and its objects."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ctrlhost.cli.frameworks import framework_options
from ctrlhost.cli.messages import print_hint
from ctrlhost.cli.options import CONFIG, FILES, ISOLATE, NAMESPACE, PLUGINS, SET, gather, isolate, names, plugin_files
from ctrlhost.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ctrlhost.config.load import Configuration
    from ctrlhost.manifests.loading import SetUpPlugin
    from ctrlhost.manifests.manifests import Deployed
    from ctrlhost.manifests.secrets import SecretReference
    from ctrlhost.supervisor.plugin_file import PluginSource

_NAME = "ctrlhost"
#: The name is also that of Services.
_NAMES = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_LEASE = "leader_elect_resource_name"
_REFERENCE = "NAME.key=SECRET/KEY"
_OPTIONS = (
    FILES,
    framework_options,
    PLUGINS,
    ISOLATE,
    NAMESPACE,
    click.option(
        "--name", default=_NAME, show_default=True, help="Name of the Deployment, its ServiceAccount and its Lease."
    ),
    click.option("--image", help="Image with ctrlhost and the plugins; its entry point must be `ctrlhost`."),
    click.option(
        "--admin", is_flag=True, default=None, help="Let who may `exec` into a pod act: pause, enqueue, log level."
    ),
    click.option("--leader-elect", is_flag=True, default=None, help="Run two replicas, of which only the leader acts."),
    click.option(
        "--shards", type=click.IntRange(min=1), metavar="N", help="Run N replicas that share the keys of controllers."
    ),
    click.option(
        "--deployments",
        type=click.Choice(["one", "per-plugin"]),
        default="one",
        show_default=True,
        help="`per-plugin`: a Deployment, a ServiceAccount and a Lease for each plugin.",
    ),
    click.option(
        "--secret",
        "secrets",
        metavar=_REFERENCE,
        multiple=True,
        help="Take a plugin's setting from a Secret, as an environment variable.",
    ),
    click.option(
        "--secret-file",
        "secret_files",
        metavar=_REFERENCE,
        multiple=True,
        help="Take a plugin's setting from a Secret, as a mounted file.",
    ),
    click.option("--memory", default="128Mi", show_default=True, help="Memory that the container requests."),
    click.option("--memory-limit", default="512Mi", show_default=True, help="Limit of the container's memory."),
    click.option(
        "--cpu-limit", help="Limit of the container's CPU, which delays the renewal of Leases (default: none)."
    ),
    click.option(
        "--set-pod",
        type=click.Path(path_type=Path),
        metavar="FILE.yaml",
        help="Merge `metadata` and `spec` of this file into the pods: a strategic merge patch of the pod template.",
    ),
    click.option(
        "--metrics-from",
        metavar="NS,NS…",
        multiple=True,
        help="Namespaces that may reach the metrics (default: all); clients also need a token.",
    ),
    click.option("--monitor", is_flag=True, help="Add a ServiceMonitor for the Prometheus operator."),
    click.option("--cert-manager", is_flag=True, help="Let cert-manager make the certificate of webhooks."),
    click.option("--no-namespaces", is_flag=True, help="Create no namespaces but that of the Deployment."),
    CONFIG,
    SET,
)


def installation_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that describe an installation; the command passes their values to `Choices`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """The values of the options."""

    files: tuple[Path, ...]
    plugins: tuple[str, ...]
    isolated: tuple[str, ...]
    namespaces: tuple[str, ...]
    name: str
    image: str | None
    admin: bool | None
    leader_elect: bool | None
    shards: int | None
    deployments: str
    secrets: tuple[str, ...]
    secret_files: tuple[str, ...]
    memory: str
    memory_limit: str
    cpu_limit: str | None
    set_pod: Path | None
    metrics_from: tuple[str, ...]
    monitor: bool
    cert_manager: bool
    no_namespaces: bool
    config: Path | None
    assignments: tuple[str, ...]

    @property
    def references(self) -> list[SecretReference]:
        """The settings that come from Secrets; ConfigError for an invalid one."""
        from ctrlhost.manifests.secrets import SecretReference

        plain = [SecretReference.parse(text, mounted=False) for text in self.secrets]
        return plain + [SecretReference.parse(text, mounted=True) for text in self.secret_files]

    def with_shards(self) -> Choices:
        """Return them with the settings of `--shards` that are not given: one replica may be missing at a time."""
        from ctrlhost.config.load import Configuration

        known = Configuration.gather(self.config, assignments=self.assignments)
        if self.shards is None:
            if known.sharded:
                raise ConfigError("shards.enabled: the number of replicas is missing", hint="give it with `--shards N`")
            return self
        wanted: dict[str, object] = {"min_members": self.shards - 1 if self.shards > 2 else 1}
        if self.name != _NAME:
            wanted["name"] = self.name
        added = [f"shards.{key}={value}" for key, value in wanted.items() if known.given("shards", key) is None]
        return replace(self, assignments=(*self.assignments, *added))

    def with_lease(self) -> Choices:
        """Return them with a Lease of its own: another installation in the namespace must not wait for this one's."""
        from ctrlhost.config.load import Configuration

        # Those of the file and of the flags: the environment of this command does not reach the pods.
        own = Configuration.gather(self.config, assignments=self.assignments).given("host", _LEASE)
        if self.name == _NAME or own is not None:
            return self
        return replace(self, assignments=(*self.assignments, f"host.{_LEASE}={self.name}"))

    def deployed(self, namespace: str, of_files: Sequence[PluginSource]) -> Deployed:
        """Return what to generate; ConfigError for an invalid choice."""
        from ctrlhost.config.load import Configuration
        from ctrlhost.manifests.deployment import Resources
        from ctrlhost.manifests.manifests import Deployed
        from ctrlhost.manifests.pod_patch import read_pod_patch

        certificate = Configuration.gather(self.config, assignments=self.assignments).given("host", "tls_cert_file")
        return Deployed(
            name=self.name,
            namespace=namespace,
            image=self.image or "",
            config=self.config.read_text(encoding="utf-8") if self.config else "",
            assignments=self.assignments,
            isolated=names(self.isolated),
            sources={file.name: file.argument for file in of_files if file.argument},
            secrets=self.references,
            resources=Resources.checked(self.memory, self.memory_limit, self.cpu_limit),
            pod_patch=read_pod_patch(self.set_pod) if self.set_pod is not None else {},
            per_plugin=self.deployments == "per-plugin",
            shards=self.shards,
            further_namespaces=not self.no_namespaces,
            metrics_from=names(self.metrics_from),
            monitor=self.monitor,
            cert_manager=self.cert_manager,
            certified=certificate is not None,
        )


@dataclass(frozen=True, slots=True)
class Described:
    """A checked installation: its plugins, their settings, and what to generate."""

    plugins: list[SetUpPlugin]
    configuration: Configuration
    deployed: Deployed
    of_files: list[PluginSource]

    def print_hints(self) -> None:
        """Print what the image must have."""
        for note in (note for plugin in self.plugins for note in plugin.plugin.notes()):
            print_hint(note)
        for file in self.of_files:
            if file.argument:
                needed = "the image needs that in its working directory"
                print_hint(f"the Deployment has the argument `{file.argument}`: {needed}")
            else:
                print_hint(
                    f"the Deployment runs `{file.name}` as an installed plugin; `ctrlhost new` writes a package for one"
                )


def describe(choices: Choices, namespace: str) -> Described:
    """Load the plugins, and check all that was chosen; ConfigError for mistakes, which otherwise show in the pod."""
    from ctrlhost.authoring.invalid_crds import UNCHECKED, can_check_crds, reject_invalid_crds
    from ctrlhost.config.load import Configuration
    from ctrlhost.manifests.loading import load_plugins
    from ctrlhost.manifests.secret_values import check_values
    from ctrlhost.manifests.secrets import check_mounted

    if not _NAMES.fullmatch(choices.name):
        raise ConfigError(
            f"--name {choices.name}: not a name of Kubernetes objects",
            hint="lower-case letters, digits and inner hyphens, a letter first",
        )
    chosen, limit, references = names(choices.plugins), names(choices.namespaces), choices.references
    choices = choices.with_lease().with_shards()
    configuration = gather(
        choices.config,
        choices.assignments,
        plugins=chosen,
        namespaces=limit,
        admin=choices.admin,
        leader_elect=choices.leader_elect,
        shards=choices.shards and True,
    )
    for reference in references:
        configuration = configuration.stand_in(reference.plugin, reference.key, reference.flag)
    settings = configuration.host
    of_files = plugin_files(choices.files, settings.plugins)
    if not settings.plugins and not of_files:
        raise click.UsageError("no plugins selected; select some with `--plugins NAME,NAME`, or name a file")
    configuration = isolate(configuration, choices.isolated, of_files)
    for plugin in (*settings.plugins, *(file.name for file in of_files)):
        configuration.supervision(plugin)
    deployed = choices.deployed(namespace, of_files)
    loaded = load_plugins([*settings.plugins, *of_files], configuration)
    if not can_check_crds():
        print_hint(UNCHECKED)
    reject_invalid_crds(plugin.plugin for plugin in loaded)
    given = [Configuration.gather(assignments=[assignment]) for assignment in choices.assignments]
    check_values(loaded, [Configuration.gather(choices.config), *given])
    check_mounted(references, loaded)
    return Described(list(loaded), configuration, deployed, of_files)
