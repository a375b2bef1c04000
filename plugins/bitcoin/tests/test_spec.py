"""Names and specs: validated by the schema, and by the reconciler for older objects."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from ctrlhost_bitcoin import plugin
from ctrlhost_bitcoin.model import BitcoinNetwork, Rejected, check_name, completed
from ctrlhost_bitcoin.settings import BitcoinSettings

import ctrlhost
from plugins.bitcoin.tests.cluster import NAME, NET, STS

CRD = (
    "apiextensions.k8s.io/v1",
    "CustomResourceDefinition",
    "bitcoinnetworks.bitcoincontroller.christianb93.github.com",
)
ABSENT = object()


def network(name: str = NAME, **spec: Any) -> dict[str, Any]:
    wanted = {"nodes": 3, **spec}
    kept = {key: value for key, value in wanted.items() if value is not ABSENT}
    return {"apiVersion": NET[0], "kind": NET[1], "metadata": {"name": name, "namespace": "test"}, "spec": kept}


def decoded(**spec: Any) -> BitcoinNetwork:
    return ctrlhost.Object(network(**spec)).decode(BitcoinNetwork)


def lax() -> dict[str, Any]:
    """Return the CRD without its rules, and without the scale, which checks the number of nodes."""
    (crd,) = plugin.ctrlhost_crds()
    version = crd["spec"]["versions"][0]
    del version["subresources"]["scale"]
    schema = version["schema"]["openAPIV3Schema"]
    del schema["x-kubernetes-validations"], schema["required"]
    schema["properties"]["spec"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return crd


@pytest.mark.behaviour("bitcoin/B8")
@pytest.mark.parametrize("nodes", [-1, 101, "3", 2.5, pytest.param(ABSENT, id="absent")], ids=repr)
def test_an_impossible_number_of_nodes_is_refused_by_the_schema(cluster: Any, nodes: Any) -> None:
    cluster.start()
    with pytest.raises(ctrlhost.Invalid, match=r"spec\.nodes"):
        cluster.client.create(network(nodes=nodes))


@pytest.mark.behaviour("bitcoin/B8")
@pytest.mark.parametrize("nodes", [-1, 101, "3", 2.5, pytest.param(ABSENT, id="absent")], ids=repr)
def test_an_impossible_number_of_nodes_is_only_reported(cluster: Any, nodes: Any) -> None:
    replica = cluster.start()
    cluster.client.apply(lax(), field_manager="ctrlhost")
    replica.host.wait_for(lambda: _served(cluster))
    replica.forget()
    cluster.client.create(network(nodes=nodes))
    cluster.idle()
    assert cluster.condition("Reconciled") == ("False", "InvalidSpec")
    assert cluster.condition("Ready") == ("False", "InvalidSpec")
    assert cluster.client.find(*STS, f"{NAME}-sts", "test") is None
    assert {write.path.rpartition("/")[2] for write in replica.writes()} == {"status"}
    # The probe may have been reconciled as well, before it was deleted.
    (event,) = [entry for entry in cluster.events("InvalidSpec") if entry["regarding"]["name"] == NAME]
    assert "spec.nodes" in event["note"]
    assert replica.controller.status().errors == 0
    cluster.assert_rests()


def _served(cluster: Any) -> bool:
    """Return whether the server uses the new schema by now."""
    try:
        cluster.client.delete(*NET, cluster.client.create(network("probe", nodes=1000))["metadata"]["name"], "test")
    except ctrlhost.Invalid:
        return False
    return True


@pytest.mark.behaviour("bitcoin/B9")
def test_names_that_cannot_work_are_refused(cluster: Any) -> None:
    cluster.start()
    for name in ("1net", "my.net", "a" * 49):
        with pytest.raises(ctrlhost.Invalid, match=r"metadata\.name"):
            cluster.client.create(network(name))
    longest = "a" * 48
    cluster.client.create(network(longest))
    cluster.idle()
    assert cluster.sts(longest)["spec"]["replicas"] == 3
    for name in ("1net", "my.net", "a" * 49, "net-", "Net", ""):
        with pytest.raises(Rejected) as raised:
            check_name(name)
        assert raised.value.reason == "InvalidName"


@pytest.mark.behaviour("bitcoin/B9")
def test_a_name_from_before_the_schema_gets_a_status_and_nothing_else(cluster: Any) -> None:
    replica = cluster.start()
    cluster.client.apply(lax(), field_manager="ctrlhost")
    replica.host.wait_for(lambda: _served(cluster))
    for name in ("1net", "my.net", "a" * 49):
        replica.forget()
        cluster.client.create(network(name))
        cluster.idle()
        assert cluster.condition("Reconciled", name) == ("False", "InvalidName")
        assert len([event for event in cluster.events("InvalidName") if event["regarding"]["name"] == name]) == 1
        assert {write.path.rpartition("/")[2] for write in replica.writes()} == {"status"}


@pytest.mark.parametrize(
    "spec",
    [
        {"image": "a\nb"},
        {"image": ""},
        {"secret": "Not a name"},
        {"readiness": "Guess"},
        {"rpcPort": 0},
        {"p2pPort": 65536},
        {"args": "-regtest"},
        {"args": ["x"] * 65},
        {"securityContext": {"runAsUser": 0}},
        {"securityContext": {"fsGroup": -1}},
        {"resources": {"limits": {"cpu": "-1"}}},
        {"resources": {"requests": {"memory": "1 GB"}}},
        {"storage": {}},
        {"storage": {"size": "large"}},
        {"storage": {"size": "1Gi", "mountPath": "relative"}},
    ],
    ids=lambda spec: next(iter(spec)),
)
def test_absurd_values_are_refused_twice(cluster: Any, spec: dict[str, Any]) -> None:
    cluster.start()
    (field,) = spec
    with pytest.raises(ctrlhost.Invalid, match=rf"spec\.{field}"):
        cluster.client.create(network(**spec))
    with pytest.raises(msgspec.ValidationError, match=rf"spec\.{field}"):
        decoded(**spec)


def test_settings_fill_in_what_a_network_leaves_out() -> None:
    settings = BitcoinSettings(default_image="mine", rpc_port=1, p2p_port=2)
    spec = completed(decoded(), settings)
    assert (spec.image, spec.rpc_port, spec.p2p_port, spec.secret) == ("mine", 1, 2, "")
    spec = completed(decoded(image="own", rpcPort=3, p2pPort=4, args=[], readiness="Rest", secret="s"), settings)
    assert (spec.image, spec.rpc_port, spec.p2p_port, spec.secret) == ("own", 3, 4, "s")
    with pytest.raises(Rejected, match="both"):
        completed(decoded(rpcPort=2), settings)


@pytest.mark.parametrize(
    "wrong",
    [
        {"rpc_port": 0},
        {"workers": 0},
        {"rpc_concurrency": 0},
        {"mesh_deadline": 0},
        {"default_image": " "},
        {"secret_names": ("a",)},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    named = {name.replace("_", "-"): value for name, value in wrong.items()}
    with pytest.raises(msgspec.ValidationError, match=next(iter(named))):
        msgspec.convert(named, BitcoinSettings)
