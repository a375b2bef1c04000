"""`ctrlhost manifests`: the manifests that run plugins in a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ctrlhost.cli.messages import print_hint, print_yaml
from ctrlhost.cli.options import CONFIG, FILES, ISOLATE, NAMESPACE, PLUGINS, SET, gather, isolate, names, plugin_files

if TYPE_CHECKING:
    from pathlib import Path

_NAME = "ctrlhost"
_LEASE = "leader_elect_resource_name"
_REFERENCE = "NAME.key=SECRET/KEY"


@click.command("manifests")
@FILES
@PLUGINS
@ISOLATE
@NAMESPACE
@click.option(
    "--name", default=_NAME, show_default=True, help="Name of the Deployment, its ServiceAccount and its Lease."
)
@click.option("--deploy-namespace", default="ctrlhost-system", show_default=True, help="Namespace of the Deployment.")
@click.option("--image", help="Image with ctrlhost and the plugins; its entry point must be `ctrlhost`.")
@click.option(
    "--admin", is_flag=True, default=None, help="Let who may `exec` into a pod act: pause, enqueue, log level."
)
@click.option("--leader-elect", is_flag=True, default=None, help="Run two replicas, of which only the leader acts.")
@click.option(
    "--deployments",
    type=click.Choice(["one", "per-plugin"]),
    default="one",
    show_default=True,
    help="`per-plugin`: a Deployment, a ServiceAccount and a Lease for each plugin.",
)
@click.option(
    "--secret",
    "secrets",
    metavar=_REFERENCE,
    multiple=True,
    help="Take a plugin's setting from a Secret, as an environment variable.",
)
@click.option(
    "--secret-file",
    "secret_files",
    metavar=_REFERENCE,
    multiple=True,
    help="Take a plugin's setting from a Secret, as a mounted file.",
)
@click.option("--memory", default="128Mi", show_default=True, help="Memory that the container requests.")
@click.option("--memory-limit", default="512Mi", show_default=True, help="Limit of the container's memory.")
@click.option("--cpu-limit", help="Limit of the container's CPU, which delays the renewal of Leases (default: none).")
@click.option(
    "--metrics-from",
    metavar="NS,NS…",
    multiple=True,
    help="Namespaces that may reach the metrics (default: all); clients also need a token.",
)
@click.option("--monitor", is_flag=True, help="Add a ServiceMonitor for the Prometheus operator.")
@click.option("--cert-manager", is_flag=True, help="Let cert-manager make the certificate of webhooks.")
@click.option("--no-namespaces", is_flag=True, help="Create no namespaces but that of the Deployment.")
@click.option(
    "--uninstall", is_flag=True, help="Leave out CRDs, objects of plugins and Namespaces, for `kubectl delete -f -`."
)
@CONFIG
@SET
def command(
    files: tuple[Path, ...],
    plugins: tuple[str, ...],
    isolated: tuple[str, ...],
    namespaces: tuple[str, ...],
    name: str,
    deploy_namespace: str,
    image: str | None,
    admin: bool | None,
    leader_elect: bool | None,
    deployments: str,
    secrets: tuple[str, ...],
    secret_files: tuple[str, ...],
    memory: str,
    memory_limit: str,
    cpu_limit: str | None,
    metrics_from: tuple[str, ...],
    monitor: bool,
    cert_manager: bool,
    no_namespaces: bool,
    uninstall: bool,
    config: Path | None,
    assignments: tuple[str, ...],
) -> None:
    """Print what runs exactly these plugins in a cluster as YAML, for `kubectl apply --server-side -f -`.

    The permissions are those to watch the plugins' sources, those that the plugins request, and those to record events.
    Unless the settings say otherwise, pods answer probes on 8484, and show metrics on 8443 to clients with a token.
    The command does not contact a cluster. It takes files to show what they need: in the image, their plugins must be
    installed.
    """
    from ctrlhost.authoring.invalid_crds import UNCHECKED, can_check_crds, reject_invalid_crds
    from ctrlhost.config.load import Configuration
    from ctrlhost.errors import ConfigError
    from ctrlhost.manifests.deployment import Resources
    from ctrlhost.manifests.loading import load_plugins
    from ctrlhost.manifests.manifests import Deployed, manifests, removable
    from ctrlhost.manifests.secret_values import check_values
    from ctrlhost.manifests.secrets import SecretReference, check_mounted

    chosen, limit = names(plugins), names(namespaces)
    references = [SecretReference.parse(text, mounted=False) for text in secrets]
    references += [SecretReference.parse(text, mounted=True) for text in secret_files]
    # Those of the file and of the flags: the environment of this command does not reach the pods.
    if name != _NAME and Configuration.gather(config, assignments=assignments).given("host", _LEASE) is None:
        # Another installation in the namespace must not wait for the Lease of this one.
        assignments = (*assignments, f"host.{_LEASE}={name}")
    configuration = gather(
        config, assignments, plugins=chosen, namespaces=limit, admin=admin, leader_elect=leader_elect
    )
    for reference in references:
        configuration = configuration.stand_in(reference.plugin, reference.key, reference.flag)
    settings = configuration.host
    of_files = plugin_files(files, settings.plugins)
    if not settings.plugins and not of_files:
        raise click.UsageError("no plugins selected; select some with `--plugins NAME,NAME`, or name a file")
    configuration = isolate(configuration, isolated, [file.name for file in of_files])
    for plugin in (*settings.plugins, *(file.name for file in of_files)):
        # A mistake would otherwise show up in the pod.
        configuration.supervision(plugin)
    deployed = Deployed(
        name=name,
        namespace=deploy_namespace,
        image=image or "",
        config=config.read_text(encoding="utf-8") if config else "",
        assignments=assignments,
        isolated=names(isolated),
        secrets=references,
        resources=Resources.checked(memory, memory_limit, cpu_limit),
        per_plugin=deployments == "per-plugin",
        further_namespaces=not no_namespaces,
        metrics_from=names(metrics_from),
        monitor=monitor,
        cert_manager=cert_manager,
        certified=Configuration.gather(config, assignments=assignments).given("host", "tls_cert_file") is not None,
    )
    # All of it, before anything is printed.
    loaded = load_plugins([*settings.plugins, *of_files], configuration)
    if not can_check_crds():
        print_hint(UNCHECKED)
    reject_invalid_crds(plugin.plugin for plugin in loaded)
    check_values(
        loaded,
        [Configuration.gather(config), *(Configuration.gather(assignments=[assignment]) for assignment in assignments)],
    )
    check_mounted(references, loaded)
    documents = list(manifests(loaded, configuration, deployed))
    if image is None and not uninstall:
        raise ConfigError("--image: missing: no image is published", hint="build one from the Dockerfile, and name it")
    print_yaml(removable(documents) if uninstall else documents)
    for file in of_files:
        print_hint(f"the Deployment runs `{file.name}` as an installed plugin; `ctrlhost new` writes a package for one")
