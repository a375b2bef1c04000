"""Objects of an older version of a plugin that no longer fit its model."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from ctrlhost_sandbox import Sandbox

import ctrlhost
from ctrlhost.testing import HostUnderTest

if TYPE_CHECKING:
    OnlyForTypeCheckers = ctrlhost.Context[Any, Any]

FINALIZER = "example.com/cleanup"
WIDGET = "unfit.example.com/v1/Widget"


class OldSpec(msgspec.Struct, frozen=True):
    size: int = 1


class NewSpec(msgspec.Struct, frozen=True):
    zone: str
    size: int = 1


@ctrlhost.resource("unfit.example.com/v1", kind="Widget")
class OldWidget(ctrlhost.Model[OldSpec, ctrlhost.ModelStatus]):
    pass


@ctrlhost.resource("unfit.example.com/v1", kind="Widget")
class NewWidget(ctrlhost.Model[NewSpec, ctrlhost.ModelStatus]):
    pass


def with_model(model: Any, calls: list[Any], *, takes_objects: bool = False) -> ctrlhost.Plugin[Any, Any]:
    plugin = ctrlhost.Plugin()

    @plugin.controller(model, name="widget")
    def reconcile(ctx: ctrlhost.Context[Any, Any], widget: Any) -> None:
        ctx.status.condition("Ready", True, "Made")

    if takes_objects:

        @plugin.finalizer(FINALIZER, of=reconcile)
        def cleanup_any(ctx: OnlyForTypeCheckers, widget: NewWidget | ctrlhost.Object) -> None:
            calls.append(widget)
    else:

        @plugin.finalizer(FINALIZER, of=reconcile)
        def cleanup(ctx: ctrlhost.Context[Any, Any], widget: Any) -> None:
            calls.append(widget)

    return plugin


@pytest.fixture
def upgraded(ctrlhost_host: Any, sandbox: Sandbox, caplog: pytest.LogCaptureFixture) -> Any:
    """Return a function that starts the new plugin where the old one has left an object."""

    def start(calls: list[Any], *, takes_objects: bool = False) -> HostUnderTest:
        old = ctrlhost_host(with_model(OldWidget, []), sandbox=sandbox)
        metadata = {"name": "a", "namespace": "default"}
        old.client.create({"apiVersion": "unfit.example.com/v1", "kind": "Widget", "metadata": metadata, "spec": {}})
        old.settle()
        assert old.get(OldWidget, "a").status.is_true("Ready")
        assert old.stop()
        with caplog.at_level(logging.WARNING, "ctrlhost.crds"):
            host: HostUnderTest = ctrlhost_host(
                with_model(NewWidget, calls, takes_objects=takes_objects), sandbox=sandbox
            )
        assert (
            "CRD widgets.unfit.example.com: objects that were stored without spec.zone become invalid; "
            "give it a default, or None"
        ) in caplog.text
        host.run_until_idle()
        return host

    return start


def ready(host: HostUnderTest) -> Any:
    return host.get(OldWidget, "a").status.condition("Ready")


@pytest.mark.behaviour("findings3/NA2")
def test_an_object_that_does_not_fit_says_so_until_it_does(upgraded: Any) -> None:
    host = upgraded([])
    condition = ready(host)
    assert (condition.status, condition.reason) == ("False", "InvalidObject")
    assert condition.message == "spec.zone: required, but missing"
    host.patch(WIDGET, "a", {"spec": {"zone": "eu"}})
    host.settle()
    assert (ready(host).status, ready(host).reason) == ("True", "Made")


@pytest.mark.behaviour("findings3/NA2")
def test_a_finalizer_that_takes_objects_is_called_with_one_that_does_not_fit(upgraded: Any) -> None:
    calls: list[Any] = []
    host = upgraded(calls, takes_objects=True)
    host.delete(WIDGET, "a")
    host.settle()
    (obj,) = calls
    assert isinstance(obj, ctrlhost.Object)
    assert (obj.name, obj.get_path("spec", "size")) == ("a", 1)
    assert host.find(WIDGET, "a") is None


@pytest.mark.behaviour("findings3/NA2")
def test_a_finalizer_that_takes_structs_is_not_called_and_the_way_out_is_named(upgraded: Any) -> None:
    calls: list[Any] = []
    host = upgraded(calls)
    host.delete(WIDGET, "a")
    host.run_until_idle()
    assert calls == []
    notes = [event["note"] for event in host.events() if event["reason"] == "InvalidObject"]
    command = f"ctrlhost finalizers {WIDGET} --namespace default --deleted --release {FINALIZER}"
    assert f"spec.zone: required, but missing; `{command}` lets it go" in notes
    condition = ready(host)
    assert (condition.status, condition.reason) == ("False", "InvalidObject")
    (controller,) = host.controllers.values()
    assert command in controller.status().last_error
    with pytest.raises(ctrlhost.testing.NotSettled, match="the deletion of Widget default/a waits for"):
        host.settle()
