"""The sample controller: keeps one Deployment for each Foo. A third-party ctrlhost plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ctrlhost
from ctrlhost_sample.controller import reconcile
from ctrlhost_sample.foo import API_VERSION, KIND, crd

if TYPE_CHECKING:
    from collections.abc import Iterable


@ctrlhost.hookimpl
def ctrlhost_crds() -> Iterable[dict[str, Any]]:
    """Return the Foo CRD."""
    return [crd()]


@ctrlhost.hookimpl
def ctrlhost_permissions() -> Iterable[ctrlhost.Permission]:
    """Return the rights to write; those to read follow from the sources."""
    return [
        ctrlhost.Permission("apps", ["deployments"], ["create", "patch"]),
        ctrlhost.Permission("samplecontroller.example.com", ["foos/status"], ["patch"]),
        ctrlhost.Permission("events.k8s.io", ["events"], ["create", "patch"]),
    ]


@ctrlhost.hookimpl
def ctrlhost_setup(plugin: ctrlhost.PluginContext) -> None:
    """Reconcile each Foo when it or its Deployment changes."""
    plugin.add_controller(
        "foo",
        reconcile,
        ctrlhost.For(API_VERSION, KIND),
        ctrlhost.Owns("apps/v1", "Deployment"),
        workers=2,
    )
