"""How a host finds a `ctrlhost.Plugin`, and what it makes of its settings and CRDs."""

from __future__ import annotations

import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import ctrlhost
from ctrlhost import Client
from ctrlhost.errors import PluginLoadError
from ctrlhost.supervisor.loader import PluginManager
from tests.host.conftest import Distributions, StartHost
from tests.support.plugin_modules import config_map

GREETER = """
    import msgspec
    import ctrlhost

    class Settings(msgspec.Struct, frozen=True):
        of_file: str = ""
        of_environment: str = ""
        of_command: str = ""

    plugin = ctrlhost.Plugin(settings=Settings)

    @plugin.controller("v1/ConfigMap", name="greeter")
    def reconcile(ctx, obj):
        ctx.log.info("%s: %s %s %s", obj.name, *(getattr(ctx.settings, name) for name in Settings.__struct_fields__))
"""


@pytest.mark.behaviour("authoring/AU1")
@pytest.mark.behaviour("authoring/AU4")
def test_an_entry_point_names_the_object_and_each_source_of_settings_counts(
    distributions: Distributions, start_host: StartHost, ctrlhost: Any, tmp_path: Path
) -> None:
    distributions.add("greeter", GREETER, attribute="plugin")
    file = tmp_path / "settings.toml"
    file.write_text('[plugins.greeter]\nof_file = "one"\n')
    environment = {"CTRLHOST_PLUGINS__GREETER__OF_ENVIRONMENT": "two"}
    host = start_host(
        "--sandbox", f"--config={file}", "--set=greeter.of_command=three", plugins="greeter", **environment
    )
    Client.load(host.kubeconfig).create(config_map("ann"))
    line = host.line("ann: one two three")
    assert line["controller"] == "greeter/greeter"
    assert host.stop() == 0
    checked = ctrlhost("plugins", "--check")
    assert checked.returncode == 0
    assert any(line.split()[0] == "greeter" and line.split()[-1] == "ok" for line in checked.stdout.splitlines())


def module_with(**values: object) -> types.ModuleType:
    module = types.ModuleType("ctrlhost_found")
    vars(module).update(values)
    return module


@pytest.mark.behaviour("authoring/AU2")
def test_a_module_without_hooks_stands_for_its_only_plugin() -> None:
    class Settings(msgspec.Struct):
        size: int = 1

    plugin = ctrlhost.Plugin(settings=Settings)
    loaded = PluginManager().register("found", module_with(plugin=plugin, alias=plugin))
    assert loaded.implementation is plugin
    assert loaded.settings_type() is Settings


@pytest.mark.behaviour("authoring/AU2")
def test_a_module_with_two_plugins_is_refused_with_both_names() -> None:
    two = module_with(first=ctrlhost.Plugin(), second=ctrlhost.Plugin())
    with pytest.raises(PluginLoadError, match="`first` and `second`") as caught:
        PluginManager().register("found", two)
    assert caught.value.hint is not None
    assert 'found = "ctrlhost_found:first"' in caught.value.hint


@pytest.mark.behaviour("authoring/AU3")
def test_the_hooks_of_a_module_count_more_than_a_plugin_in_it() -> None:
    @ctrlhost.hookimpl
    def ctrlhost_crds() -> list[dict[str, object]]:
        return []

    module = module_with(plugin=ctrlhost.Plugin(), ctrlhost_crds=ctrlhost_crds)
    assert PluginManager().register("found", module).implementation is module


def nothing(*_: object) -> None:
    pass


@pytest.fixture(scope="module")
def loaded() -> Any:
    """A plugin that a host has loaded, with a controller named `owner`."""
    plugin: Any = ctrlhost.Plugin()
    plugin.owner = plugin.controller("v1/Secret")(lambda ctx, obj: None)
    PluginManager().register("loaded", plugin)
    return plugin


DECLARATIONS: dict[str, Callable[[Any], object]] = {
    "controller": lambda plugin: plugin.controller("v1/ConfigMap")(nothing),
    "finalizer": lambda plugin: plugin.finalizer("example.com/cleanup", of=plugin.owner)(nothing),
    "index": lambda plugin: plugin.index("v1/ConfigMap")(nothing),
    "validate": lambda plugin: plugin.validate("v1/ConfigMap")(nothing),
    "mutate": lambda plugin: plugin.mutate("v1/ConfigMap")(nothing),
    "convert": lambda plugin: plugin.convert("example.com/v1/Thing", source="v1", target="v2")(nothing),
    "task": lambda plugin: plugin.task()(nothing),
    "setup": lambda plugin: plugin.setup(nothing),
    "synced": lambda plugin: plugin.synced(nothing),
    "elected": lambda plugin: plugin.elected(nothing),
    "shards_changed": lambda plugin: plugin.shards_changed(nothing),
    "deposed": lambda plugin: plugin.deposed(nothing),
    "stopping": lambda plugin: plugin.stopping(nothing),
    "health": lambda plugin: plugin.health("lights")(nothing),
    "permission": lambda plugin: plugin.permission("", ["pods"], ["get"]),
    "permission of the settings": lambda plugin: plugin.permission(nothing),
    "page": lambda plugin: plugin.page("/page")(nothing),
    "report": lambda plugin: plugin.report("/report", title="Report")(nothing),
    "command": lambda plugin: plugin.command()(nothing),
}


@pytest.mark.behaviour("authoring/AU7")
@pytest.mark.parametrize("name", DECLARATIONS)
def test_declarations_end_when_a_host_loads_the_plugin(loaded: Any, name: str) -> None:
    with pytest.raises(RuntimeError, match="declarations end when a host loads it"):
        DECLARATIONS[name](loaded)


def test_each_declaration_is_tried() -> None:
    public = {name for name in vars(ctrlhost.Plugin) if not name.startswith(("_", "ctrlhost_"))}
    assert public - {"loaded"} == {name.partition(" ")[0] for name in DECLARATIONS}


@pytest.mark.behaviour("authoring/AU7")
def test_a_host_that_runs_ends_the_declarations(ctrlhost_host) -> None:
    plugin = ctrlhost.Plugin()
    ctrlhost_host(plugin)
    with pytest.raises(RuntimeError, match="declarations end when a host loads it"):
        plugin.controller("v1/ConfigMap")(nothing)


def test_a_plugin_is_named_after_the_package_that_makes_it() -> None:
    names: dict[str, object] = {"__name__": "ctrlhost_mem_cached.wiring", "ctrlhost": ctrlhost}
    exec("plugin = ctrlhost.Plugin()", names)
    assert getattr(names["plugin"], "__name__", "") == "ctrlhost_mem_cached"
