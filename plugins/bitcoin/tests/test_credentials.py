"""Where credentials come from, what is wrong with them, and how they change."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from ctrlhost_bitcoin.objects.credentials import History, Usable, digest
from ctrlhost_bitcoin.rpc.client import Credentials

import ctrlhost
from plugins.bitcoin.tests.world import NAME, SECRET, SECRET_NAME, STS

SECRET_TEXT = "hunter2-and-more"
ANNOTATION = "bitcoincontroller.christianb93.github.com/credentials"


def template_digest(world: Any, name: str = NAME) -> str:
    found: str = world.sts(name)["spec"]["template"]["metadata"]["annotations"][ANNOTATION]
    return found


@pytest.mark.behaviour("bitcoin/B33")
def test_without_a_secret_the_known_credentials_are_used_and_warned_of_once(world: Any) -> None:
    world.start()
    world.net(2, secret="")
    world.idle()
    one, _ = world.pods(2)
    world.idle()
    assert one.logins_refused == 0
    assert one.added == ["10.0.0.2"]
    assert "envFrom" not in world.sts()["spec"]["template"]["spec"]["containers"][0]
    assert template_digest(world) == "default"
    world.after(300, step=30)
    (event,) = world.events("DefaultCredentials")
    assert "series" not in event
    assert world.condition("CredentialsReady") == ("True", "DefaultCredentials")
    assert world.condition("Ready") == ("True", "Ready")


@pytest.mark.behaviour("bitcoin/B34")
@pytest.mark.parametrize(
    ("data", "reason", "said"),
    [
        (None, "SecretNotFound", "there is no secret rpc"),
        ({"BC_RPC_USER": b"u"}, "SecretInvalid", "BC_RPC_PASSWORD is missing"),
        ({"BC_RPC_USER": b"", "BC_RPC_PASSWORD": b"p"}, "SecretInvalid", "BC_RPC_USER is empty"),
        ({"BC_RPC_USER": b"u", "BC_RPC_PASSWORD": b"hunter2:"}, "SecretInvalid", "BC_RPC_PASSWORD has a colon"),
        ({"BC_RPC_USER": b"u", "BC_RPC_PASSWORD": b"hunter2\n"}, "SecretInvalid", "has a control character"),
        ({"BC_RPC_USER": b"u", "BC_RPC_PASSWORD": b"hunter2\xff"}, "SecretInvalid", "is not UTF-8"),
    ],
    ids=["missing", "key missing", "empty", "colon", "newline", "not UTF-8"],
)
def test_without_usable_credentials_no_pods_are_made(
    world: Any, caplog: pytest.LogCaptureFixture, data: Any, reason: str, said: str
) -> None:
    replica = world.start()
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "rpc", "namespace": "test"}}
    if data is not None:
        encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        world.client.create({**secret, "data": encoded})
    world.net(secret="rpc")
    world.idle()
    assert world.condition("CredentialsReady") == ("False", reason)
    assert world.condition("Reconciled") == ("False", "WaitingForSecret")
    assert world.condition("Ready") == ("False", "WaitingForSecret")
    assert world.svc()["spec"]["clusterIP"] == "None"
    assert world.client.find(*STS, f"{NAME}-sts", "test") is None
    (event,) = world.events(reason)
    assert said in event["note"]
    said_in_all = str([world.status(), world.events(), caplog.text, [one.body for one in replica.sent]])
    assert "hunter2" not in said_in_all
    good = {"BC_RPC_USER": "u", "BC_RPC_PASSWORD": SECRET_TEXT}
    if data is None:
        world.client.create({**secret, "stringData": good})
    else:
        world.client.patch(*SECRET, "rpc", "test", {"stringData": good})
    world.idle()
    assert world.sts()["spec"]["replicas"] == 4
    assert world.condition("CredentialsReady") == ("True", "FromSecret")
    assert SECRET_TEXT not in str([world.status(), world.events(), caplog.text, [one.body for one in replica.sent]])


@pytest.mark.behaviour("bitcoin/B34")
def test_a_secret_that_may_not_be_read_is_told_of(world: Any) -> None:
    replica = world.start(settle=False, secret_access="get")
    replica.host.faults.next("get", ctrlhost.Forbidden("no"), resource="secrets", times=2)
    replica.host.start()
    world.net()
    world.idle()
    assert world.condition("CredentialsReady") == ("False", "Forbidden")
    assert world.condition("Reconciled") == ("False", "WaitingForSecret")
    assert world.client.find(*STS, f"{NAME}-sts", "test") is None
    replica.host.faults.clear()
    world.after(31)
    assert world.condition("CredentialsReady") == ("True", "FromSecret")
    assert world.sts()["spec"]["replicas"] == 4


def test_a_secret_that_vanishes_leaves_the_pods_as_they_are(world: Any) -> None:
    world.start()
    world.net(2)
    world.idle()
    one, _ = world.pods(2)
    world.idle()
    before, calls = world.sts(), len(one.calls)
    world.client.delete(*SECRET, SECRET_NAME, "test")
    world.idle()
    world.after(31)
    assert world.sts() == before
    assert len(one.calls) == calls
    assert world.condition("CredentialsReady") == ("False", "SecretNotFound")
    assert world.condition("MeshConverged") == ("Unknown", "Unknown")
    assert world.condition("Ready") == ("False", "WaitingForSecret")
    assert len(world.status()["nodes"]) == 2


@pytest.mark.behaviour("bitcoin/B35")
def test_a_secret_wakes_the_networks_that_use_it_and_labels_change_nothing(world: Any) -> None:
    world.namespace("elsewhere")
    replica = world.start()
    world.net()
    world.net(name="second")
    world.idle()
    before, runs = template_digest(world), replica.runs()
    world.client.patch(*SECRET, SECRET_NAME, "test", {"metadata": {"labels": {"a": "b"}}})
    world.idle()
    assert replica.runs() == runs + 2
    assert template_digest(world) == before
    world.secret(SECRET_NAME, "other", "pair", namespace="elsewhere")
    world.idle()
    assert replica.runs() == runs + 2
    world.client.patch(*SECRET, SECRET_NAME, "test", {"stringData": {"BC_RPC_PASSWORD": "new"}})
    world.idle()
    assert template_digest(world) != before
    assert template_digest(world, "second") == template_digest(world)


@pytest.mark.behaviour("bitcoin/B36")
def test_half_way_through_a_rotation_each_node_is_called_with_its_own_pair(world: Any) -> None:
    world.start()
    world.net(3)
    world.idle()
    daemons = world.pods(3)
    world.idle()
    world.client.patch(*SECRET, SECRET_NAME, "test", {"stringData": {"BC_RPC_PASSWORD": "new"}})
    world.idle()
    assert len(world.events("CredentialsRotated")) == 1
    world.delete_pod(2)
    world.idle()
    daemons[2] = world.daemon("10.0.0.33", password="new")
    world.pod(2, "10.0.0.33")
    world.after(31)
    assert [daemon.logins_refused for daemon in daemons] == [0, 0, 0]
    assert world.condition("MeshConverged") == ("True", "Converged")
    assert sorted(daemons[0].added) == ["10.0.0.2", "10.0.0.33"]
    # After a restart nobody knows the old pair any more.
    world.replicas.pop().host.stop()
    replica = world.start()
    world.idle()
    assert all(daemon.logins_refused >= 1 for daemon in daemons[:2])
    assert daemons[2].logins_refused == 0
    assert sorted(daemons[2].added) == ["10.0.0.1", "10.0.0.2"]
    assert world.condition("CredentialsReady") == ("False", "Unauthorized")
    assert world.condition("MeshConverged") == ("False", "Unauthorized")
    tries = [daemon.logins_refused for daemon in daemons]
    world.after(29, step=1)
    replica.enqueue()
    world.idle()
    assert [daemon.logins_refused for daemon in daemons] == tries
    for ordinal in (1, 0):
        world.delete_pod(ordinal)
        world.idle()
        world.daemon(f"10.0.0.{40 + ordinal}", password="new")
        world.pod(ordinal, f"10.0.0.{40 + ordinal}")
        world.idle()
    assert world.condition("Ready") == ("True", "Ready")
    reported = world.events("RPCUnauthorized")
    assert sorted(one["note"] for one in reported) == [
        f"node {NAME}-sts-0 (10.0.0.1): Unauthorized",
        f"node {NAME}-sts-1 (10.0.0.2): Unauthorized",
    ]


def test_with_manual_rotation_pods_that_were_restarted_get_the_new_pair(world: Any) -> None:
    world.start(rotate="manual")
    world.net(2)
    world.idle()
    daemons = world.pods(2)
    world.idle()
    before = template_digest(world)
    world.client.patch(*SECRET, SECRET_NAME, "test", {"stringData": {"BC_RPC_PASSWORD": "new"}})
    world.idle()
    assert template_digest(world) == before
    assert world.events("CredentialsRotated") == []
    daemons[1].forget()
    daemons[1].password = "new"
    world.set_pod(1, restarts=1)
    world.idle()
    world.after(2)
    assert daemons[0].logins_refused == 0
    assert daemons[1].logins_refused == 1
    assert world.condition("MeshConverged") == ("True", "Converged")


def test_daemons_with_another_password_are_asked_every_30_s(world: Any, caplog: pytest.LogCaptureFixture) -> None:
    world.secret("rpc", "user", SECRET_TEXT)
    world.start()
    world.net(2, secret="rpc")
    world.idle()
    one, two = world.pods(2, password="another")
    world.idle()
    assert (one.logins_refused, two.logins_refused) == (1, 1)
    world.after(29, step=1)
    assert (one.logins_refused, two.logins_refused) == (1, 1)
    world.after(2)
    assert (one.logins_refused, two.logins_refused) == (2, 2)
    assert len(world.events("RPCUnauthorized")) == 2
    assert SECRET_TEXT not in str([world.status(), world.events(), caplog.text])
    # A change of the Secret is a reason to try at once.
    world.client.patch(*SECRET, "rpc", "test", {"stringData": {"BC_RPC_PASSWORD": "another"}})
    world.idle()
    assert world.condition("CredentialsReady") == ("True", "FromSecret")
    assert one.added == ["10.0.0.2"]


@pytest.mark.behaviour("bitcoin/B37")
def test_secrets_can_be_asked_for_one_by_one(world: Any) -> None:
    replica = world.start(secret_access="get")
    world.net()
    world.idle()

    def asked() -> list[str]:
        return [one.path for one in replica.sent if "/secrets" in one.path]

    assert asked() == [f"/api/v1/namespaces/test/secrets/{SECRET_NAME}"]
    informers = replica.host.controllers["bitcoin/bitcoin"].informers
    assert "Secret" not in [informer.kind for informer in informers]
    for _ in range(3):
        replica.enqueue()
        world.idle()
    assert len(asked()) == 1
    world.after(300, step=1)
    assert 10 <= len(asked()) <= 11
    before = template_digest(world)
    world.client.patch(*SECRET, SECRET_NAME, "test", {"stringData": {"BC_RPC_PASSWORD": "new"}})
    world.after(31)
    assert template_digest(world) != before


def test_a_digest_depends_on_the_secret_and_shows_nothing() -> None:
    pair = Credentials("user", "password")
    assert len(digest("uid", pair)) == 16
    assert digest("uid", pair) == digest("uid", Credentials("user", "password"))
    assert len({digest("uid", pair), digest("other", pair), digest("uid", Credentials("user", "p"))}) == 3
    assert digest("uid", Credentials("a", "bc")) != digest("uid", Credentials("ab", "c"))
    assert "password" not in repr(pair)


def test_a_history_keeps_the_present_pair_and_the_one_before() -> None:
    history, pairs = History(), [Credentials("u", str(number)) for number in range(3)]
    for number, pair in enumerate(pairs):
        history.use(Usable(pair, f"d{number}", "FromSecret", ""))
    assert history.revision == 3
    history.use(Usable(pairs[2], "d2", "FromSecret", ""))
    assert history.revision == 3
    assert history.candidates("d2") == (pairs[2], pairs[1])
    assert history.candidates("d1") == (pairs[1], pairs[2])
    assert history.candidates("unknown") == history.candidates(None) == (pairs[2], pairs[1])
