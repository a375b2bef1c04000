"""`ctrlhost run FILE.py`: files as plugins, without a distribution."""

from __future__ import annotations

import importlib
import re
import textwrap
from typing import TYPE_CHECKING

import pytest
import yaml

import ctrlhost
from tests.support.plugin_sources import GREETER, to_greet

if TYPE_CHECKING:
    from pathlib import Path

MEMCACHED = """
    import ctrlhost
    import msgspec
    from starlette.responses import PlainTextResponse

    import images


    class Settings(msgspec.Struct):
        tag: str = "none"


    @ctrlhost.hookimpl
    def ctrlhost_settings():
        return Settings


    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        def reconcile(ctx, request):
            ctx.log.info("%s runs %s", request.name, images.PREFIX + plugin.settings.tag)

        plugin.add_controller("memcached", reconcile, ctrlhost.For("v1", "ConfigMap", label_selector="greet=yes"))
        plugin.add_page("/hello", PlainTextResponse("the page of memcached"))
"""
OTHER = """
    import sys

    import ctrlhost
    import images

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        import memcached

        plugin.log.info("shared: %s", images is memcached.images and memcached is sys.modules["memcached"])
"""


def write(folder: Path, **sources: str) -> None:
    folder.mkdir(exist_ok=True)
    for name, source in sources.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(source))


@pytest.mark.behaviour("authoring/AN7")
def test_a_file_is_a_plugin_of_its_name(tmp_path, start_host):
    write(tmp_path / "code", memcached=MEMCACHED, images="PREFIX = 'memcached:'", my_other=OTHER)
    files = [str(tmp_path / "code" / f"{name}.py") for name in ("memcached", "my_other")]
    host = start_host(*files, "--sandbox", "--set=memcached.tag=1.6")
    host.line("plugin memcached running")
    host.line("plugin my-other running")
    ctrlhost.Client.load(host.kubeconfig).create(to_greet("cache"))
    line = host.line("cache runs memcached:1.6")
    assert line["controller"] == "memcached/memcached"
    assert host.get("/memcached/hello") == (200, "the page of memcached")
    host.wait_for_metric(1, "controller_runtime_reconcile_total", controller="memcached/memcached", result="success")
    assert host.metric("ctrlhost_plugin_state", plugin="memcached", state="running") == 1
    # Its directory is on the path, and files that import one module have the same one.
    host.line("shared: True")
    assert host.stop() == 0


SHARED = """
    import ctrlhost
    import shared

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        plugin.log.info("%s has that of %s", __name__, shared.FOLDER)
"""


OBJECT = """
    import ctrlhost

    class Hooks:
        @ctrlhost.hookimpl
        def ctrlhost_setup(self, plugin):
            plugin.log.info("set up by %s", type(self).__name__)

    hooks = Hooks()
"""


@pytest.mark.behaviour("findings3/NA22")
def test_an_object_with_hooks_in_a_file_is_its_plugin(tmp_path, start_host, ctrlhost, ctrlhost_host, monkeypatch):
    write(tmp_path, op_hooks=OBJECT)
    file = str(tmp_path / "op_hooks.py")
    result = ctrlhost("check", file, "--offline")
    assert (result.returncode, result.stderr) == (0, "")
    host = start_host(file, "--sandbox")
    host.line("set up by Hooks")
    host.line("plugin op-hooks running")
    assert host.stop() == 0
    # As in the test kit.
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("op_hooks")
    assert ctrlhost_host(module.hooks).host.plugins[0].state == "running"
    assert ctrlhost_host(module).host.plugins[0].state == "running"
    # Two are ambiguous.
    write(tmp_path, two_hooks=f"{OBJECT}\n    more = Hooks()\n")
    result = ctrlhost("check", str(tmp_path / "two_hooks.py"), "--offline")
    assert result.returncode == 1
    assert "the module `two_hooks` has 2 plugins: `hooks` and `more`" in result.stdout + result.stderr


@pytest.mark.behaviour("findings3/NB13")
@pytest.mark.parametrize("between", ["", "import further"], ids=["imported", "imported by what is imported"])
def test_a_file_whose_module_has_the_name_of_one_beside_an_earlier_file_fails(tmp_path, start_host, between):
    write(tmp_path / "a", op_a=SHARED, shared="FOLDER = 'a'", other="")
    through = SHARED.replace("import shared", "import further").replace("shared", "further.shared")
    # `other` has the name of another one, too, but is not imported.
    write(tmp_path / "b", op_b=through if between else SHARED, shared="FOLDER = 'b'", further="import shared", other="")
    host = start_host(*(str(tmp_path / name / f"op_{name}.py") for name in "ab"), "--sandbox")
    host.line("op_a has that of a")
    failed = host.line("plugin op-b failed: ")["msg"]
    first, own = (tmp_path / name / "shared.py" for name in "ab")
    assert f"{tmp_path}/b/op_b.py imports `shared`, which is both {first} and {own}" in failed
    assert host.stop() == 0


def test_a_file_runs_beside_installed_plugins(tmp_path, start_host, distributions):
    distributions.add("greeter", GREETER)
    write(tmp_path, memcached=MEMCACHED, images="PREFIX = ''")
    host = start_host(str(tmp_path / "memcached.py"), "--sandbox", plugins="greeter")
    host.line("plugin memcached running")
    host.line("plugin greeter running")
    assert host.stop() == 0


@pytest.mark.behaviour("authoring/AN8")
@pytest.mark.parametrize(
    ("source", "place", "reason"),
    [
        ("import ctrlhost\n\ndef broken(:\n", ":3", "SyntaxError: invalid syntax"),
        ("import ctrlhost\n\n1 / 0\n", ":3", "ZeroDivisionError: division by zero"),
        ("import ctrlhost\n\nraise KeyboardInterrupt\n", ":3", "KeyboardInterrupt"),
        ("import nowhere_at_all\n", ":1", "ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("x = 1\n", "", "it has no `ctrlhost.Plugin` at its top level, and no hooks"),
    ],
    ids=["syntax error", "error", "interrupt", "missing module", "no plugin"],
)
def test_a_file_that_is_no_plugin_fails_without_restarts(tmp_path, ctrlhost, source, place, reason):
    file = tmp_path / "memcached.py"
    file.write_text(source)
    result = ctrlhost("run", str(file), "--sandbox", "--listen=127.0.0.1:0", "--set=host.log_levels.memcached=debug")
    assert result.returncode == 1
    assert f"plugin memcached failed: {file}{place}: {reason}" in result.stderr
    assert "(hint: " in result.stderr
    # Places in the host's own code help nobody.
    assert not re.search(r"\b(runtime|host)\.py:\d", result.stderr)
    assert "stopping: every plugin has failed" in result.stderr
    assert "restarts" not in result.stderr
    # At level debug the log has the traceback of the author's code.
    assert "Traceback (most recent call last)" in result.stderr


@pytest.mark.behaviour("authoring/AN8")
def test_two_files_of_one_name_are_a_mistake_of_the_command_line(tmp_path, ctrlhost, distributions):
    write(tmp_path / "a", my_op=MEMCACHED)
    write(tmp_path / "b", **{"my-op": MEMCACHED})
    result = ctrlhost("run", str(tmp_path / "a/my_op.py"), str(tmp_path / "b/my-op.py"), "--sandbox")
    assert result.returncode == 2
    assert f"{tmp_path}/a/my_op.py" in result.stderr
    assert f"error: {tmp_path}/b/my-op.py: its plugin has the name `my-op`" in result.stderr
    assert "hint: " in result.stderr
    distributions.add("my-op", GREETER)
    result = ctrlhost("run", str(tmp_path / "a/my_op.py"), "--plugins=my-op", "--sandbox")
    assert result.returncode == 2
    assert "as has the installed plugin of `--plugins`" in result.stderr


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing.py", "no such file"),
        ("greeter", "not a Python file"),
        ("9x.py", "invalid name `9x` of a plugin: it must match `[a-z][a-z0-9-]*`"),
        ("Big.py", "invalid name `Big`"),
        ("status.py", "invalid name `status` of a plugin: the host reserves it"),
    ],
)
def test_what_is_no_file_of_a_plugin_is_named(tmp_path, ctrlhost, name, message):
    if name != "nothing.py":
        (tmp_path / name).write_text("")
    result = ctrlhost("run", str(tmp_path / name), "--sandbox")
    assert result.returncode == 2
    assert result.stderr.startswith(f"error: {tmp_path / name}: {message}")


@pytest.mark.parametrize("name", ["json", "ctrlhost"])
def test_a_file_that_another_module_hides_is_refused(tmp_path, ctrlhost, name):
    (tmp_path / f"{name}.py").write_text("")
    result = ctrlhost("run", str(tmp_path / f"{name}.py"), "--sandbox", "--listen=127.0.0.1:0")
    assert result.returncode == 1
    assert f"another module is called `{name}`" in result.stderr


OWNER = '''
    import ctrlhost
    import msgspec

    class Spec(msgspec.Struct, frozen=True):
        size: int = 1

    @ctrlhost.resource("x.example.com/v1")
    class Thing(ctrlhost.Model[Spec, None]):
        """A thing."""

    plugin = ctrlhost.Plugin()

    @plugin.controller(Thing, owns=["v1/Secret"])
    def reconcile(ctx, obj): ...
'''


def test_crds_and_rights_of_files_are_printed(tmp_path, ctrlhost):
    write(tmp_path, my_owner=OWNER)
    file = str(tmp_path / "my_owner.py")
    crds = ctrlhost("crds", file)
    assert (crds.returncode, crds.stderr) == (0, "")
    # Not those of installed plugins.
    assert [document["metadata"]["name"] for document in yaml.safe_load_all(crds.stdout)] == ["things.x.example.com"]
    result = ctrlhost("manifests", file, "--isolate=my-owner", "--image=host:1")
    assert result.returncode == 0
    assert "the Deployment runs `my-owner` as an installed plugin" in result.stderr
    documents = {document["kind"]: document for document in yaml.safe_load_all(result.stdout)}
    assert {"CustomResourceDefinition", "Deployment"} <= documents.keys()
    roles = [manifest for manifest in yaml.safe_load_all(result.stdout) if manifest["kind"] == "ClusterRole"]
    rules = [rule for role in roles for rule in role["rules"]]
    assert any("secrets" in rule.get("resources", ()) and "patch" in rule["verbs"] for rule in rules)
    (container,) = documents["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert "--plugins=my-owner" in container["args"]


@pytest.mark.parametrize("command", ["crds", "manifests"])
def test_a_missing_file_is_named(tmp_path, ctrlhost, command):
    done = ctrlhost(command, str(tmp_path / "none.py"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "none.py: no such file" in done.stderr


ALONE = """
    import os

    import ctrlhost
    import images

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        def reconcile(ctx, request):
            ctx.log.info("%s runs in %d with %s", request.name, os.getpid(), images.PREFIX)

        plugin.add_controller("c", reconcile, ctrlhost.For("v1", "ConfigMap", label_selector="greet=yes"))
"""


def test_a_file_can_be_isolated(tmp_path, start_host):
    write(tmp_path / "code", alone=ALONE, images="PREFIX = 'images'")
    host = start_host(str(tmp_path / "code" / "alone.py"), "--sandbox", "--isolate=alone")
    host.line("plugin alone running")
    ctrlhost.Client.load(host.kubeconfig).create(to_greet("cache"))
    line = host.line("cache runs in ", " with images")
    assert int(line["msg"].split()[3]) != host.pid
    assert host.stop() == 0
