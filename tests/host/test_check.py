"""`ctrlhost check`: what is wrong with plugins, found without running them."""

from __future__ import annotations

import copy
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, TypeAlias

import pytest
from ctrlhost_sandbox import Sandbox

from ctrlhost import Client
from tests.host.conftest import Distributions
from tests.support.objects import crd

behaviour = pytest.mark.behaviour

Run: TypeAlias = Callable[..., CompletedProcess[str]]

CRD = crd(
    "check.test",
    "Widget",
    schema={
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}},
    },
)
CRD["spec"]["versions"][0]["subresources"] = {"status": {}}

PLUGIN = """
    import msgspec
    import ctrlhost

    class Settings(msgspec.Struct, forbid_unknown_fields=True):
        size: int = 1

    @ctrlhost.hookimpl
    def ctrlhost_settings():
        return Settings

    @ctrlhost.hookimpl
    def ctrlhost_crds():
        return {crds}

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        plugin.add_controller("c", lambda ctx, request: None, {sources})

    @ctrlhost.hookimpl
    def ctrlhost_permissions(settings):
        return [ctrlhost.Permission("", ["secrets"], ["create"], namespace="a")]
"""
WIDGETS = 'ctrlhost.For("check.test/v1", "Widget"), ctrlhost.Owns("v1", "ConfigMap")'


def plugin(*, crds: list[dict[str, Any]] | None = None, sources: str = WIDGETS) -> str:
    return PLUGIN.format(crds=repr([CRD] if crds is None else crds), sources=sources)


def changed_crd(path: str, value: Any) -> dict[str, Any]:
    """Return the CRD with a value at a path below the spec."""
    crd = copy.deepcopy(CRD)
    at: Any = crd["spec"]
    *steps, last = path.split(".")
    for step in steps:
        at = at[int(step) if step.isdigit() else step]
    at[last] = value
    return crd


@pytest.fixture(scope="module")
def server() -> Iterator[Sandbox]:
    """A server that has the CRD."""
    with Sandbox() as sandbox:
        client = Client.load(sandbox.kubeconfig)
        client.create(CRD)
        yield sandbox


def lines(result: CompletedProcess[str], level: str) -> list[str]:
    return [line for line in result.stdout.splitlines() if line.startswith(f"{level} ")]


@behaviour("authoring/AK1")
@behaviour("oncall/OC14")
def test_a_plugin_without_a_finding(ctrlhost: Run, distributions: Distributions, server: Sandbox) -> None:
    distributions.add("widgets", plugin())
    arguments = ("check", "--plugins=widgets", f"--kubeconfig={server.kubeconfig}", "--strict")
    result = ctrlhost(*arguments)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines() == ["ok host: 1 check", "ok widgets: 8 checks"]
    result = ctrlhost(*arguments, "-v")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        "ok host settings: valid",
        "ok widgets load: test-widgets 1.0",
        "ok widgets settings: valid",
        "ok widgets declaration: controllers: 1",
        "ok widgets crd: widgets.check.test is valid",
        "ok widgets crd: widgets.check.test is installed",
        "ok widgets kind: Widget (check.test/v1) is served",
        "ok widgets kind: ConfigMap (v1) is served",
        "ok widgets right: rights: 9",
    ]
    findings = json.loads(ctrlhost(*arguments, "--output=json").stdout)
    assert {finding["level"] for finding in findings} == {"ok"}
    assert [
        f"{finding['level']} {finding['plugin']} {finding['check']}: {finding['text']}" for finding in findings
    ] == (result.stdout.splitlines())


@behaviour("authoring/AK2")
def test_a_right_that_is_missing_in_one_namespace(ctrlhost: Run, distributions: Distributions) -> None:
    distributions.add("maps", plugin(crds=[], sources='ctrlhost.For("v1", "ConfigMap", namespaces=["a", "b"])'))
    api = "rbac.authorization.k8s.io"
    with Sandbox(rbac=True) as sandbox:
        client = Client.load(sandbox.kubeconfig)
        for namespace in ("a", "b"):
            client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        for name, namespace, rules in (
            ("all", "a", [("", "configmaps", ["list", "watch"]), ("", "secrets", ["create"])]),
            ("some", "b", [("", "configmaps", ["watch"])]),
            ("events", None, [("events.k8s.io", "events", ["create", "patch"])]),
        ):
            prefix, metadata = (
                ("", {"name": name, "namespace": namespace}) if namespace else ("Cluster", {"name": name})
            )
            role = [{"apiGroups": [group], "resources": [what], "verbs": verbs} for group, what, verbs in rules]
            client.create({"apiVersion": f"{api}/v1", "kind": f"{prefix}Role", "metadata": metadata, "rules": role})
            binding = {
                "apiVersion": f"{api}/v1",
                "kind": f"{prefix}RoleBinding",
                "metadata": metadata,
                "roleRef": {"apiGroup": api, "kind": f"{prefix}Role", "name": name},
                "subjects": [{"kind": "User", "name": "somebody", "apiGroup": api}],
            }
            client.create(binding)
        own = sandbox.kubeconfig_for(user="somebody")
        result = ctrlhost("check", "--plugins=maps", f"--kubeconfig={own}")
    assert result.returncode == 1
    rule = '{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]} to a Role in namespace b'
    assert lines(result, "error") == [f"error maps right: may not list configmaps in namespace b: add {rule}"]
    assert "hint: `ctrlhost manifests --plugins=maps --image=IMAGE` prints the Role" in result.stderr


@behaviour("authoring/AK3")
def test_a_crd_that_is_not_installed_or_differs(ctrlhost: Run, distributions: Distributions, server: Sandbox) -> None:
    other = changed_crd("names", {"plural": "gadgets", "kind": "Gadget"})
    other["metadata"] = {"name": "gadgets.check.test"}
    distributions.add("gadgets", plugin(crds=[other], sources='ctrlhost.For("check.test/v1", "Gadget")'))
    size = "versions.0.schema.openAPIV3Schema.properties.spec.properties.size"
    distributions.add("widgets", plugin(crds=[changed_crd(f"{size}.minimum", 0)]))
    smaller = changed_crd("versions.0.schema.openAPIV3Schema.properties", {"spec": {"type": "object"}})
    distributions.add("smaller", plugin(crds=[smaller]))
    distributions.add("without-status", plugin(crds=[changed_crd("versions.0.subresources", {})]))
    missing = ctrlhost("check", "--plugins=gadgets", f"--kubeconfig={server.kubeconfig}")
    assert missing.returncode == 1
    # The kind is not reported a second time.
    assert lines(missing, "error") == ["error gadgets crd: gadgets.check.test is not installed"]
    assert "hint: `ctrlhost crds` prints it" in missing.stderr
    for name, what in (
        ("widgets", "spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.size.minimum"),
        (
            "smaller",
            "spec.versions[0].schema.openAPIV3Schema.properties.spec.properties is only in the installed one",
        ),
        ("without-status", "spec.versions[0].subresources.status is only in the installed one"),
    ):
        differs = ctrlhost("check", f"--plugins={name}", f"--kubeconfig={server.kubeconfig}")
        assert differs.returncode == 0
        (warning,) = lines(differs, "warning")
        assert warning == f"warning {name} crd: widgets.check.test as installed differs from that of the plugin: {what}"


REFUSED = {
    "permissions": ("@ctrlhost.hookimpl\ndef ctrlhost_permissions(settings): raise ValueError('no')\n", "right"),
    "crds": ("@ctrlhost.hookimpl\ndef ctrlhost_crds(): raise ValueError('no')\n", "crd"),
    "crd": ("@ctrlhost.hookimpl\ndef ctrlhost_crds(): return [CRD]\n", "crd"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_hook_raises_or_gives_ends_no_check_of_others(
    ctrlhost: Run, distributions: Distributions, server: Sandbox, name: str
) -> None:
    hook, check = REFUSED[name]
    nameless = {**CRD, "apiVersion": "apiextensions.k8s.io/v1beta1", "metadata": {"name": 5}}
    set_up = "@ctrlhost.hookimpl\ndef ctrlhost_setup(plugin): ...\n"
    distributions.add("broken", f"import ctrlhost\nCRD = {nameless!r}\n{hook}{set_up}")
    distributions.add("maps", plugin(crds=[], sources='ctrlhost.For("v1", "ConfigMap")'))
    for where in ("--offline", f"--kubeconfig={server.kubeconfig}"):
        result = ctrlhost("check", "-v", "--plugins=broken,maps", where)
        assert result.returncode == 1
        (error,) = lines(result, "error")
        assert error.startswith(f"error broken {check}: ")
    assert "ok maps kind: ConfigMap (v1) is served" in lines(result, "ok")


def test_an_invalid_setting_of_the_host_does_not_change_the_server(
    ctrlhost: Run, distributions: Distributions, server: Sandbox
) -> None:
    distributions.add("maps", plugin(crds=[], sources='ctrlhost.For("v1", "ConfigMap")'))
    options = ("-v", "--plugins=maps", f"--kubeconfig={server.kubeconfig}", "--namespace=a/b")
    result = ctrlhost("check", *options, KUBECONFIG="")
    (error,) = lines(result, "error")
    assert error.startswith("error host settings: host: invalid namespace `a/b`")
    assert "ok maps kind: ConfigMap (v1) is served" in lines(result, "ok")


@behaviour("authoring/AK4")
def test_the_warnings_of_the_server(ctrlhost: Run, distributions: Distributions, server: Sandbox) -> None:
    client = Client.load(server.kubeconfig)
    old = changed_crd("names", {"plural": "olds", "kind": "Old"})
    old["metadata"] = {"name": "olds.check.test"}
    version = old["spec"]["versions"][0]
    # More than a word: what the header escapes, too.
    text = 'check.test/v1 Old is "old", use Widget'
    old["spec"]["versions"] = [{**version, "deprecated": True, "deprecationWarning": text}]
    client.create(old)
    distributions.add("olds", plugin(crds=[old], sources='ctrlhost.For("check.test/v1", "Old")'))
    arguments = ("check", "--plugins=olds", f"--kubeconfig={server.kubeconfig}")
    for strict, code in ((), 0), (("--strict",), 1):
        result = ctrlhost(*arguments, *strict)
        assert result.returncode == code
        assert lines(result, "warning") == [f"warning olds api: Old (check.test/v1): {text}"]
        assert lines(result, "error") == []


@behaviour("authoring/AK5")
def test_settings_and_declarations_are_checked_without_a_server(
    ctrlhost: Run, distributions: Distributions, tmp_path: Path
) -> None:
    declared = """
        import msgspec
        import ctrlhost

        class Settings(msgspec.Struct, forbid_unknown_fields=True):
            size: int = 1

        plugin = ctrlhost.Plugin(settings=Settings)

        @plugin.controller("v1/ConfigMap")
        def reconcile(ctx): ...
    """
    distributions.add("declared", declared)
    distributions.add("hooks", plugin(crds=[], sources='ctrlhost.Owns("v1", "ConfigMap")'))
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        listener.setblocking(False)
        user = {"name": "u", "user": {"token": "t"}}
        cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{listener.getsockname()[1]}"}}
        context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(
            json.dumps({"clusters": [cluster], "users": [user], "contexts": [context], "current-context": "x"})
        )
        wrong = ("--set=declared.sizes=1", "--set=hooks.size=big", "--set=host.listn=:1")
        result = ctrlhost("check", "--offline", "--plugins=declared,hooks", *wrong, KUBECONFIG=str(kubeconfig))
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert result.returncode == 1
    errors = lines(result, "error")
    assert errors[0].startswith("error host settings: host.listn: unknown setting (in --set host.listn)")
    place = f"{distributions.folder / 'test_declared.py'}:10"
    takes = "takes (ctx), but is called with (ctx, obj)"
    assert f"error declared declaration: {place}: reconcile: {takes}" in errors
    assert "error declared settings: plugins.declared.sizes: unknown setting (in --set declared.sizes)" in errors
    assert any(line.startswith("error hooks settings: plugins.hooks.size: ") for line in errors)
    assert any(line.startswith("error hooks declaration: ") and "`Owns` needs a `For`" in line for line in errors)
    assert len(errors) == 5
    assert "hint: did you mean `size`?" in result.stderr
    assert "hint: write it as `def reconcile(ctx, obj)`" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("host.listen=nowhere", "host.listen: invalid address `nowhere`"),
        ("host.leader_elect_plugins=mapss", "host.leader_elect_plugins: the host runs no plugin `mapss`"),
        ("host.log_levels={mapss = 'debug'}", "host.log_levels: no plugin and no logger `mapss`"),
        ("controllers.maps/d.workers=2", "controllers.maps/d: plugin `maps` has no controller of this name"),
        ("supervision.maps.stuck_limit=0", "supervision.maps: `stuck_limit` must be at least 1"),
    ],
)
def test_settings_of_the_host_are_checked(
    ctrlhost: Run, distributions: Distributions, setting: str, message: str
) -> None:
    distributions.add("maps", plugin(crds=[], sources='ctrlhost.For("v1", "ConfigMap")'))
    result = ctrlhost("check", "--offline", "-v", "--plugins=maps", f"--set={setting}")
    assert result.returncode == 1
    (error,) = lines(result, "error")
    assert message in error
    assert "ok maps declaration: controllers: 1" in lines(result, "ok")


@behaviour("authoring/AM3")
def test_a_kind_that_is_not_served_is_named_as_the_host_does(
    ctrlhost: Run, distributions: Distributions, server: Sandbox
) -> None:
    sources = 'ctrlhost.For("apps/v1", "Deploymnet"), ctrlhost.Watches("apps/v1beta1", "Deployment")'
    distributions.add("misspelt", plugin(crds=[], sources=sources))
    result = ctrlhost("check", "--plugins=misspelt", f"--kubeconfig={server.kubeconfig}")
    assert result.returncode == 1
    assert lines(result, "error") == [
        "error misspelt kind: no kind `Deploymnet` in apps/v1; did you mean `Deployment`?",
        "error misspelt kind: apps/v1beta1 is not served; apps has v1",
    ]


def test_a_field_selector_that_the_kind_does_not_support(
    ctrlhost: Run, distributions: Distributions, server: Sandbox
) -> None:
    distributions.add("fields", plugin(crds=[], sources='ctrlhost.For("v1", "ConfigMap", field_selector="data.a=b")'))
    result = ctrlhost("check", "--plugins=fields", f"--kubeconfig={server.kubeconfig}")
    assert result.returncode == 1
    (line,) = lines(result, "error")
    assert line.startswith("error fields kind: ConfigMap (v1): ")
    assert "data.a" in line


def test_a_server_that_does_not_answer_is_one_finding(
    ctrlhost: Run, distributions: Distributions, tmp_path: Path
) -> None:
    distributions.add("maps", plugin(crds=[], sources='ctrlhost.For("v1", "ConfigMap")'))
    result = ctrlhost("check", "--plugins=maps", f"--kubeconfig={tmp_path / 'missing'}")
    assert result.returncode == 1
    (line,) = lines(result, "error")
    assert line.startswith("error host server: ")
    assert "missing" in line


def test_files_are_checked_as_plugins(ctrlhost: Run, tmp_path: Path) -> None:
    good, wrong = tmp_path / "good_one.py", tmp_path / "wrong.py"
    head = "import ctrlhost\nplugin = ctrlhost.Plugin()\n@plugin.controller('v1/ConfigMap')\n"
    good.write_text(f"{head}def reconcile(ctx, obj): ...\n")
    wrong.write_text(f"{head}def reconcile(ctx): ...\n")
    result = ctrlhost("check", "--offline", "-v", str(good), str(wrong), "--set=good-one.size=1")
    assert result.returncode == 1
    no_settings = "plugins.good-one.size: the plugin `good-one` has no settings (in --set good-one.size)"
    assert lines(result, "error") == [
        f"error good-one settings: {no_settings}",
        f"error wrong declaration: {wrong}:3: reconcile: takes (ctx), but is called with (ctx, obj)",
    ]
    assert f"ok good-one load: {good}" in lines(result, "ok")
    assert ctrlhost("check", "--offline", str(good)).returncode == 0


def test_a_mistake_of_a_model_is_one_finding(ctrlhost: Run, tmp_path: Path) -> None:
    (tmp_path / "untyped.py").write_text(
        "import ctrlhost\n\n"
        "@ctrlhost.resource('check.test/v1')\nclass Gadget(ctrlhost.Model):\n    pass\n\n"
        "plugin = ctrlhost.Plugin()\n\n"
        "@plugin.controller(Gadget)\ndef reconcile(ctx, gadget): ...\n"
    )
    checked = ctrlhost("check", "--offline", str(tmp_path / "untyped.py"))
    assert checked.returncode == 1
    assert lines(checked, "error") == ["error untyped declaration: Gadget: the types of spec and status are missing"]


def test_a_plugin_that_is_not_installed_is_a_mistake_of_the_command_line(ctrlhost: Run) -> None:
    result = ctrlhost("check", "--plugins=nothing")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("error: plugin `nothing` is not installed")


INVALID = {
    "scope": (("scope", "Everywhere"), 'spec.scope: Unsupported value: "Everywhere"'),
    "type": (
        ("versions.0.schema.openAPIV3Schema.properties.spec.properties.size.type", "number?"),
        'openAPIV3Schema.properties[spec].properties[size].type: Unsupported value: "number?"',
    ),
    "unknown field": (("nams", {}), 'unknown field "spec.nams"'),
}


@behaviour("authoring/AM13")
@pytest.mark.parametrize("name", INVALID)
def test_an_invalid_crd_is_reported_with_path_and_rule_and_not_printed(
    ctrlhost: Run, distributions: Distributions, name: str
) -> None:
    change, text = INVALID[name]
    distributions.add("widgets", plugin(crds=[CRD, changed_crd(*change)]))
    for command in (("manifests",), ("crds",)):
        result = ctrlhost(*command, "--plugins=widgets")
        assert (result.returncode, result.stdout) == (1, "")
        assert result.stderr.startswith("error: plugin `widgets`: ")
        assert text in result.stderr.splitlines()[0]
        assert result.stderr.splitlines()[-1].startswith("hint: ")
    checked = ctrlhost("check", "--offline", "--plugins=widgets")
    assert checked.returncode == 1
    (error,) = lines(checked, "error")
    assert error.startswith("error widgets crd: ")
    assert text in error


MISSPELT = """
    import msgspec
    import ctrlhost

    class Spec(msgspec.Struct, frozen=True):
        size: int = 1

    class Status(ctrlhost.ModelStatus):
        ready: int

    @ctrlhost.resource("check.test/v1")
    class Widget(ctrlhost.Model[Spec, Status]):
        pass

    plugin = ctrlhost.Plugin()
    plugin.permission("", ["secret"], ["get"])

    @plugin.controller(Widget, owns=["v1/secret", "apps/v1/deployments"], watches=["v1/Thing"])
    def reconcile(ctx, widget):
        pass
"""


@behaviour("findings3/NA15")
def test_without_a_server_kinds_and_resources_are_those_of_kubernetes(
    ctrlhost: Run, distributions: Distributions, server: Sandbox
) -> None:
    distributions.add("widgets", MISSPELT)
    result = ctrlhost("check", "--plugins=widgets", "--offline")
    assert result.returncode == 1
    assert lines(result, "error") == [
        "error widgets kind: no kind `secret` in v1; did you mean `Secret`?",
        "error widgets kind: no kind `deployments` in apps/v1; did you mean `Deployment`?",
        "error widgets kind: no version of Kubernetes has a kind `Thing` in v1",
        "error widgets right: no resource `secret` in the core group; did you mean `secrets`?",
    ]
    assert lines(result, "warning") == [
        "warning widgets declaration: Widget: an object that lacks status.ready does not fit: there is no default"
    ]
    assert 'hint: write "v1/Secret"' in result.stderr
    # The server knows better where it is asked.
    problems = lines(ctrlhost("check", "--plugins=widgets", f"--kubeconfig={server.kubeconfig}"), "error")
    assert [line for line in problems if " kind: " in line] == [
        "error widgets kind: no kind `secret` in v1; did you mean `Secret`?",
        "error widgets kind: no kind `deployments` in apps/v1; did you mean `Deployment`?",
        "error widgets kind: the server does not serve kind Thing in v1",
    ]
