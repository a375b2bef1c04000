"""Networks of real daemons and the Secrets with their credentials, and objects that users meddle with."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from tests.bitcoind.world import SERVICE, SOAK, STATEFUL_SET
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from examples.bitcoind.pod import ToyPod
    from tests.bitcoind.world import World

behaviour = pytest.mark.behaviour


def refusals(pod: ToyPod) -> list[float]:
    """Give when a daemon refused a password, in seconds, which is as exact as its log is."""
    lines = [line for line in pod.daemon.log.splitlines() if "incorrect password" in line]
    return [datetime.fromisoformat(line.split()[0]).timestamp() for line in lines]


@behaviour("bitcoin/E12")
def test_changed_credentials_roll_through_the_nodes_and_none_refuses_us(world: World) -> None:
    host = world.start()
    world.secret("rpc", "old-pass")
    before = world.up("net", 3, "rpc")
    eventually(lambda: world.is_ready("net"))
    world.secret("rpc", "new-pass")

    def rolled() -> bool:
        running = world.kubelet.pods()
        pods = [running.get(pod.name) for pod in before]
        return all(pod is not None and pod not in before for pod in pods) and world.meshed("net", 3)

    world.within(20, lambda: rolled() and world.is_ready("net"), "E12")
    assert {pod.daemon.target.credentials.password for pod in world.pods("net", 3)} == {"new-pass"}
    eventually(lambda: "CredentialsRotated" in world.reasons("net"))
    assert world.reasons("net").count("CredentialsRotated") == 1
    assert "RPCUnauthorized" not in world.reasons("net")
    assert not any(outcome == "Unauthorized" for _, outcome in host.calls())


@behaviour("bitcoin/E13")
def test_a_network_waits_for_its_secret_and_comes_up_as_soon_as_it_is_there(world: World) -> None:
    world.start()
    world.network("net", 3, "rpc")
    eventually(lambda: world.conditions("net").get("Reconciled") == ("False", "WaitingForSecret"))
    assert world.conditions("net")["CredentialsReady"] == ("False", "SecretNotFound")
    assert world.find(SERVICE, "net-svc") is not None
    assert world.find(STATEFUL_SET, "net-sts") is None
    world.secret("rpc")
    world.within(5, lambda: world.meshed("net", 3) and world.is_ready("net"), "E13")


@behaviour("bitcoin/E14")
def test_daemons_with_another_password_are_told_of_once_and_left_in_peace(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    host = world.start(resync="1s")
    world.secret("rpc", "password-of-the-secret")
    world.kubelet.password = "password-of-the-daemon"
    world.network("closed", 2, "rpc")
    pods = world.pods("closed", 2)
    eventually(lambda: world.conditions("closed").get("CredentialsReady") == ("False", "Unauthorized"), 30)
    assert world.conditions("closed")["MeshConverged"] == ("False", "Unauthorized")
    eventually(lambda: world.reasons("closed").count("RPCUnauthorized") == 2)

    # Another network shows that time goes by, and that this one holds nobody up.
    world.kubelet.password = None
    world.up("open", 2, "rpc")
    look = ("getaddednodeinfo", "ok")
    begun = host.calls()[look]
    eventually(lambda: host.calls()[look] >= begun + 2 * 4, 30, "four resyncs")
    assert [len(refusals(pod)) for pod in pods] == [1, 1]
    if SOAK:
        eventually(lambda: all(len(refusals(pod)) == 2 for pod in pods), 60, "a second login")
        assert all(second - first >= 29 for first, second in map(refusals, pods))
    assert world.reasons("closed").count("RPCUnauthorized") == 2
    seen = [caplog.text, str(world.status("closed"))]
    seen += [str(event) for event in world.client.list("events.k8s.io/v1", "Event", world.namespace)]
    seen += [str(world.find(STATEFUL_SET, "closed-sts"))]
    assert "password-of-the-" not in "".join(seen)


@behaviour("bitcoin/E15")
def test_what_users_delete_or_scale_by_hand_is_put_back(world: World) -> None:
    world.start()
    world.up("net", 2)

    def uid(kind: tuple[str, str], name: str) -> str:
        found = world.find(kind, name)
        return found["metadata"]["uid"] if found is not None else ""

    old = uid(SERVICE, "net-svc")
    world.client.delete(*SERVICE, "net-svc", world.namespace)
    world.within(2, lambda: uid(SERVICE, "net-svc") not in ("", old), "E15 service")

    world.client.patch(*STATEFUL_SET, "net-sts", world.namespace, {"spec": {"replicas": 4}}, subresource="scale")

    def replicas() -> int:
        found = world.find(STATEFUL_SET, "net-sts")
        assert found is not None
        return int(found["spec"]["replicas"])

    world.within(2, lambda: replicas() == 2, "E15 scale")

    old = uid(STATEFUL_SET, "net-sts")
    world.client.delete(*STATEFUL_SET, "net-sts", world.namespace)
    world.within(2, lambda: uid(STATEFUL_SET, "net-sts") not in ("", old), "E15 stateful set")
    eventually(lambda: world.meshed("net", 2) and world.is_ready("net"), 40)
