from pathlib import Path

import pytest
from memcached import Memcached, Spec, plugin

from ctrlhost import ObjectMeta
from ctrlhost.testing import HostUnderTest, StartHost, context

DEPLOYMENT = "apps/v1/Deployment"


@pytest.fixture
def host(ctrlhost_host: StartHost) -> HostUnderTest:
    """A host that has reconciled the example, with the rights that `ctrlhost manifests` prints."""
    host = ctrlhost_host(plugin, settings={"memcached": {"image": "memcached:1.6.40"}}, least_privilege=True)
    host.apply(Path(__file__).parents[1] / "cache.yaml")
    host.settle()
    return host


@pytest.mark.behaviour("authoring/AD7")
def test_a_memcached_has_a_deployment_of_its_size(host: HostUnderTest) -> None:
    deployment = host.get(DEPLOYMENT, "cache")
    assert deployment["spec"]["replicas"] == 2
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "memcached:1.6.40"
    assert deployment.is_controlled_by(host.get(Memcached, "cache"))


def test_a_foreign_change_is_repaired(host: HostUnderTest) -> None:
    host.patch(DEPLOYMENT, "cache", {"spec": {"replicas": 5}})
    host.settle()
    assert host.get(DEPLOYMENT, "cache")["spec"]["replicas"] == 2


def test_the_status_follows_the_deployment(host: HostUnderTest) -> None:
    cache = host.get(Memcached, "cache")
    assert cache.status is not None
    assert not cache.status.is_true("Available")
    host.patch(DEPLOYMENT, "cache", {"status": {"replicas": 2, "readyReplicas": 2}}, subresource="status")
    host.settle()
    cache = host.get(Memcached, "cache")
    assert cache.status is not None
    assert cache.status.readyReplicas == 2
    assert cache.status.is_true("Available")


def test_every_right_is_used(host: HostUnderTest) -> None:
    assert host.unused_rights() == []


@pytest.mark.behaviour("findings3/NA21")
def test_one_run_without_a_host() -> None:
    ctx = context(plugin, Memcached(metadata=ObjectMeta(name="cache"), spec=Spec(size=3)))
    ctx.run()
    assert ctx.client.get("apps/v1", "Deployment", "cache")["spec"]["replicas"] == 3
    assert ctx.client.get("cache.example.com/v1alpha1", "Memcached", "cache")["status"]["readyReplicas"] == 0
    assert [event.reason for event in ctx.recorded] == ["Created"]
