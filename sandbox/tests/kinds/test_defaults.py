"""The defaults of Deployments, StatefulSets, Services and Secrets."""

from __future__ import annotations

import base64

import pytest

from tests.support.http_client import Api
from tests.support.objects import apps, container, core, deployment, service, stateful_set


@pytest.mark.behaviour("sandbox/CT-23")
@pytest.mark.parametrize(
    ("image", "policy"),
    [("nginx", "Always"), ("nginx:latest", "Always"), ("nginx:1", "IfNotPresent"), ("r:5000/a/b:2", "IfNotPresent")],
)
def test_a_deployment_gets_its_defaults(api: Api, ns: str, image: str, policy: str) -> None:
    obj = api.post(apps(ns, "deployments"), deployment("d", container("a", image))).expect(201)
    spec = obj["spec"]
    assert spec["replicas"] == 1
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}
    assert (spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (10, 600)
    inner = spec["template"]["spec"]
    assert (inner["restartPolicy"], inner["dnsPolicy"], inner["terminationGracePeriodSeconds"]) == (
        "Always",
        "ClusterFirst",
        30,
    )
    assert inner["containers"][0]["imagePullPolicy"] == policy
    assert obj["metadata"]["generation"] == 1


@pytest.mark.behaviour("sandbox/CT-24")
def test_a_stateful_set_gets_its_defaults(api: Api, ns: str) -> None:
    spec = api.post(apps(ns, "statefulsets"), stateful_set(replicas=0)).expect(201)["spec"]
    assert spec["podManagementPolicy"] == "OrderedReady"
    assert spec["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}


@pytest.mark.behaviour("sandbox/CT-25")
def test_a_service_gets_its_defaults(api: Api, ns: str) -> None:
    spec = api.post(core(ns, "services"), service()).expect(201)["spec"]
    assert (spec["type"], spec["sessionAffinity"]) == ("ClusterIP", "None")
    assert spec["clusterIP"]
    assert spec["clusterIPs"] == [spec["clusterIP"]]
    assert spec["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]


@pytest.mark.behaviour("sandbox/CT-26")
def test_string_data_becomes_data(api: Api, ns: str) -> None:
    body = {"metadata": {"name": "a"}, "stringData": {"k": "v"}}
    secret = api.post(core(ns, "secrets"), body).expect(201)
    assert secret["data"] == {"k": base64.b64encode(b"v").decode()}
    assert "stringData" not in secret
    assert secret["type"] == "Opaque"
