"""The controllers that a cluster has besides its API server. They act through the verbs that clients use."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctrlhost.sandbox.context import ServerContext


def start(context: ServerContext) -> None:
    """Start the controllers that are switched on; they bring what is stored already into order first."""
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
