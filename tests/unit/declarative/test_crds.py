"""The CRDs that a plugin declares."""

from __future__ import annotations

import msgspec
import pytest

import ctrlhost
from ctrlhost import Owns, Watches
from ctrlhost.supervisor.loader import PluginManager


class Spec(msgspec.Struct, frozen=True):
    size: int = 1


@ctrlhost.resource("example.com/v1")
class Reconciled(ctrlhost.Model[Spec, None]):
    pass


@ctrlhost.resource("example.com/v1")
class Owned(ctrlhost.Model[Spec, None]):
    pass


@ctrlhost.resource("example.com/v1")
class Watched(ctrlhost.Model[Spec, None]):
    pass


@ctrlhost.resource("example.com/v1")
class Indexed(ctrlhost.Model[Spec, None]):
    pass


@ctrlhost.resource("other.com/v1")
class View(msgspec.Struct):
    metadata: ctrlhost.ObjectMeta


def test_each_declared_model_is_generated_once_and_views_of_other_kinds_are_not() -> None:
    plugin = ctrlhost.Plugin()

    @plugin.controller(
        Reconciled, owns=[Owns(Owned), "apps/v1/Deployment", Owned], watches=[Watches(Watched), View, "v1/Pod"]
    )
    def reconcile(ctx: ctrlhost.Context, obj: Reconciled) -> None: ...

    @plugin.index(Indexed)
    def by_size(obj: Indexed) -> list[str]:
        return [str(obj.spec.size)]

    loaded = PluginManager().register("demo", plugin)
    assert [crd["spec"]["names"]["kind"] for crd in loaded.crds()] == ["Reconciled", "Owned", "Watched", "Indexed"]


def test_two_models_of_a_version_are_refused() -> None:
    @ctrlhost.resource("example.com/v1")
    class Watched(ctrlhost.Model[Spec, None]):
        pass

    plugin = ctrlhost.Plugin()
    plugin.controller(Reconciled, watches=[Watched, globals()["Watched"]])(lambda ctx, obj: None)
    with pytest.raises(
        ctrlhost.ConfigError, match=r"^2 models define the version v1 of the CRD watcheds\.example\.com$"
    ) as raised:
        PluginManager().register("demo", plugin).crds()
    assert "msgspec.Struct" in str(raised.value.hint)


def test_a_name_that_matches_no_file_is_an_error_of_the_plugin() -> None:
    plugin = ctrlhost.Plugin(crds=["crds/*.yaml"])
    loaded = PluginManager().register("demo", plugin)
    with pytest.raises(ctrlhost.PluginLoadError, match=r"crds: no file `crds/\*\.yaml`") as raised:
        loaded.crds()
    assert raised.value.plugin == "demo"


def test_the_crds_are_generated_once_and_each_caller_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    from ctrlhost.models import crd

    generated, crd_of = [], crd.crd_of
    monkeypatch.setattr(crd, "crd_of", lambda model: generated.append(model) or crd_of(model))
    plugin = ctrlhost.Plugin()
    plugin.controller(Reconciled)(lambda ctx, obj: None)
    loaded = PluginManager().register("demo", plugin)
    first = loaded.crds()
    wanted = crd_of(Reconciled)
    first[0]["spec"].clear()
    assert plugin.ctrlhost_crds() == [wanted]
    assert generated == [Reconciled]
