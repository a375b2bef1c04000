"""The authority of the webhooks in its Secret, and the certificates to trust in the configurations."""

from __future__ import annotations

import base64
import logging
import signal
import textwrap
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import ctrlhost
from ctrlhost.server.authority import NAME, OVERLAP, Authority
from ctrlhost.server.certificates import PERIOD
from ctrlhost.testing import ManualClock
from ctrlhost.webhooks.configurations import API_VERSION, CRDS, MUTATING, OUTSIDE, VALIDATING
from tests.support.declared import declared
from tests.support.objects import pod
from tests.support.waiting import eventually
from tests.support.webhook_host import Certificate
from tests.support.webhook_replicas import SERVICE, Replicas, config_map, ready, shown_by, verifies

if TYPE_CHECKING:
    from pathlib import Path

    from ctrlhost.testing import HostUnderTest
    from tests.support.control_plane import ControlPlane
    from tests.support.host_process import HostProcess

behaviour = pytest.mark.behaviour


@pytest.fixture
def replicas(server: ControlPlane) -> Iterator[Replicas]:
    with Replicas(server) as replicas:
        yield replicas


def lines(caplog: pytest.LogCaptureFixture, text: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if text in record.getMessage()]


def generation(replicas: Replicas) -> int:
    return int(replicas.live()["metadata"]["generation"])


@behaviour("webhooks/WH9")
def test_replicas_that_start_together_share_an_authority(replicas: Replicas, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ctrlhost.host")
    replicas.apply()
    hosts = [replicas.host(leader_elect=True) for _ in range(2)]
    for host in hosts:
        host.start()
    for host in hosts:
        eventually(lambda: host.webhook_address)  # noqa: B023
    bundle = replicas.trusted()
    assert len(lines(caplog, "created the authority of the webhooks")) == 1
    assert bundle.count(b"BEGIN") == 1
    shown = [shown_by(host) for host in hosts]
    assert shown[0] != shown[1]
    for certificate in shown:
        assert verifies(certificate, bundle, time.time(), replicas.namespace)
    # The leader alone has written it, once into each.
    eventually(lambda: all("[+]webhooks ok" in ready(host)[1] for host in hosts))
    assert len(lines(caplog, "wrote the certificates to trust")) == 2
    assert generation(replicas) == 2
    for host in hosts:
        # Another client configuration leaves the certificates as they are: nobody has to write them again.
        replicas.apply(host)
        eventually(replicas.denied)
    assert replicas.bundles() == [bundle, bundle]


@behaviour("webhooks/WH10")
def test_what_others_overwrite_is_restored_and_what_they_delete_is_reported(
    replicas: Replicas, caplog: pytest.LogCaptureFixture
) -> None:
    host = replicas.started()
    eventually(lambda: lines(caplog, f"{VALIDATING} {dict(replicas.names)[VALIDATING]} is missing"))
    replicas.apply(host)
    bundle = replicas.trusted()
    eventually(replicas.denied)
    changed = overwrite(replicas, VALIDATING)
    eventually(lambda: replicas.bundles() == [bundle, bundle], 5)
    restored = replicas.live()
    # Nothing else has changed.
    restored["webhooks"][0]["clientConfig"].pop("caBundle")
    changed["webhooks"][0]["clientConfig"].pop("caBundle")
    assert restored["webhooks"] == changed["webhooks"]

    caplog.clear()
    name = dict(replicas.names)[VALIDATING]
    replicas.client.delete(API_VERSION, VALIDATING, name)
    eventually(lambda: lines(caplog, f"{VALIDATING} {name} is missing"))
    # Looks for other reasons neither create nor report it.
    overwrite(replicas, MUTATING)
    eventually(lambda: replicas.bundles([MUTATING]) == [bundle], 5)
    assert replicas.client.find(API_VERSION, VALIDATING, name) is None
    assert len(lines(caplog, f"{VALIDATING} {name} is missing")) == 1
    replicas.apply(host)
    assert replicas.trusted() == bundle


def overwrite(replicas: Replicas, kind: str) -> dict[str, Any]:
    """Write other certificates into a configuration, and return it."""
    live = replicas.live(kind)
    other = Authority.new(time.time()).bundle(time.time())
    live["webhooks"][0]["clientConfig"]["caBundle"] = base64.b64encode(other).decode()
    return replicas.client.replace(live)


@behaviour("webhooks/WH10")
def test_another_authority_replaces_a_deleted_one_with_an_overlap(replicas: Replicas) -> None:
    host = replicas.started()
    replicas.apply(host)
    old = replicas.trusted()
    eventually(replicas.denied)
    replicas.client.delete("v1", "Secret", NAME, replicas.namespace)
    both = eventually(lambda: (bundle := replicas.trusted()) != old and bundle)
    assert old in both
    assert both.count(b"BEGIN") == 2
    authority = read(replicas)
    assert authority.previous is not None
    assert authority.bundle(time.time()) == both
    # It does not sign yet.
    assert verifies(shown_by(host), old, time.time(), replicas.namespace)
    assert replicas.denied()


def read(replicas: Replicas) -> Authority:
    secret = replicas.secret()
    assert secret is not None
    return Authority.read({name: base64.b64decode(entry) for name, entry in secret["data"].items()})


@behaviour("webhooks/WH10")
@behaviour("webhooks/WH16")
def test_a_secret_with_anything_else_stays_and_is_reported(
    replicas: Replicas, caplog: pytest.LogCaptureFixture
) -> None:
    host = replicas.started()
    replicas.apply(host)
    bundle = replicas.trusted()
    garbage = {"tls.crt": base64.b64encode(b"garbage").decode()}
    replicas.client.patch("v1", "Secret", NAME, replicas.namespace, {"data": {**garbage, "tls.key": None}})
    what = f"Secret {replicas.namespace}/{NAME}: tls.crt and tls.key"
    eventually(lambda: lines(caplog, what))
    # Those who have the authority serve on.
    eventually(replicas.denied)
    assert replicas.bundles() == [bundle, bundle]
    caplog.clear()
    late = replicas.host()
    late.start()
    eventually(lambda: f"[-]webhooks failed: {what}" in ready(late)[1])
    assert ready(late)[0] == 503
    assert late.webhook_address is None
    assert len(lines(caplog, what)) == 1
    secret = replicas.secret()
    assert secret is not None
    assert secret["data"] == garbage
    replicas.client.delete("v1", "Secret", NAME, replicas.namespace)
    eventually(lambda: late.webhook_address)


@behaviour("webhooks/WH11")
def test_each_request_verifies_while_a_new_authority_replaces_the_old_one(
    sandbox_control_plane: ControlPlane,
) -> None:
    clock = ManualClock()
    with Replicas(sandbox_control_plane) as replicas:
        replicas.apply()
        host = replicas.started(clock)
        bundle = replicas.trusted()
        first = read(replicas)

        def verified(bundle: bytes) -> bool:
            return verifies(shown_by(host), bundle, clock.time(), replicas.namespace)

        # The certificate is renewed long before it expires.
        shown = shown_by(host)
        advance(clock, 61 * 24 * 3600)
        eventually(lambda: shown_by(host) != shown)
        assert verified(bundle)

        advance(clock, first.due - clock.time())
        both = eventually(lambda: (now := replicas.trusted()) != bundle and now)
        second = read(replicas)
        assert second.previous == first.newest
        assert both == second.newest.certificate + first.newest.certificate
        # The API server may not have the new ones yet.
        eventually(lambda: verified(bundle))
        assert verified(both)
        advance(clock, OVERLAP)
        eventually(lambda: not verified(bundle))
        assert verified(both)
        assert replicas.trusted() == both
        advance(clock, OVERLAP)
        assert eventually(lambda: (now := replicas.trusted()) != both and now) == second.newest.certificate
        assert verified(second.newest.certificate)
        assert read(replicas) == second


def advance(clock: ManualClock, seconds: float) -> None:
    """Move the clock once both threads wait for it, and then so far that each looks again."""
    names = {"certificate of webhooks", "webhook registration"}
    eventually(lambda: names <= {name for name, _ in clock.deadlines()})
    clock.advance(seconds)
    eventually(lambda: names <= {name for name, _ in clock.deadlines()})
    clock.advance(PERIOD)


@behaviour("webhooks/WH12")
def test_a_mounted_authority_is_written_and_without_one_nothing_is(
    sandbox_control_plane: ControlPlane, tmp_path: Path
) -> None:
    clock, certificate = ManualClock(), Certificate(tmp_path / "mounted")
    with Replicas(sandbox_control_plane) as replicas:
        replicas.started(clock, webhook_cert_dir=str(certificate.folder))
        replicas.apply()
        advance(clock, PERIOD)
        advance(clock, PERIOD)
        assert generation(replicas) == 1
        assert replicas.bundles() == [None, None]
        certificate.write("ca.crt", certificate.authority.pem)
        advance(clock, PERIOD)
        assert replicas.trusted() == certificate.authority.pem.encode()
        overwrite(replicas, VALIDATING)
        assert replicas.trusted() == certificate.authority.pem.encode()
        assert replicas.secret() is None


@behaviour("webhooks/WH11")
def test_a_command_renews_the_authority(replicas: Replicas, ctrlhost: Any) -> None:
    host = replicas.started()
    replicas.apply(host)
    first = read(replicas)
    old = replicas.trusted()
    command = ("webhooks", "rotate-ca", f"--kubeconfig={replicas.server.kubeconfig}")

    def rotated(namespace: str) -> Any:
        return ctrlhost(*command, f"--namespace={namespace}")

    missing = rotated(replicas.other)
    assert missing.returncode == 1
    assert f"error: Secret {replicas.other}/{NAME} does not exist" in missing.stderr
    done = rotated(replicas.namespace)
    assert done.returncode == 0, done.stderr
    second = read(replicas)
    assert second.previous == first.newest
    assert f"another authority is in Secret {replicas.namespace}/{NAME}: it signs from 2" in done.stdout
    both = eventually(lambda: (bundle := replicas.trusted()) != old and bundle)
    assert both == second.newest.certificate + first.newest.certificate
    assert verifies(shown_by(host), old, time.time(), replicas.namespace)
    # Not while that goes on: certificates that the first one signed would no longer be trusted.
    again = rotated(replicas.namespace)
    assert again.returncode == 1
    assert "the last new authority is still replacing the one before it" in again.stderr
    assert "hint: try again in 48 h" in again.stderr
    assert read(replicas) == second


GUARD = """
    import ctrlhost
    import msgspec

    plugin = ctrlhost.Plugin()

    @plugin.validate("v1/ConfigMap", name="no-blue")
    def refuse(ctx, new, old):
        if new.get("data", {}).get("color") == "blue":
            raise ctrlhost.Denied("no blue")
"""


@behaviour("webhooks/WH13")
def test_a_host_outside_of_the_cluster_registers_by_url_and_takes_over_what_a_killed_one_left(
    server: ControlPlane, start_host: Callable[..., HostProcess], tmp_path: Path
) -> None:
    (tmp_path / "guard.py").write_text(textwrap.dedent(GUARD))
    arguments = (str(tmp_path / "guard.py"), f"--kubeconfig={server.kubeconfig}")
    url = ("--webhook-url=https://127.0.0.1:0", "--set=host.webhook_listen=127.0.0.1:0")
    name = f"guard{OUTSIDE}"
    assert name == "guard.dev.ctrlhost"

    def live() -> dict[str, Any] | None:
        return server.client.find(API_VERSION, VALIDATING, name)

    def answer(expected: str) -> bool:
        try:
            server.client.create(config_map("blue", "default", color="blue"))
        except ctrlhost.ApiError as error:
            return expected in error.message
        server.client.delete("v1", "ConfigMap", "blue", "default")
        return expected == "created"

    killed = start_host(*arguments, *url)
    killed.line("registered its webhooks as ValidatingWebhookConfiguration guard.dev.ctrlhost")
    eventually(lambda: answer("no blue"))
    first = live()
    assert first is not None
    (webhook,) = first["webhooks"]
    address = killed.line("serving webhooks on")["msg"].rpartition(" ")[2]
    assert webhook["clientConfig"]["url"] == f"{address}/validate/guard/no-blue"
    assert webhook["namespaceSelector"]["matchExpressions"] == [
        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}
    ]
    # No Secret: the authority is that of the process.
    assert server.client.find("v1", "Secret", NAME, "default") is None
    killed.signal(signal.SIGKILL)
    killed.wait()
    assert live() == first
    eventually(lambda: answer("failed calling webhook"))

    following = start_host(*arguments, *url)
    following.line("registered its webhooks as ValidatingWebhookConfiguration guard.dev.ctrlhost")
    eventually(lambda: answer("no blue"))
    second = live()
    assert second is not None
    assert second["metadata"]["uid"] == first["metadata"]["uid"]
    assert second["webhooks"][0]["clientConfig"] != webhook["clientConfig"]
    # Whoever changes the certificates does not lock anybody out.
    second["webhooks"][0]["clientConfig"]["caBundle"] = webhook["clientConfig"]["caBundle"]
    server.client.replace(second)
    eventually(lambda: answer("no blue"), 5)
    assert following.stop() == 0
    assert live() is None
    eventually(lambda: answer("created"))


@behaviour("webhooks/WH13")
@pytest.mark.parametrize("isolated", [False, True])
def test_a_host_with_a_sandbox_registers_by_itself(
    start_host: Callable[..., HostProcess], distributions: Any, isolated: bool
) -> None:
    distributions.add("guard", GUARD)
    host = start_host("--sandbox", *(["--isolate=guard"] if isolated else []), plugins="guard")
    host.line("registered its webhooks as ValidatingWebhookConfiguration guard.dev.ctrlhost")
    client = ctrlhost.Client.load(host.kubeconfig)
    try:
        client.create(config_map("red", "default", color="red"))
        with pytest.raises(ctrlhost.ApiError, match="no blue"):
            client.create(config_map("blue", "default", color="blue"))
    finally:
        client.close()
    assert host.stop() == 0


@behaviour("webhooks/WH15")
def test_a_host_that_is_down_does_not_keep_its_own_namespace_from_what_it_needs(server: ControlPlane) -> None:
    with Replicas(server, guarded) as replicas:
        # By the Service of `ctrlhost manifests`, behind which nothing is.
        replicas.apply()
        service = {"metadata": {"name": SERVICE, "namespace": replicas.namespace}}
        spec = {"selector": {"app.kubernetes.io/name": "ctrlhost"}, "ports": [{"port": 443, "targetPort": 9443}]}
        replicas.client.create({"apiVersion": "v1", "kind": "Service", **service, "spec": spec})
        guarded_objects = [pod("p"), {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}]

        def refused(obj: dict[str, Any]) -> bool:
            try:
                replicas.client.create(obj)
            except ctrlhost.ApiError as error:
                return "failed calling webhook" in error.message
            replicas.client.delete(obj["apiVersion"], obj["kind"], obj["metadata"]["name"], replicas.other)
            return False

        for namespace in (replicas.namespace, replicas.other):
            # Pods have one.
            account = {"name": "default", "namespace": namespace}
            replicas.client.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
        for obj in guarded_objects:
            elsewhere, own = (
                {**obj, "metadata": {**obj["metadata"], "namespace": namespace}}
                for namespace in (replicas.other, replicas.namespace)
            )
            eventually(lambda: refused(elsewhere))  # noqa: B023
            replicas.client.create(own)
        # With its Lease and its Secret.
        host = replicas.started(leader_elect=True)
        replicas.trusted()
        eventually(lambda: ready(host)[0] == 200)
        assert replicas.secret() is not None
        assert replicas.client.find("coordination.k8s.io/v1", "Lease", "ctrlhost", replicas.namespace) is not None


def guarded() -> Any:
    """Return a plugin with webhooks for kinds that pods and hosts need."""
    plugin = declared("guarded")

    def refuse(_ctx: Any, _new: Any, _old: Any) -> None:
        raise ctrlhost.Denied("never")

    plugin.validate("v1/Pod", name="pods")(refuse)
    plugin.validate("v1/Secret", name="secrets", label_selector="!ctrlhost")(refuse)
    return plugin


@behaviour("webhooks/WH24")
def test_a_plugin_without_webhooks_needs_no_secret_and_no_listener(sandbox_control_plane: ControlPlane) -> None:
    with Replicas(sandbox_control_plane, lambda: declared("plain")) as replicas:
        host = replicas.host(leader_elect=True)
        host.start()
        assert host.wait_ready(30)
        assert host.webhook_address is None
        assert host.state.webhooks is None
        assert "webhooks" not in ready(host)[1]
        assert replicas.secret() is None
        assert replicas.names == []


class Old(msgspec.Struct):
    size: int


class New(msgspec.Struct):
    width: int


@ctrlhost.resource("leading.example.com/v1alpha1", kind="Panel")
class OldPanel(ctrlhost.Model[Old, ctrlhost.ModelStatus]):
    pass


@ctrlhost.resource("leading.example.com/v1", kind="Panel", storage=True)
class Panel(ctrlhost.Model[New, ctrlhost.ModelStatus]):
    pass


def converting() -> Any:
    """Return a plugin with a kind in two versions."""
    plugin = declared("converting")
    plugin.convert(Panel, source=OldPanel, target=Panel)(lambda obj: {**obj, "spec": {"width": obj["spec"]["size"]}})
    plugin.convert(Panel, source=Panel, target=OldPanel)(lambda obj: {**obj, "spec": {"size": obj["spec"]["width"]}})
    return plugin


@behaviour("webhooks/WH13")
def test_conversions_lead_to_the_host_while_it_runs(
    server: ControlPlane, ctrlhost_host: Callable[..., HostUnderTest]
) -> None:
    client, name = server.client, "panels.leading.example.com"

    def where() -> dict[str, Any]:
        crd = client.get(*CRDS, name)
        return dict(crd["spec"]["conversion"]["webhook"]["clientConfig"])

    # As an operator has applied it, for a host in the cluster.
    plugin = converting()
    (crd,) = plugin.ctrlhost_crds()
    client.apply(crd, field_manager="kubectl")
    assert "service" in where()
    for _ in range(2):
        host = ctrlhost_host(plugin, server=server.kubeconfig)
        (runtime,) = host.host.plugins
        assert (runtime.state, runtime.restarted) == ("running", {})
        assert where()["url"] == f"https://{host.host.webhook_address}/convert/leading.example.com/panels"
        host.apply(
            {"apiVersion": "leading.example.com/v1", "kind": "Panel", "metadata": {"name": "p"}, "spec": {"width": 3}}
        )
        assert host.get("leading.example.com/v1alpha1/Panel", "p").to_dict()["spec"] == {"size": 3}
        host.stop()
        # So that what an operator applies then is valid.
        assert set(where()) == {"service"}
        client.apply(crd, field_manager="kubectl")
    client.delete(*CRDS, name)
