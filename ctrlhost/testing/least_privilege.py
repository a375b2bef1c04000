"""A service account for a host under test, with exactly the permissions that its plugins request."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import yaml

from ctrlhost.manifests.loading import crds_of, load_plugins
from ctrlhost.manifests.rbac import roles_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ctrlhost.client import Client
    from ctrlhost.config.load import Configuration
    from ctrlhost.config.settings import HostSettings
    from ctrlhost.sandbox import Sandbox

_serial = itertools.count(1)

Right = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class LimitedAccount:
    """The service account of one host."""

    kubeconfig: Path
    user: str
    granted: frozenset[Right]
    """Group, resource and verb of every granted right."""

    def through(self, proxy: Path) -> Path:
        """Point the account's kubeconfig to the server of another kubeconfig, and return its path."""
        config, own = (yaml.safe_load(path.read_text(encoding="utf-8")) for path in (proxy, self.kubeconfig))
        for entry in config["users"]:
            entry["user"] = own["users"][0]["user"]
        self.kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")
        return self.kubeconfig

    def unused(self, sandbox: Sandbox) -> list[Right]:
        """Return the granted rights that the account has not used so far."""
        return sorted(self.granted - set(sandbox.rights_used(self.user)))


def account_of_plugins(
    sandbox: Sandbox,
    client: Client,
    plugins: Sequence[object],
    configuration: Configuration,
    settings: HostSettings,
) -> LimitedAccount:
    """Install CRDs and roles as an administrator would for these plugins, and return the account for their host.

    ValueError for a sandbox without RBAC, where the account would have every right.
    """
    if not sandbox.rbac:
        raise ValueError("least_privilege needs a sandbox with `rbac=True`")
    loaded = load_plugins(plugins, configuration)
    # An account per host, since hosts on one sandbox may differ in plugins or settings.
    account, namespace = f"ctrlhost-{next(_serial)}", client.namespace
    roles = roles_of(loaded, settings, account, namespace)
    objects = [
        *crds_of(loaded),
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": namespace}},
        *roles,
    ]
    for one in objects:
        client.apply(one, field_manager="ctrlhost-testing")
    rights = (
        right
        for role in roles
        for rule in role.get("rules", ())
        for right in itertools.product(rule["apiGroups"], rule["resources"], rule["verbs"])
    )
    kubeconfig = sandbox.kubeconfig_for(service_account=f"{namespace}/{account}")
    return LimitedAccount(kubeconfig, f"system:serviceaccount:{namespace}:{account}", frozenset(rights))
