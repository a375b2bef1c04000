"""Plugins installed as distributions: imports, and errors of those that cannot be imported."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from ctrlhost import __version__
from ctrlhost.cli import execute
from ctrlhost.errors import PluginLoadError, PluginNotFound
from ctrlhost.supervisor.loader import PluginManager, installed_plugins, misplaced_plugins
from tests.support.plugin_sources import GREETER

PLUGIN = """
    import ctrlhost

    @ctrlhost.hookimpl
    def ctrlhost_crds():
        return []
"""


def test_listing_imports_nothing(distributions):
    distributions.add("quiet", "raise SystemExit('imported')")
    (plugin,) = installed_plugins()["quiet"]
    assert (plugin.distribution, plugin.version, plugin.target) == ("test-quiet", "1.0", "test_quiet")
    assert "test_quiet" not in sys.modules


def test_only_the_named_plugin_is_imported(distributions):
    distributions.add("one", PLUGIN)
    distributions.add("two", PLUGIN)
    plugin = PluginManager().load("one")
    assert plugin.name == "one"
    assert plugin.installed == "test-one 1.0"
    assert "test_two" not in sys.modules


def test_an_unknown_plugin_is_named_with_the_nearest_installed_one(distributions):
    distributions.add("greeter", PLUGIN)
    with pytest.raises(PluginNotFound, match="plugin `greter` is not installed") as caught:
        PluginManager().load("greter")
    assert "did you mean `greeter`?" in str(caught.value.hint)


def test_an_unknown_plugin_without_a_similar_name_gets_the_names_that_are_installed(distributions):
    distributions.add("greeter", PLUGIN)
    with pytest.raises(PluginNotFound) as caught:
        PluginManager().load("zzzzzz")
    hint = str(caught.value.hint)
    assert hint.startswith("correct the name, or install the plugin for ")
    assert "greeter" in hint.partition("(installed: ")[2]
    # Whoever registers a distribution of that name would run here.
    assert "ctrlhost-zzzzzz" not in hint


@pytest.mark.parametrize("name", ["evc.py", "./code/evc"])
def test_a_file_in_place_of_the_name_of_a_plugin_is_called_so(name, capsys):
    assert execute(["settings", name]) == 2
    printed = capsys.readouterr().err
    assert f"error: `{name}` is a file, not the name of an installed plugin" in printed
    assert "hint: files are arguments of `run`, `dev`, `check`, `crds` and `manifests`, without `--plugins`" in printed


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import nowhere_at_all", "could not be imported: No module named 'nowhere_at_all'"),
        ("1 / 0", "could not be imported: ZeroDivisionError: division by zero"),
        ("raise KeyboardInterrupt", "could not be imported: KeyboardInterrupt"),
        ("raise SystemExit(3)", "could not be imported: SystemExit: 3"),
        ("def broken(:", "could not be imported: SyntaxError: invalid syntax"),
    ],
)
def test_a_plugin_that_fails_to_import_is_named_with_the_reason(distributions, source, message):
    distributions.add("broken", source, module=f"broken_{abs(hash(source))}")
    with pytest.raises(PluginLoadError) as caught:
        PluginManager().load("broken")
    assert caught.value.plugin == "broken"
    assert message in str(caught.value)
    assert "test-broken 1.0" not in str(caught.value)
    assert caught.value.hint is not None


def test_two_distributions_with_one_plugin_name_are_both_named(distributions):
    distributions.add("twin", PLUGIN, distribution="twin-one")
    distributions.add("twin", PLUGIN, distribution="twin-two", version="2.0")
    with pytest.raises(PluginLoadError, match=r"twin-one 1\.0, twin-two 2\.0"):
        PluginManager().load("twin")


def test_the_same_distribution_found_twice_is_one_plugin(distributions, tmp_path, monkeypatch):
    distributions.add("doubled", PLUGIN)
    other = tmp_path / "other"
    distributions.folder.joinpath("test_doubled-1.0.dist-info")
    other.mkdir()
    monkeypatch.syspath_prepend(str(other))
    type(distributions)(other).add("doubled", PLUGIN)
    assert PluginManager().load("doubled").installed == "test-doubled 1.0"


@pytest.mark.behaviour("authoring/AM14")
@pytest.mark.parametrize("group", ["ctrlhost.plugins", "ctrlhost_plugins", "ctrlhosts", "ctrlhost.plugin", "Ctrlhost"])
def test_an_entry_point_in_a_similar_group_is_named_with_the_right_one(distributions, group):
    distributions.add("memcached", PLUGIN, distribution="ctrlhost-memcached", group=group)
    text = f"ctrlhost-memcached has an entry point memcached in the group {group}; the group is ctrlhost"
    with pytest.raises(PluginNotFound) as caught:
        PluginManager().load("memcached")
    assert caught.value.message == text
    assert "[project.entry-points.ctrlhost]" in str(caught.value.hint)
    assert misplaced_plugins() == [text]


def test_entry_points_of_other_groups_are_not_plugins_in_the_wrong_place(distributions):
    distributions.add("memcached", PLUGIN, group="ctrlhostile.plugins")
    distributions.add("other", PLUGIN, group="pytest11")
    assert misplaced_plugins() == []
    with pytest.raises(PluginNotFound, match="is not installed"):
        PluginManager().load("memcached")


@pytest.mark.behaviour("authoring/AM14")
def test_run_and_plugins_name_the_distribution_and_the_right_group(ctrlhost, distributions):
    distributions.add("memcached", PLUGIN, distribution="ctrlhost-memcached", group="ctrlhost.plugins")
    text = "ctrlhost-memcached has an entry point memcached in the group ctrlhost.plugins; the group is ctrlhost"
    run = ctrlhost("run", "--sandbox", "--plugins=memcached")
    assert run.returncode == 2
    assert run.stderr.splitlines()[0] == f"error: {text}"
    assert run.stderr.splitlines()[-1].startswith("hint: ")
    listed, checked = ctrlhost("plugins"), ctrlhost("plugins", "--check")
    assert f"warning: {text}" in listed.stderr.splitlines()
    assert (listed.returncode, checked.returncode) == (0, 1)


@pytest.mark.behaviour("findings3/NO15")
def test_a_plugin_for_another_version_of_ctrlhost_is_refused_at_once(
    distributions: Any, start_host: Any, sandbox: Any
) -> None:
    distributions.add("old", GREETER, requires="ctrlhost<0.1,>=0.0.1")
    distributions.add("fits", GREETER.replace("greet", "fit"), requires="ctrlhost<0.2,>=0.1")
    distributions.add("elsewhere", GREETER.replace("greet", "else"), requires='ctrlhost<0.1; sys_platform == "none"')
    host = start_host(f"--kubeconfig={sandbox.kubeconfig}", plugins="old,fits,elsewhere")
    line = host.line("plugin old failed: ")
    assert "test-old 1.0 needs ctrlhost<0.1,>=0.0.1, and this is ctrlhost " in line["msg"]
    assert "hint: `pip install --upgrade ctrlhost test-old`" in line["msg"]
    host.line("plugin fits running")
    host.line("plugin elsewhere running")
    assert host.stop() == 0
    about_old = [entry["msg"] for entry in host.lines if entry.get("plugin") == "old"]
    assert len(about_old) == 1


@pytest.mark.behaviour("findings3/NO15")
def test_our_plugins_and_new_ones_require_a_version_that_fits() -> None:
    root = Path(__file__).parents[2]
    files = [*root.glob("plugins/*/pyproject.toml"), root / "examples" / "sample-controller" / "pyproject.toml"]
    assert len(files) == 6
    template = root / "ctrlhost" / "authoring" / "scaffold" / "templates" / "pyproject.toml.txt"
    for file in files:
        required = [Requirement(text) for text in tomllib.loads(file.read_text())["project"]["dependencies"]]
        (ours,) = [requirement for requirement in required if requirement.name == "ctrlhost"]
        assert str(ours.specifier) == "<0.2,>=0.1"
        assert ours.specifier.contains(__version__)
    assert '"ctrlhost>=$version,<$next"' in template.read_text()
