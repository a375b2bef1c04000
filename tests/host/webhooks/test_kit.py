"""The test kit with admission webhooks: denials, warnings, and requests without effect."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import ctrlhost
from ctrlhost.webhooks import review
from tests.support.webhook_server import configuration, webhook, webhook_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctrlhost.testing import HostUnderTest, StartHost
    from tests.support.control_plane import ControlPlane
    from tests.support.webhook_server import Reply, WebhookServer

behaviour = pytest.mark.behaviour
GROUP = "kit.example.com"


class Spec(msgspec.Struct, frozen=True):
    size: int = 1
    owner: str = ""
    runs: int = 0


@ctrlhost.resource(f"{GROUP}/v1")
class Cache(ctrlhost.Model[Spec, None]):
    """A cache."""


def plugin_of() -> ctrlhost.Plugin:
    plugin = ctrlhost.Plugin()

    @plugin.mutate(Cache)
    def fill(ctx: ctrlhost.Admission[Cache], new: Cache, old: Cache | None) -> Cache:
        """Set the owner; a runaway is not stable."""
        runs = new.spec.runs + 1 if "runaway" in new.metadata.labels else new.spec.runs
        spec = msgspec.structs.replace(new.spec, owner=new.spec.owner or "ann", runs=runs)
        return msgspec.structs.replace(new, spec=spec)

    @plugin.validate(Cache, "*")
    def check(ctx: ctrlhost.Admission[Cache], new: Cache | None, old: Cache | None) -> None:
        if new is None:
            raise ctrlhost.Denied("stays", code=403)
        if new.spec.size > 9:
            raise ctrlhost.Denied("9 at most", field="spec.size")
        if new.spec.size > 5:
            ctx.warn('size "large": 100 %, costs more, or \\ less')

    return plugin


def cache(name: str, size: int = 1, **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Cache", "metadata": metadata, "spec": {"size": size}}


@pytest.fixture
def host(ctrlhost_host: StartHost, control_plane: ControlPlane, tmp_path: Any) -> Iterator[HostUnderTest]:
    """A host on each server, which calls the host's webhooks."""
    plugin = plugin_of()
    host = ctrlhost_host(plugin, server=control_plane.kubeconfig)
    host.apply(*plugin.ctrlhost_crds())
    with webhook_server(tmp_path / "tls") as server:
        register(host, server)
        yield host
        for sort in ("Validating", "Mutating"):
            host.delete(f"admissionregistration.k8s.io/v1/{sort}WebhookConfiguration", f"{host.namespace}-kit")


def register(host: HostUnderTest, server: WebhookServer) -> None:
    """Serve the webhooks of the host's plugin, and register them for the namespace of the test."""
    (plugin,) = host.host.plugins
    context = plugin.context
    assert context is not None
    for declared in context.webhooks:

        def respond(body: dict[str, Any], declared: Any = declared) -> Reply:
            try:
                answer = review.answer(declared, json.dumps(body).encode(), context, check_stability=True)
            except review.WebhookFailed as error:
                return 500, error.message.encode(), "text/plain"
            response: dict[str, Any] = json.loads(answer.body)["response"]
            return response

        server.webhooks[declared.path] = respond
        selector = {"matchLabels": {"kubernetes.io/metadata.name": host.namespace}}
        rule = {
            "apiGroups": [GROUP],
            "apiVersions": ["v1"],
            "operations": list(declared.operations),
            "resources": ["caches"],
        }
        entry = webhook(declared.qualified_name, server.client_config(declared.path), rule, namespaceSelector=selector)
        sort = {"validate": "Validating", "mutate": "Mutating"}[declared.type]
        host.apply(configuration(f"{host.namespace}-kit", entry, sort=sort))
    host.wait_for(lambda: host.admit(cache("probe"))[0]["spec"].get("owner") == "ann")


@behaviour("webhooks/WH25")
def test_denials_have_the_field_and_results_the_warnings(host: HostUnderTest) -> None:
    admitted = host.admit(cache("web", 6))
    assert [obj["spec"]["owner"] for obj in admitted] == ["ann"]
    warning = 'size "large": 100 %, costs more, or \\ less'
    assert admitted.warnings == (warning,)
    assert host.find(Cache, "web") is None
    for write in (host.admit, host.apply):
        with pytest.raises(ctrlhost.Denied) as raised:
            write(cache("web", 10))
        denial = raised.value
        assert (denial.message, denial.field, denial.code) == ("9 at most", "spec.size", 422)
        assert isinstance(denial.__cause__, ctrlhost.Invalid)
    applied = host.apply(cache("web", 6), cache("small"))
    assert ([obj.name for obj in applied], applied.warnings) == (["web", "small"], (warning,))
    assert host.get(Cache, "web").spec.owner == "ann"
    with pytest.raises(ctrlhost.Denied, match=r"^spec\.size: 9 at most$"):
        host.patch(Cache, "small", {"spec": {"size": 10}})
    with pytest.raises(ctrlhost.Denied, match=r"^stays$") as refused:
        host.delete(Cache, "small")
    assert (refused.value.field, refused.value.code) == ("", 403)


@behaviour("webhooks/WH4")
def test_a_mutator_that_is_not_stable_fails_the_request_and_names_the_field(host: HostUnderTest) -> None:
    for write in (host.admit, host.apply):
        with pytest.raises(ctrlhost.ServerError, match=r"fill is not stable: .* it changes spec\.runs"):
            write(cache("web", runaway=""))
    assert host.find(Cache, "web") is None
