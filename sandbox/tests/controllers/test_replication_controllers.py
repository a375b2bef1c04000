"""ReplicationControllers with the controllers `workloads`."""

from __future__ import annotations

import pytest

from tests.support.http_client import Api
from tests.support.objects import core, pod, template
from tests.support.waiting import eventually
from tests.support.workload_clusters import by_name, pods


@pytest.mark.behaviour("findings/FS28")
def test_a_replication_controller_keeps_the_number_of_its_pods(api: Api, ns: str) -> None:
    path = core(ns, "replicationcontrollers", "r")
    lone = {**pod(nodeSelector={}), "metadata": {"name": "lone", "labels": {"app": "x"}}}
    api.post(core(ns, "pods"), lone).expect(201)
    spec = {"replicas": 3, "selector": {"app": "x"}, "template": template()}
    controller = api.post(core(ns, "replicationcontrollers"), {"metadata": {"name": "r"}, "spec": spec}).expect(201)

    def counts() -> tuple[int, int]:
        status = api.get(path).expect(200)["status"]
        return status.get("replicas", 0), status.get("readyReplicas", 0)

    eventually(lambda: counts() == (3, 3))
    replicas = by_name(api, ns)
    assert "lone" in replicas
    for replica in replicas.values():
        (owner,) = replica["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == (
            controller["kind"],
            controller["metadata"]["uid"],
            True,
        )
    api.patch(f"{path}/scale", {"spec": {"replicas": 1}}).expect(200)
    eventually(lambda: counts() == (1, 1))
    # A pod with other labels is released, and replaced.
    (name,) = by_name(api, ns)
    api.patch(core(ns, "pods", name), {"metadata": {"labels": {"app": "y"}}}).expect(200)
    eventually(lambda: len(pods(api, ns)) == 2)
    eventually(lambda: not api.get(core(ns, "pods", name)).json()["metadata"].get("ownerReferences"))
    api.delete(path, {"propagationPolicy": "Foreground"}).expect(200)
    api.gone(path)
    assert by_name(api, ns).keys() == {name}
