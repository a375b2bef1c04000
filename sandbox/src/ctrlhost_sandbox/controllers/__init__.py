"""The controllers of a cluster besides its API server. They use the verbs that clients use.

Imports `api` and below. Public: `start`, `crds`, and `aggregation`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctrlhost_sandbox.context import ServerContext


def start(context: ServerContext) -> None:
    """Start the enabled controllers and those of admission; they reconcile the stored objects first."""
    from ctrlhost_sandbox.controllers.cronjobs import CronJobController
    from ctrlhost_sandbox.controllers.daemonsets import DaemonSetController
    from ctrlhost_sandbox.controllers.deployments import DeploymentController
    from ctrlhost_sandbox.controllers.disruptions import DisruptionController
    from ctrlhost_sandbox.controllers.gc import GarbageCollector
    from ctrlhost_sandbox.controllers.jobs import JobController
    from ctrlhost_sandbox.controllers.namespaces import NamespaceController
    from ctrlhost_sandbox.controllers.pods import PodController
    from ctrlhost_sandbox.controllers.policy_status import PolicyStatusController
    from ctrlhost_sandbox.controllers.quotas import QuotaController
    from ctrlhost_sandbox.controllers.replicasets import ReplicaSetController, ReplicationControllerController
    from ctrlhost_sandbox.controllers.services import ServiceController
    from ctrlhost_sandbox.controllers.statefulsets import StatefulSetController
    from ctrlhost_sandbox.controllers.volumes import VolumeController

    # Quotas and policies are the server's own business, whatever else runs.
    for own in (QuotaController, PolicyStatusController):
        own(context).start()
    replicated = (ReplicaSetController, ReplicationControllerController)
    workloads = (*replicated, DeploymentController, StatefulSetController, DaemonSetController)
    batch = (JobController, CronJobController, DisruptionController, VolumeController)
    for controller in (GarbageCollector, NamespaceController, PodController, *workloads, *batch, ServiceController):
        if context.options.controllers & (controller.parts or {controller.name}):
            controller(context).start()
