"""A Deployment that the tests of patches change."""

from __future__ import annotations

import pytest

from tests.support.http_client import Api
from tests.support.objects import apps, container, deployment


@pytest.fixture
def deploy(api: Api, ns: str) -> str:
    """Create a Deployment of the containers a and b; a has variables and mounts. Return its path."""
    env = [{"name": "x", "value": "1"}, {"name": "y", "value": "2"}]
    mounts = [{"name": "v", "mountPath": "/v"}, {"name": "v", "mountPath": "/w"}]
    body = deployment("d", container("a", env=env, volumeMounts=mounts), container("b"), replicas=0)
    body["spec"]["template"]["spec"]["volumes"] = [{"name": "v"}]
    body["spec"]["template"]["spec"]["tolerations"] = [{"key": "t1", "operator": "Exists"}]
    api.post(apps(ns, "deployments"), body).expect(201)
    return apps(ns, "deployments", "d")
