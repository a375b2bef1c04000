"""The source of credentials, their faults and their rotation."""

from __future__ import annotations

import base64
import re
from typing import Any

import pytest
from ctrlhost_bitcoin.credentials import History, Usable, digest
from ctrlhost_bitcoin.rpc.client import Credentials

import ctrlhost
from plugins.bitcoin.tests.cluster import NAME, SECRET, SECRET_NAME, STS

SECRET_TEXT = "hunter2-and-more"
ANNOTATION = "bitcoincontroller.christianb93.github.com/credentials"


def template_digest(cluster: Any, name: str = NAME) -> str:
    fingerprint: str = cluster.sts(name)["spec"]["template"]["metadata"]["annotations"][ANNOTATION]
    return fingerprint


@pytest.mark.behaviour("bitcoin/B33")
def test_without_a_secret_the_known_credentials_are_used_and_warned_of_once(cluster: Any) -> None:
    cluster.start()
    cluster.net(2, secret="")
    first, _ = cluster.pods(2)
    assert first.logins_refused == 0
    assert first.added == ["10.0.0.2"]
    assert "envFrom" not in cluster.sts()["spec"]["template"]["spec"]["containers"][0]
    assert template_digest(cluster) == "default"
    cluster.after(300, step=30)
    (event,) = cluster.events("DefaultCredentials")
    assert "series" not in event
    assert cluster.condition("CredentialsReady") == ("True", "DefaultCredentials")
    assert cluster.condition("Ready") == ("True", "Ready")


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
    cluster: Any, caplog: pytest.LogCaptureFixture, data: Any, reason: str, said: str
) -> None:
    replica = cluster.start()
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "rpc", "namespace": "test"}}
    if data is not None:
        encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        cluster.client.create({**secret, "data": encoded})
    cluster.net(secret="rpc")
    assert cluster.condition("CredentialsReady") == ("False", reason)
    assert cluster.condition("Reconciled") == ("False", "WaitingForSecret")
    assert cluster.condition("Ready") == ("False", "WaitingForSecret")
    assert cluster.svc()["spec"]["clusterIP"] == "None"
    assert cluster.client.find(*STS, f"{NAME}-sts", "test") is None
    (event,) = cluster.events(reason)
    assert said in event["note"]
    said_in_all = str([cluster.status(), cluster.events(), caplog.text, [request.body for request in replica.sent]])
    assert "hunter2" not in said_in_all
    good = {"BC_RPC_USER": "u", "BC_RPC_PASSWORD": SECRET_TEXT}
    if data is None:
        cluster.client.create({**secret, "stringData": good})
    else:
        cluster.client.patch(*SECRET, "rpc", "test", {"stringData": good})
    cluster.idle()
    assert cluster.sts()["spec"]["replicas"] == 4
    assert cluster.condition("CredentialsReady") == ("True", "FromSecret")
    assert SECRET_TEXT not in str(
        [cluster.status(), cluster.events(), caplog.text, [request.body for request in replica.sent]]
    )


@pytest.mark.behaviour("bitcoin/B34")
def test_a_secret_that_may_not_be_read_is_reported(cluster: Any) -> None:
    replica = cluster.start(settle=False, secret_access="get")
    replica.host.faults.next("get", ctrlhost.Forbidden("no"), resource="secrets", times=2)
    replica.host.start()
    cluster.net()
    cluster.idle()
    assert cluster.condition("CredentialsReady") == ("False", "Forbidden")
    assert cluster.condition("Reconciled") == ("False", "WaitingForSecret")
    assert cluster.client.find(*STS, f"{NAME}-sts", "test") is None
    replica.host.faults.clear()
    cluster.after(31)
    assert cluster.condition("CredentialsReady") == ("True", "FromSecret")
    assert cluster.sts()["spec"]["replicas"] == 4


def test_a_secret_that_vanishes_leaves_the_pods_as_they_are(cluster: Any) -> None:
    cluster.start()
    cluster.net(2)
    first, _ = cluster.pods(2)
    before, calls = cluster.sts(), len(first.calls)
    cluster.client.delete(*SECRET, SECRET_NAME, "test")
    cluster.idle()
    cluster.after(31)
    assert cluster.sts() == before
    assert len(first.calls) == calls
    assert cluster.condition("CredentialsReady") == ("False", "SecretNotFound")
    assert cluster.condition("MeshConverged") == ("Unknown", "Unknown")
    assert cluster.condition("Ready") == ("False", "WaitingForSecret")
    assert len(cluster.status()["nodes"]) == 2


@pytest.mark.behaviour("bitcoin/B35")
def test_a_secret_wakes_the_networks_that_use_it_and_labels_change_nothing(cluster: Any) -> None:
    cluster.namespace("elsewhere")
    replica = cluster.start()
    cluster.net()
    cluster.net(name="second")
    before, runs = template_digest(cluster), replica.runs()
    cluster.client.patch(*SECRET, SECRET_NAME, "test", {"metadata": {"labels": {"a": "b"}}})
    cluster.idle()
    assert replica.runs() == runs + 2
    assert template_digest(cluster) == before
    cluster.secret(SECRET_NAME, "other", "pair", namespace="elsewhere")
    cluster.idle()
    assert replica.runs() == runs + 2
    cluster.edit_secret()
    assert template_digest(cluster) != before
    assert template_digest(cluster, "second") == template_digest(cluster)


@pytest.mark.behaviour("bitcoin/B36")
def test_during_a_rotation_each_node_is_called_with_its_own_credentials(cluster: Any) -> None:
    cluster.start()
    cluster.net(3)
    daemons = cluster.pods(3)
    cluster.edit_secret()
    assert len(cluster.events("CredentialsRotated")) == 1
    cluster.delete_pod(2)
    daemons[2] = cluster.daemon("10.0.0.33", password="new")
    cluster.pod(2, "10.0.0.33")
    cluster.after(31)
    assert [daemon.logins_refused for daemon in daemons] == [0, 0, 0]
    assert cluster.condition("MeshConverged") == ("True", "Converged")
    assert sorted(daemons[0].added) == ["10.0.0.2", "10.0.0.33"]
    # After a restart the old credentials are no longer known.
    cluster.replicas.pop().host.stop()
    cluster.start()
    assert all(daemon.logins_refused >= 1 for daemon in daemons[:2])
    assert daemons[2].logins_refused == 0
    assert sorted(daemons[2].added) == ["10.0.0.1", "10.0.0.2"]
    assert cluster.condition("CredentialsReady") == ("False", "Unauthorized")
    assert cluster.condition("MeshConverged") == ("False", "Unauthorized")
    tries = [daemon.logins_refused for daemon in daemons]
    cluster.after(29, step=1)
    cluster.run()
    assert [daemon.logins_refused for daemon in daemons] == tries
    for ordinal in (1, 0):
        cluster.delete_pod(ordinal)
        cluster.daemon(f"10.0.0.{40 + ordinal}", password="new")
        cluster.pod(ordinal, f"10.0.0.{40 + ordinal}")
    assert cluster.condition("Ready") == ("True", "Ready")
    reported = cluster.events("RPCUnauthorized")
    assert sorted(event["note"] for event in reported) == [
        f"node {NAME}-sts-0 (10.0.0.1): Unauthorized",
        f"node {NAME}-sts-1 (10.0.0.2): Unauthorized",
    ]


def test_with_manual_rotation_restarted_pods_get_the_new_credentials(cluster: Any) -> None:
    cluster.start(rotate="manual")
    cluster.net(2)
    daemons = cluster.pods(2)
    before = template_digest(cluster)
    cluster.edit_secret()
    assert template_digest(cluster) == before
    assert cluster.events("CredentialsRotated") == []
    daemons[1].forget()
    daemons[1].password = "new"
    cluster.set_pod(1, restarts=1)
    cluster.after(2)
    assert daemons[0].logins_refused == 0
    assert daemons[1].logins_refused == 1
    assert cluster.condition("MeshConverged") == ("True", "Converged")


def test_daemons_with_another_password_are_retried_every_30_s(cluster: Any, caplog: pytest.LogCaptureFixture) -> None:
    cluster.secret("rpc", "user", SECRET_TEXT)
    cluster.start()
    cluster.net(2, secret="rpc")
    first, second = cluster.pods(2, password="another")
    assert (first.logins_refused, second.logins_refused) == (1, 1)
    cluster.after(29, step=1)
    assert (first.logins_refused, second.logins_refused) == (1, 1)
    cluster.after(2)
    assert (first.logins_refused, second.logins_refused) == (2, 2)
    assert len(cluster.events("RPCUnauthorized")) == 2
    assert SECRET_TEXT not in str([cluster.status(), cluster.events(), caplog.text])
    # A change of the Secret is retried at once.
    cluster.client.patch(*SECRET, "rpc", "test", {"stringData": {"BC_RPC_PASSWORD": "another"}})
    cluster.idle()
    assert cluster.condition("CredentialsReady") == ("True", "FromSecret")
    assert first.added == ["10.0.0.2"]


@pytest.mark.behaviour("bitcoin/B37")
def test_secrets_can_be_fetched_one_by_one(cluster: Any) -> None:
    replica = cluster.start(secret_access="get")
    cluster.net()

    def secret_requests() -> list[str]:
        return [request.path for request in replica.sent if "/secrets" in request.path]

    assert secret_requests() == [f"/api/v1/namespaces/test/secrets/{SECRET_NAME}"]
    informers = replica.controller.informers
    assert "Secret" not in [informer.kind for informer in informers]
    for _ in range(3):
        cluster.run()
    assert len(secret_requests()) == 1
    cluster.after(300, step=1)
    assert 10 <= len(secret_requests()) <= 11
    before = template_digest(cluster)
    cluster.edit_secret()
    cluster.after(31)
    assert template_digest(cluster) != before


@pytest.mark.behaviour("findings/FP8")
@pytest.mark.parametrize("resync", [2, 10, 30])
@pytest.mark.parametrize("before", [0.5, 3.5, 25])
def test_a_rotated_secret_is_tried_with_the_next_resync(cluster: Any, resync: int, before: float) -> None:
    cluster.start(secret_access="get", resync=f"{resync}s")
    # The old Secret is fetched so long before a resync, and then rotated.
    cluster.after(-before % resync)
    cluster.net(3)
    daemons = cluster.pods(3)
    assert cluster.condition("MeshConverged") == ("True", "Converged")
    cluster.edit_secret()
    for daemon in daemons:
        daemon.password = "new"
        daemon.forget()
    cluster.after(resync + 5, step=0.5)
    assert [len(daemon.added) for daemon in daemons] == [2, 2, 2]
    assert cluster.condition("CredentialsReady") == ("True", "FromSecret")


def test_a_digest_depends_on_the_secret_and_shows_nothing() -> None:
    pair = Credentials("user", "password")
    assert len(digest("uid", pair)) == 16
    assert digest("uid", pair) == digest("uid", Credentials("user", "password"))
    assert len({digest("uid", pair), digest("other", pair), digest("uid", Credentials("user", "p"))}) == 3
    assert digest("uid", Credentials("a", "bc")) != digest("uid", Credentials("ab", "c"))
    assert "password" not in repr(pair)


def test_a_history_keeps_the_current_and_the_previous_credentials() -> None:
    history, pairs = History(), [Credentials("u", str(number)) for number in range(3)]
    for number, pair in enumerate(pairs):
        history.use(Usable(pair, f"d{number}", "FromSecret", ""))
    assert history.revision == 3
    history.use(Usable(pairs[2], "d2", "FromSecret", ""))
    assert history.revision == 3
    assert history.candidates("d2") == (pairs[2], pairs[1])
    assert history.candidates("d1") == (pairs[1], pairs[2])
    assert history.candidates("unknown") == history.candidates(None) == (pairs[2], pairs[1])


@pytest.mark.behaviour("operations/OP166")
@pytest.mark.parametrize("text", ["user\nannotation: evil", "{};#", "\0", "é\u2028", "x" * 10_000, "nginx.org/x: y"])
def test_the_annotation_of_credentials_is_a_number_whatever_they_are(text: str) -> None:
    for credentials in (Credentials(text, "password"), Credentials("user", text)):
        assert re.fullmatch("[0-9a-f]{16}", digest("uid", credentials))
