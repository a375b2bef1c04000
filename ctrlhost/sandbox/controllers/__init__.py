"""The controllers of a cluster besides its API server. They use the verbs that clients use.

Imports `api` and below. Public: `start`, `crds`, and `aggregation`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctrlhost.sandbox.context import ServerContext


def start(context: ServerContext) -> None:
    """Start the enabled controllers and those of admission; they reconcile the stored objects first."""
    from ctrlhost.sandbox.controllers.cronjobs import CronJobController
    from ctrlhost.sandbox.controllers.daemonsets import DaemonSetController
    from ctrlhost.sandbox.controllers.deployments import DeploymentController
    from ctrlhost.sandbox.controllers.disruptions import DisruptionController
    from ctrlhost.sandbox.controllers.gc import GarbageCollector
    from ctrlhost.sandbox.controllers.jobs import JobController
    from ctrlhost.sandbox.controllers.namespaces import NamespaceController
    from ctrlhost.sandbox.controllers.pods import PodController
    from ctrlhost.sandbox.controllers.policy_status import PolicyStatusController
    from ctrlhost.sandbox.controllers.quotas import QuotaController
    from ctrlhost.sandbox.controllers.replicasets import ReplicaSetController, ReplicationControllerController
    from ctrlhost.sandbox.controllers.services import ServiceController
    from ctrlhost.sandbox.controllers.statefulsets import StatefulSetController
    from ctrlhost.sandbox.controllers.volumes import VolumeController

    # Quotas and policies are the server's own business, whatever else runs.
    for own in (QuotaController, PolicyStatusController):
        own(context).start()
    replicated = (ReplicaSetController, ReplicationControllerController)
    workloads = (*replicated, DeploymentController, StatefulSetController, DaemonSetController)
    batch = (JobController, CronJobController, DisruptionController, VolumeController)
    for controller in (GarbageCollector, NamespaceController, PodController, *workloads, *batch, ServiceController):
        if context.options.controllers & (controller.parts or {controller.name}):
            controller(context).start()
