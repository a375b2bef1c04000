"""What `ctx.ensure` costs where nothing changes. The row is in the table of authoring, section 12."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

import pytest

from benches.test_operations_samples import processor_times
from tests.support.operators import Requests, deployment, mine, operator

if TYPE_CHECKING:
    from collections.abc import Callable

    import ctrlhost
    from benches.ratios import Ratios


@pytest.mark.behaviour("authoring/AC2")
@pytest.mark.behaviour("faster/FA16")
def test_an_unchanged_deployment(ratios: Ratios, ctrlhost_host: Callable[..., Any]) -> None:
    """Digest, look-up and comparison of a Deployment with a container of usual size; the median of many calls."""
    calls = 20_000
    wanted, taken = deployment(), []
    wanted["spec"]["template"]["spec"]["containers"][0] |= {
        "resources": {"limits": {"cpu": "1000m", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "512Mi"}},
        "ports": [{"name": "memcached", "containerPort": 11211}],
        "readinessProbe": {"tcpSocket": {"port": "memcached"}, "periodSeconds": 5},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    wanted["spec"]["template"]["spec"]["volumes"] = [{"name": "data", "emptyDir": {}}]

    def reconcile(ctx: ctrlhost.Context, _obj: ctrlhost.Object) -> None:
        ctx.ensure(wanted)
        if "measure" in ctx.object.labels and not taken:
            requests.new()
            taken.extend(processor_times(lambda: ctx.ensure(wanted), calls))

    host = ctrlhost_host(operator(reconcile))
    requests = Requests(host)
    host.client.create(mine())
    host.run_until_idle()
    host.client.patch("v1", "ConfigMap", "cache", "default", {"metadata": {"labels": {"measure": "1"}}})
    host.run_until_idle()
    assert len(taken) == calls
    assert requests.new() == []
    ratios.add("authoring", "ctx.ensure of an unchanged Deployment", "s", statistics.median(taken))
