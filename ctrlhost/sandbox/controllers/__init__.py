"""The controllers of a cluster besides its API server. They use the verbs that clients use.

Imports `api` and below. Public: `start`, `crds`, and `aggregation`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctrlhost.sandbox.context import ServerContext


def start(context: ServerContext) -> None:
    """Start the enabled controllers; they reconcile the stored objects first."""
    from ctrlhost.sandbox.controllers.gc import GarbageCollector
    from ctrlhost.sandbox.controllers.namespaces import NamespaceController

    chosen = context.options.controllers
    if "gc" in chosen:
        GarbageCollector(context).start()
    if "namespace" in chosen:
        NamespaceController(context).start()
    if chosen & {"scheduler", "kubelet"}:
        from ctrlhost.sandbox.controllers.pods import PodController

        PodController(context).start()
    if chosen & {"replicaset", "deployment", "statefulset", "daemonset"}:
        from ctrlhost.sandbox.controllers.daemonsets import DaemonSetController
        from ctrlhost.sandbox.controllers.replicas import DeploymentController, ReplicaSetController
        from ctrlhost.sandbox.controllers.statefulsets import StatefulSetController

        for controller in (ReplicaSetController, DeploymentController, StatefulSetController, DaemonSetController):
            if controller.name in chosen:
                controller(context).start()
    if chosen & {"endpointslice", "loadbalancer"}:
        from ctrlhost.sandbox.controllers.services import ServiceController

        ServiceController(context).start()
