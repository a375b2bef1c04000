"""The test kit with admission webhooks: denials, warnings, and requests without effect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import ctrlhost

if TYPE_CHECKING:
    from ctrlhost.testing import HostUnderTest, StartHost
    from tests.support.control_plane import ControlPlane

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
            ctx.warn('size "large": 100 %, größer ☃, costs more, or \\ less')

    return plugin


def cache(name: str, size: int = 1, **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Cache", "metadata": metadata, "spec": {"size": size}}


@pytest.fixture
def host(ctrlhost_host: StartHost, control_plane: ControlPlane) -> HostUnderTest:
    """A host on each server, which calls the host's webhooks."""
    return ctrlhost_host(plugin_of(), server=control_plane.kubeconfig)


@behaviour("webhooks/WH25")
def test_denials_have_the_field_and_results_the_warnings(host: HostUnderTest) -> None:
    admitted = host.admit(cache("web", 6))
    assert [obj["spec"]["owner"] for obj in admitted] == ["ann"]
    warning = 'size "large": 100 %, größer ☃, costs more, or \\ less'
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


@behaviour("webhooks/WH4")
@pytest.mark.parametrize("reinvoke", [True, False])
def test_a_server_calls_a_mutator_again_once_at_most(
    ctrlhost_host: StartHost, control_plane: ControlPlane, reinvoke: bool
) -> None:
    plugin = ctrlhost.Plugin()
    calls = []

    @plugin.mutate(Cache, reinvoke=reinvoke)
    def count(ctx: ctrlhost.Admission[Cache], new: Cache, old: Cache | None) -> Cache:
        calls.append(new.spec.owner)
        return msgspec.structs.replace(new, spec=msgspec.structs.replace(new.spec, runs=new.spec.runs + 1))

    @plugin.mutate(Cache)
    def fill(ctx: ctrlhost.Admission[Cache], new: Cache, old: Cache | None) -> Cache:
        owner = f"{new.spec.runs} runs"
        return msgspec.structs.replace(new, spec=msgspec.structs.replace(new.spec, owner=owner))

    host = ctrlhost_host(plugin, server=control_plane.kubeconfig, check_mutators=False)
    host.apply(cache("web"))
    runs = 2 if reinvoke else 1
    assert host.get(Cache, "web").spec.runs == runs
    assert calls == ["", "1 runs"][:runs]


@behaviour("webhooks/WH22")
def test_a_host_with_the_rights_of_its_manifests_has_webhooks(
    ctrlhost_host: StartHost, control_plane: ControlPlane
) -> None:
    # Else on a sandbox with RBAC.
    server: dict[str, Any] = {} if control_plane.kind == "sandbox" else {"server": control_plane.kubeconfig}
    host = ctrlhost_host(plugin_of(), least_privilege=True, **server)
    with pytest.raises(ctrlhost.Denied) as raised:
        host.apply(cache("web", 10))
    assert raised.value.field == "spec.size"
    assert host.apply(cache("web"))[0].to_dict()["spec"]["owner"] == "ann"
    assert host.unused_rights() == []
