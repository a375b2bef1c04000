"""The manifests that run a set of plugins in a cluster, generated without access to one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ctrlhost.coordination.leadership import check_plugins, lease_names
from ctrlhost.manifests.deployment import Resources, Shards, Workload, config_map, deployment
from ctrlhost.manifests.installation import Installation, is_own
from ctrlhost.manifests.kind_roles import kind_roles
from ctrlhost.manifests.listeners import METRICS, listeners
from ctrlhost.manifests.loading import collect_crds, collect_objects
from ctrlhost.manifests.names import name_part
from ctrlhost.manifests.network import disruption_budget, network_policy, service_monitors, services
from ctrlhost.manifests.pod_patch import patch_pods
from ctrlhost.manifests.rbac import delegator, make_roles, metrics_reader, plurals, service_account
from ctrlhost.manifests.secrets import check_references
from ctrlhost.manifests.webhooks import service_of, webhook_objects
from ctrlhost.webhooks.configurations import ServiceAddress

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ctrlhost.config.load import Configuration
    from ctrlhost.manifests.loading import SetUpPlugin
    from ctrlhost.manifests.secrets import SecretReference

_POD_SECURITY = "pod-security.kubernetes.io"
#: Marks namespaces that hold more than the host.
_SHARED = "ctrlhost.dev/shared"


@dataclass(frozen=True, slots=True)
class Deployed:
    """What to generate.

    `config` is the content of a settings file, `assignments` are those of `--set`, `isolated` those of `--isolate`.
    """

    name: str
    namespace: str
    image: str
    config: str = ""
    assignments: Sequence[str] = ()
    isolated: Sequence[str] = ()
    #: The arguments of `ctrlhost run` for plugins that are not installed, by name.
    sources: Mapping[str, str] = field(default_factory=dict)
    secrets: Sequence[SecretReference] = ()
    resources: Resources = field(default_factory=Resources)
    #: What is merged into the pods.
    pod_patch: dict[str, Any] = field(default_factory=dict)
    #: Whether each plugin gets a Deployment, an account and a Lease of its own.
    per_plugin: bool = False
    #: Whether to create the namespaces of Roles.
    further_namespaces: bool = True
    #: The namespaces that may reach the metrics; all if there are none.
    metrics_from: Sequence[str] = ()
    #: Whether to add ServiceMonitors.
    monitor: bool = False
    #: Whether the settings that reach the pods give a certificate for the metrics.
    certified: bool = False
    #: Whether cert-manager makes the certificate of webhooks.
    cert_manager: bool = False
    #: How many replicas share the keys of controllers; None if they do not.
    shards: int | None = None


def manifests(
    plugins: Sequence[SetUpPlugin], configuration: Configuration, deployed: Deployed
) -> Iterator[dict[str, Any]]:
    """Return all manifests, in an order in which they can be applied."""
    installation = Installation(deployed.name, deployed.namespace, tuple(plugin.name for plugin in plugins))
    names = [plugin.name for plugin in plugins]
    check_plugins(configuration.host, names)
    check_references(deployed.secrets, names)
    workloads = list(_workloads(plugins, configuration, deployed, installation))
    roles = [
        role
        for workload in workloads
        for role in make_roles(
            [plugin for plugin in plugins if plugin.name in workload.plugins],
            workload.settings,
            workload.name,
            workload.namespace,
            workload.webhooks,
            shards=workload.shards is not None,
        )
    ]
    yield from map(installation.labelled, _namespaces(deployed, roles))
    crds = collect_crds(plugins)
    for workload in workloads:
        crds = [workload.webhooks.addressed(crd) for crd in crds] if workload.webhooks is not None else crds
    yield from map(installation.common, [*crds, *collect_objects(plugins)])
    yield from map(installation.labelled, _own(plugins, deployed, workloads, roles))


def _own(
    plugins: Sequence[SetUpPlugin], deployed: Deployed, workloads: Sequence[Workload], roles: Iterable[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Return the objects that belong to this installation alone."""
    for workload in workloads:
        yield service_account(workload.name, workload.namespace)
    yield from roles
    measured = [
        workload
        for workload in workloads
        if workload.listeners.of(METRICS) is not None and workload.listeners.authenticated
    ]
    for workload in measured:
        yield delegator(workload.name, workload.namespace)
    if measured:
        yield metrics_reader(deployed.name, deployed.namespace)
    yield from kind_roles(collect_crds(plugins), deployed.name, deployed.namespace)
    if deployed.config:
        yield config_map(deployed.name, deployed.namespace, deployed.config)
    for workload in workloads:
        yield from _objects(workload, deployed)


def removable(documents: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Leave out what others may use: CRDs and Namespaces, with the objects in them, and the plugins' own objects."""
    return filter(is_own, documents)


def _workloads(
    plugins: Sequence[SetUpPlugin], configuration: Configuration, deployed: Deployed, installation: Installation
) -> Iterator[Workload]:
    settings = configuration.host
    groups = [[plugin] for plugin in plugins] if deployed.per_plugin else [list(plugins)]
    for group in groups:
        name, own, arguments = deployed.name, settings, list[str]()
        if deployed.per_plugin:
            (plugin,) = group
            name = f"{deployed.name}-{name_part(plugin.name)}"
            # As if the plugin had a Lease of its own in a shared Deployment.
            (lease,) = lease_names(replace(settings, leader_elect_plugins=(plugin.name,)), [plugin.name])
            own = replace(settings, leader_elect_resource_name=lease, leader_elect_plugins=())
            if settings.leader_elect:
                # `leader_elect_plugins` may name plugins of the other Deployments.
                arguments = [f"--set=host.leader_elect_resource_name={lease}", "--set=host.leader_elect_plugins="]
            if deployed.shards is not None:
                arguments.append(f"--set=shards.name={lease}")
        chosen = tuple(plugin.name for plugin in group)
        yield Workload(
            name=name,
            namespace=deployed.namespace,
            installation=installation,
            image=deployed.image,
            plugins=chosen,
            settings=own,
            listeners=listeners(configuration, group),
            config=deployed.config,
            config_map=deployed.name,
            assignments=deployed.assignments,
            isolated=[name for name in deployed.isolated if name in chosen or name == "all"],
            sources={name: argument for name, argument in deployed.sources.items() if name in chosen},
            secrets=[secret for secret in deployed.secrets if name_part(secret.plugin) in map(name_part, chosen)],
            resources=deployed.resources,
            webhooks=webhook_objects(
                group,
                plurals(collect_crds(plugins)),
                ServiceAddress(deployed.namespace, _webhook_service(configuration, name)),
                cert_manager=deployed.cert_manager,
            ),
            own_arguments=arguments,
            shards=None if deployed.shards is None else Shards(deployed.shards, configuration.shards),
        )


def _webhook_service(configuration: Configuration, deployment: str) -> str:
    value = configuration.given("host", "webhook_service")
    return service_of(deployment) if value is None else value.text


def _objects(workload: Workload, deployed: Deployed) -> Iterator[dict[str, Any]]:
    yield from services(workload)
    yield network_policy(workload, deployed.metrics_from)
    if workload.replicas > 1:
        yield disruption_budget(workload)
    if workload.webhooks is not None:
        yield from workload.webhooks.issued()
    yield patch_pods(deployment(workload), deployed.pod_patch)
    if workload.webhooks is not None:
        yield from workload.webhooks.configurations()
    if deployed.monitor:
        yield from service_monitors(workload, certified=deployed.certified)


def _namespaces(deployed: Deployed, roles: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Return the Namespace of the Deployment, and those of Roles; never those of Kubernetes itself.

    Others may own the namespaces of Roles, which get no labels. An object of which a client applies no field at all
    changes whenever it is applied again, hence the annotation.
    """
    labels = {f"{_POD_SECURITY}/{mode}": "restricted" for mode in ("enforce", "audit", "warn")}
    namespaces: dict[str, dict[str, Any]] = {deployed.namespace: {"labels": labels}}
    if deployed.further_namespaces:
        further = {role["metadata"].get("namespace") for role in roles} - {None}
        namespaces |= {name: {"annotations": {_SHARED: "true"}} for name in sorted(further - {deployed.namespace})}
    for name, members in namespaces.items():
        if name != "default" and not name.startswith("kube-"):
            yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **members}}
