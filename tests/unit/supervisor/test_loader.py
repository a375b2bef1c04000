from __future__ import annotations

import types
from pathlib import Path

import msgspec
import pytest

import ctrlhost
from ctrlhost.errors import PluginLoadError
from ctrlhost.supervisor.containment import with_place
from ctrlhost.supervisor.loader import PluginManager, hook_names, name_of


def module(name: str, **functions: object) -> types.ModuleType:
    made = types.ModuleType(name)
    for function, value in functions.items():
        setattr(made, function, ctrlhost.hookimpl(value))
    return made


def no_crds():
    return []


def test_a_hook_is_called_only_for_its_own_plugin():
    calls = []
    manager = PluginManager()
    one = manager.register("one", module("one", ctrlhost_setup=lambda plugin: calls.append(("one", plugin))))
    manager.register("two", module("two", ctrlhost_setup=lambda plugin: calls.append(("two", plugin))))
    one.setup("context")
    assert calls == [("one", "context")]


def test_two_managers_share_nothing():
    plugin = module("same", ctrlhost_crds=no_crds)
    first, second = PluginManager(), PluginManager()
    first.register("same", plugin)
    assert second.register("same", plugin).crds() == []


def test_missing_hooks_do_nothing():
    plugin = PluginManager().register("small", module("small", ctrlhost_crds=no_crds))
    assert plugin.settings_type() is None
    assert plugin.permissions(None) == []
    plugin.synced("context")
    assert not plugin.implements("ctrlhost_setup")
    assert plugin.implements("ctrlhost_crds")


def test_a_misspelt_hook_is_refused_with_the_right_name():
    with pytest.raises(PluginLoadError, match="no hook `ctrlhost_sett`; did you mean `ctrlhost_setup`"):
        PluginManager().register("typo", module("typo", ctrlhost_sett=lambda plugin: None))


def test_a_hook_with_an_extra_parameter_is_refused():
    with pytest.raises(PluginLoadError, match="`ctrlhost_setup` takes `extra`"):
        PluginManager().register("typo", module("typo", ctrlhost_setup=lambda plugin, extra: None))


def test_after_a_refusal_the_other_plugins_still_load():
    manager = PluginManager()
    with pytest.raises(PluginLoadError):
        manager.register("typo", module("typo", ctrlhost_sett=lambda plugin: None))
    assert manager.register("fine", module("fine", ctrlhost_crds=no_crds)).crds() == []


def test_an_unmarked_hook_is_reported():
    unmarked = types.ModuleType("unmarked")
    unmarked.ctrlhost_setup = lambda plugin: None
    with pytest.raises(PluginLoadError, match="`ctrlhost_setup` is not marked") as caught:
        PluginManager().register("unmarked", unmarked)
    assert "@ctrlhost.hookimpl" in str(caught.value.hint)


def test_a_module_without_hooks_is_not_a_plugin():
    with pytest.raises(PluginLoadError, match="implements no hook"):
        PluginManager().register("empty", types.ModuleType("empty"))


def test_a_reserved_plugin_name_is_refused():
    with pytest.raises(PluginLoadError, match="invalid plugin name `metrics`"):
        PluginManager().register("metrics", module("metrics", ctrlhost_crds=no_crds))


def test_a_second_plugin_with_the_same_name_is_refused_and_the_first_stays():
    manager = PluginManager()
    first = manager.register("same", module("one", ctrlhost_crds=no_crds))
    with pytest.raises(PluginLoadError, match="another plugin of this name"):
        manager.register("same", module("two", ctrlhost_crds=no_crds))
    assert first.crds() == []


def test_settings_must_be_a_struct():
    class Settings(msgspec.Struct):
        size: int = 1

    manager = PluginManager()
    assert manager.register("good", module("good", ctrlhost_settings=lambda: Settings)).settings_type() is Settings
    bad = manager.register("bad", module("bad", ctrlhost_settings=lambda: dict))
    with pytest.raises(PluginLoadError, match=r"must return a msgspec\.Struct"):
        bad.settings_type()


def test_crds_must_be_crds():
    plugin = PluginManager().register("odd", module("odd", ctrlhost_crds=lambda: [{"kind": "Pod"}]))
    with pytest.raises(PluginLoadError, match="must return CustomResourceDefinitions"):
        plugin.crds()


def test_objects_are_plugins_too():
    class Greeter:
        @ctrlhost.hookimpl
        def ctrlhost_crds(self):
            return []

    assert PluginManager().register(name_of(Greeter()), Greeter()).name == "greeter"
    assert name_of(types.ModuleType("ctrlhost_ingress_status")) == "ingress-status"


def test_every_hook_of_the_contract_exists():
    assert hook_names() == [
        "ctrlhost_settings",
        "ctrlhost_crds",
        "ctrlhost_permissions",
        "ctrlhost_setup",
        "ctrlhost_synced",
        "ctrlhost_elected",
        "ctrlhost_deposed",
        "ctrlhost_stopping",
        "ctrlhost_commands",
    ]


def test_an_error_names_the_line_in_a_plugin_installed_next_to_ctrlhost():
    beside = f"{Path(ctrlhost.__file__).parent}_bad/__init__.py"
    with pytest.raises(ZeroDivisionError) as caught:
        exec(compile("\n1 / 0", beside, "exec"), {})
    assert with_place(caught.value) == "ZeroDivisionError: division by zero (__init__.py:2)"
