"""A service account for a host under test, with exactly the permissions that its plugins request."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import yaml

from ctrlhost.manifests.loading import collect_crds, collect_objects, load_plugins
from ctrlhost.manifests.rbac import make_roles, of_sources, plurals
from ctrlhost.manifests.webhooks import webhook_objects
from ctrlhost.sandbox import is_sandbox
from ctrlhost.webhooks.configurations import CRDS, ServiceAddress, UrlAddress, configurations
from ctrlhost.yaml_text import load_document

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path
    from typing import Any

    from ctrlhost_sandbox import Sandbox

    from ctrlhost.client import Client
    from ctrlhost.config.load import Configuration
    from ctrlhost.config.settings import HostSettings
    from ctrlhost.manifests.loading import SetUpPlugin
    from ctrlhost.manifests.webhooks import WebhookObjects
    from ctrlhost.permissions import Permission
    from ctrlhost.testing.real_server import RealServer
    from ctrlhost.testing.record import Right

_serial = itertools.count(1)
_MANAGER = "ctrlhost-testing"

#: The verbs that fill a cache.
_READ = ("list", "watch")
#: What the host reads for sources, but not always: kinds that are not served yet, and namespaces that are selected.
_OF_THE_HOST = frozenset({("apiextensions.k8s.io", "customresourcedefinitions"), ("", "namespaces")})


@dataclass(frozen=True, slots=True)
class _Reached(UrlAddress):
    """By URL, where the operator of a cluster has a Service."""

    service: ServiceAddress

    def name(self, plugin: str) -> str:
        """Return the name for which the host has rights."""
        return self.service.name(plugin)


@dataclass(frozen=True, slots=True)
class LimitedAccount:
    """The service account of one host."""

    kubeconfig: Path
    user: str
    granted: frozenset[Right]
    """Group, resource and verb of every granted right."""
    asked: frozenset[Right]
    """Those of them that the plugins asked for: without what the host itself needs to run them."""
    webhooks: WebhookObjects | None = None
    """What an operator applies for the webhooks of the plugins; None if they have none."""

    def through(self, proxy: Path) -> Path:
        """Point the account's kubeconfig to the server of another kubeconfig, and return its path."""
        config, own = (load_document(path.read_text(encoding="utf-8")) for path in (proxy, self.kubeconfig))
        for entry in config["users"]:
            entry["user"] = own["users"][0]["user"]
        self.kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")
        return self.kubeconfig

    def register(self, client: Client, address: str) -> None:
        """Register the webhooks of the host that listens there, as an operator would that of its Service."""
        if self.webhooks is None:
            return
        reached = _Reached(f"https://{address}", None, self.webhooks.address)
        for plugin, entries in self.webhooks.entries.items():
            for configuration in configurations(plugin, entries, reached):
                client.apply(configuration, field_manager=_MANAGER)
        for path, name in self.webhooks.converted.items():
            config = {"clientConfig": reached.client_config(path) | {"service": None}}
            client.patch(*CRDS, name, None, {"spec": {"conversion": {"webhook": config}}})

    def unused(self, used: Collection[Right]) -> list[Right]:
        """Return the rights that the plugins asked for and that are not among the `used` ones.

        To fill a cache counts as one right: the server decides which of its verbs an informer uses. The right to
        `update` finalizers counts as used: only a server with the admission plugin OwnerReferencesPermissionEnforcement
        asks for it.
        """
        read = {right[:2] for right in used if right[2] in _READ}
        unused = (right for right in self.asked - set(used) if right[2] not in _READ or right[:2] not in read)
        return sorted(right for right in unused if not (right[1].endswith("/finalizers") and right[2] == "update"))


def account_of_plugins(
    server: Sandbox | RealServer,
    client: Client,
    plugins: Sequence[object],
    configuration: Configuration,
    settings: HostSettings,
) -> LimitedAccount:
    """Install CRDs and roles as an administrator would for these plugins, and return the account for their host.

    ValueError for a sandbox without RBAC, where the account would have every right.
    """
    if is_sandbox(server) and not server.rbac:
        raise ValueError("least_privilege needs a sandbox with `rbac=True`")
    loaded = load_plugins(plugins, configuration)
    # An account per host, since hosts on one sandbox may differ in plugins or settings.
    account, namespace = f"ctrlhost-{next(_serial)}", client.namespace
    webhooks = webhook_objects(
        loaded, plurals(collect_crds(loaded)), ServiceAddress(namespace, settings.webhook_service)
    )
    roles = make_roles(loaded, settings, account, namespace, webhooks, shards=configuration.sharded)
    objects = [
        *collect_crds(loaded),
        *collect_objects(loaded),
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": namespace}},
        *roles,
    ]
    for role in objects:
        client.apply(role, field_manager=_MANAGER)
    rights = frozenset(
        right
        for role in roles
        for rule in role.get("rules", ())
        for right in itertools.product(rule["apiGroups"], rule["resources"], rule["verbs"])
    )
    if is_sandbox(server):
        kubeconfig = server.kubeconfig_for(service_account=f"{namespace}/{account}")
    else:
        kubeconfig = server.kubeconfig_for(account)
        _wait_until_granted(server, kubeconfig, roles)
    user = f"system:serviceaccount:{namespace}:{account}"
    return LimitedAccount(kubeconfig, user, rights, frozenset(_rights_of(loaded, settings)), webhooks)


def _rights_of(plugins: Sequence[SetUpPlugin], settings: HostSettings) -> Iterator[Right]:
    """Return the rights of the plugins' sources, and those that they request."""
    plural = plurals(collect_crds(plugins))
    for plugin in plugins:
        for permission in of_sources(plugin.context, plural, settings.namespaces):
            yield from (right for right in _rights(permission) if right[:2] not in _OF_THE_HOST)
        for permission in plugin.plugin.permissions(plugin.settings):
            yield from _rights(permission)


def _rights(permission: Permission) -> Iterator[Right]:
    return itertools.product((permission.group,), permission.resources, permission.verbs)


def _wait_until_granted(server: RealServer, kubeconfig: Path, roles: Sequence[dict[str, Any]]) -> None:
    """Wait for each first right of a rule; a manual clock would not wake the host's retries."""
    for role in roles:
        for rule in role.get("rules", ()):
            right = rule["apiGroups"][0], rule["resources"][0], rule["verbs"][0]
            if not rule.get("resourceNames"):
                server.wait_until_granted(kubeconfig, *right, role["metadata"].get("namespace", ""))
