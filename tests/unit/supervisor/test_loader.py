from __future__ import annotations

import sys
import types
from pathlib import Path

import msgspec
import pytest

import ctrlhost
from ctrlhost.errors import PluginLoadError
from ctrlhost.supervisor.containment import with_place
from ctrlhost.supervisor.loader import PluginManager, hook_names, name_of
from ctrlhost.supervisor.plugin_file import PluginFile


def module(name: str, **functions: object) -> types.ModuleType:
    plugin = types.ModuleType(name)
    for function, value in functions.items():
        setattr(plugin, function, ctrlhost.hookimpl(value))
    return plugin


def no_crds():
    return []


def test_a_hook_is_called_only_for_its_own_plugin():
    calls = []
    manager = PluginManager()
    first = manager.register("one", module("one", ctrlhost_setup=lambda plugin: calls.append(("one", plugin))))
    manager.register("two", module("two", ctrlhost_setup=lambda plugin: calls.append(("two", plugin))))
    first.setup("context")
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
    with pytest.raises(PluginLoadError, match=r"no `ctrlhost\.Plugin` at its top level"):
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


def test_crds_are_asked_for_until_they_are_known():
    class Late:
        calls = 0

        @ctrlhost.hookimpl
        def ctrlhost_crds(self):
            self.calls += 1
            if self.calls == 1:
                raise OSError("not yet")
            return [{"kind": "CustomResourceDefinition"}]

    late = Late()
    plugin = PluginManager().register("late", late)
    with pytest.raises(OSError, match="not yet"):
        plugin.crds()
    assert plugin.crds() == plugin.crds() == [{"kind": "CustomResourceDefinition"}]
    assert late.calls == 2


def test_every_hook_of_the_contract_exists():
    assert hook_names() == [
        "ctrlhost_loaded",
        "ctrlhost_settings",
        "ctrlhost_crds",
        "ctrlhost_objects",
        "ctrlhost_permissions",
        "ctrlhost_notes",
        "ctrlhost_finalizers",
        "ctrlhost_setup",
        "ctrlhost_synced",
        "ctrlhost_elected",
        "ctrlhost_deposed",
        "ctrlhost_shards_changed",
        "ctrlhost_stopping",
        "ctrlhost_commands",
    ]


def test_an_error_names_the_line_in_a_plugin_installed_next_to_ctrlhost():
    beside = f"{Path(ctrlhost.__file__).parent}_bad/__init__.py"
    with pytest.raises(ZeroDivisionError) as caught:
        exec(compile("\n1 / 0", beside, "exec"), {})
    assert with_place(caught.value) == "ZeroDivisionError: division by zero (__init__.py:2)"


@pytest.mark.parametrize("name", ["x-", "-x", "x" * 64, "ü"])
def test_a_name_that_no_annotation_can_have_is_refused_for_a_declared_plugin(name):
    # `ctx.ensure` writes `applied.ctrlhost.dev/NAME`; plugins with hooks write none.
    plugin = ctrlhost.Plugin()
    with pytest.raises(PluginLoadError, match=f"invalid plugin name `{name}`: no annotation") as caught:
        PluginManager().register(name, plugin)
    assert "at most 63 characters" in str(caught.value.hint)
    assert PluginManager().register(name, module("any", ctrlhost_crds=no_crds)).name == name
    # The declaration has not ended.
    assert PluginManager().register("x" * 63, plugin).name == "x" * 63


def test_a_file_with_a_name_that_no_annotation_can_have_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.path", [*sys.path])
    path = tmp_path / "unnameable_.py"
    path.write_text("import ctrlhost\nplugin = ctrlhost.Plugin()\n")
    file = PluginFile(path)
    with pytest.raises(PluginLoadError, match=r"unnameable_\.py: invalid plugin name `unnameable-`"):
        PluginManager().register(file.name, file)


@pytest.mark.parametrize(
    ("source", "message", "hint"),
    [
        (
            "",
            "{path}: it has no `ctrlhost.Plugin` at its top level, and no hooks",
            "write `plugin = ctrlhost.Plugin()`",
        ),
        ("import ctrlhost\na = ctrlhost.Plugin()\nb = ctrlhost.Plugin()\n", "2 plugins", "a file is one plugin"),
        ("def broken(:\n", "{path}:1: SyntaxError: invalid syntax", "`python {name}.py` shows the whole error"),
        ("import nowhere_at_all\n", "{path}:1: ModuleNotFoundError: ", "put the module beside the file"),
        ("\nimport {name}_used\n", "{path}:2 ({folder}/{name}_used.py:3): JSONDecodeError: ", "`python {name}.py`"),
        ("import json\njson.loads('{{')\n", "{path}:2: JSONDecodeError: ", "`python {name}.py`"),
    ],
    ids=["empty", "two_plugins", "syntax", "missing", "imported", "library"],
)
def test_a_file_that_is_no_plugin_is_named_with_what_to_do(tmp_path, monkeypatch, request, source, message, hint):
    monkeypatch.setattr("sys.path", [*sys.path])
    # A name for each case: modules stay imported.
    names = {"name": f"wrong_{request.node.callspec.id}", "folder": tmp_path.resolve()}
    names["path"] = names["folder"] / f"{names['name']}.py"
    names["path"].write_text(source.format(**names))
    (tmp_path / f"{names['name']}_used.py").write_text("import json\n\njson.loads('{')\n")
    file = PluginFile(names["path"])
    with pytest.raises(PluginLoadError) as caught:
        PluginManager().register(file.name, file)
    assert message.format(**names) in caught.value.message
    assert hint.format(**names) in str(caught.value.hint)


def some_function() -> None: ...


@pytest.mark.parametrize(
    ("value", "name", "what"),
    [
        (PluginFile, "pluginfile", "the class `PluginFile`"),
        (ctrlhost.Model, "model", "the class `Model`"),
        (some_function, "some-function", "the function `some_function`"),
    ],
)
def test_a_class_or_function_in_place_of_a_plugin_is_named(value, name, what):
    assert name_of(value) == name
    with pytest.raises(PluginLoadError, match=f"{what} is no plugin") as caught:
        PluginManager().register(name, value)
    assert str(caught.value.hint).startswith("pass a `ctrlhost.Plugin`")


def test_a_plugin_of_a_program_has_the_name_of_its_file():
    names = {"__name__": "__main__", "__file__": "/code/my_op.py"}
    exec("import ctrlhost; plugin = ctrlhost.Plugin()", names)
    assert name_of(names["plugin"]) == "my-op"
