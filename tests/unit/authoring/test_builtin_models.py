"""`ctrlhost models KIND`: structs of built-in kinds, and a plugin that uses them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

import ctrlhost
from ctrlhost.cli import execute
from ctrlhost.client.builtin_kinds import BUILTIN_KINDS
from ctrlhost.models.model import to_dict
from tests.support.minimal_objects import minimal_objects
from tests.support.objects import config_map
from tests.support.operators import deployment

pytestmark = pytest.mark.behaviour("findings3/NA28")

ROOT = Path(__file__).parents[3]
ALL = [f"{version}/{kind}" for version, kinds in BUILTIN_KINDS.items() for kind in kinds]
KINDS = ("apps/v1/Deployment", "v1/Service", "v1/ConfigMap")


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Return a function that returns the module of some kinds."""

    def run(*kinds: str) -> str:
        assert execute(["models", *kinds]) == 0
        return capsys.readouterr().out

    return run


@pytest.fixture
def module(printed: Callable[..., str]) -> Iterator[Callable[..., Any]]:
    """Return a function that imports the module of some kinds."""

    def make(*kinds: str) -> Any:
        module = ModuleType("written_kinds")
        sys.modules[module.__name__] = module
        exec(printed(*kinds), module.__dict__)
        return module

    yield make
    sys.modules.pop("written_kinds", None)


def test_a_struct_of_each_kind_reads_and_writes_its_objects(module: Callable[..., Any]) -> None:
    structs = {
        struct.__ctrlhost_kind__: struct
        for struct in vars(module(*ALL)).values()
        if isinstance(struct, type) and "__ctrlhost_kind__" in vars(struct)
    }
    by_kind = {f"{names.api_version}/{names.kind}": struct for names, struct in structs.items()}
    assert by_kind.keys() == set(ALL)
    for struct in by_kind.values():
        # All types that it refers to exist.
        msgspec.json.Decoder(struct)
    minimal = minimal_objects()
    objects = [deployment(), config_map("c", {"a": "b"})]
    for text in ALL:
        version, kind = text.rsplit("/", 1)
        content = minimal.get((version.rpartition("/")[0], kind))
        if content is not None and version.partition("/")[2] in ("", "v1"):
            objects.append({"apiVersion": version, "kind": kind, **content, "metadata": {"name": "x"}})
    assert len(objects) > len(minimal) / 2
    for obj in objects:
        decoded = ctrlhost.Object(obj).decode(by_kind[f"{obj['apiVersion']}/{obj['kind']}"])
        assert to_dict(decoded) == obj


def test_types_are_shared_and_take_what_newer_servers_send(module: Callable[..., Any]) -> None:
    kinds = module("apps/v1/Deployment", "v1/PersistentVolumeClaim", "apps/v1/StatefulSet", "v1/Pod", "v1/Service")
    fields = {field.name: field.type for field in msgspec.structs.fields(kinds.StatefulSetSpec)}
    assert fields["volumeClaimTemplates"] == list[kinds.PersistentVolumeClaim] | None
    assert kinds.PodTemplateSpec(metadata=ctrlhost.ObjectMeta(labels={"a": "b"})).metadata.labels == {"a": "b"}
    pod = {"phase": "Sleeping", "furtherField": 1}
    obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": pod}
    assert ctrlhost.Object(obj).decode(kinds.Pod).status.phase == "Sleeping"
    limits = kinds.ResourceRequirements(limits={"cpu": 1, "memory": "1Gi"})
    port = kinds.ServicePort(port=80, targetPort="http")
    assert (limits.limits, port.targetPort) == ({"cpu": 1, "memory": "1Gi"}, "http")


PLUGIN = """
import ctrlhost
from kinds import ConfigMap, Container, Deployment, DeploymentSpec, LabelSelector, PodSpec, PodTemplateSpec, Service

plugin = ctrlhost.Plugin()


@plugin.controller(ctrlhost.For(ConfigMap, label_selector="mine"), owns=[Deployment], watches=[Service])
def serve(ctx: ctrlhost.Context, config_map: ConfigMap) -> None:
    name = config_map.metadata.name
    labels = {"app": name}
    containers = [Container(name="c", image=(config_map.data or {})["image"])]
    template = PodTemplateSpec(metadata=ctrlhost.ObjectMeta(labels=labels), spec=PodSpec(containers=containers))
    spec = DeploymentSpec(replicas=2, selector=LabelSelector(matchLabels=labels), template=template)
    ctx.ensure(Deployment(metadata=ctrlhost.ObjectMeta(name=name), spec=spec))
    live = ctx.cache(Deployment).get(name)
    services = sorted(service.metadata.name for service in ctx.cache(Service).list())
    size = live.spec.replicas if live is not None and live.spec is not None else 0
    ctx.log.info("%s has %s replicas beside %s", name, size, services)
"""


@pytest.fixture
def package(tmp_path: Path, printed: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "kinds.py").write_text(printed(*KINDS))
    (tmp_path / "typed_kinds.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in ("kinds", "typed_kinds"):
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("package")
def test_owns_watches_ensure_and_cache_take_the_structs(ctrlhost_host: Any, caplog: pytest.LogCaptureFixture) -> None:
    from importlib import import_module

    caplog.set_level("INFO", "ctrlhost.plugin")
    host = ctrlhost_host(import_module("typed_kinds").plugin, start=False)
    host.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 1}]}})
    host.start()
    host.apply(config_map("web", {"image": "nginx"}, labels={"mine": ""}))
    host.run_until_idle()
    live = host.client.get("apps/v1", "Deployment", "web", "default")
    assert live["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx"
    assert (live["spec"]["replicas"], live["metadata"]["ownerReferences"][0]["kind"]) == (2, "ConfigMap")
    assert "web has 2 replicas beside ['kubernetes', 's']" in caplog.text
    assert sum(controller.status().errors for controller in host.controllers.values()) == 0


def test_the_module_and_its_user_pass_the_strictest_checks(package: Path) -> None:
    def check(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", *arguments], cwd=package, capture_output=True, text=True, check=False, timeout=120
        )
        return "" if done.returncode == 0 else done.stdout + done.stderr

    ruff = ("ruff", "check", "--config", str(ROOT / "pyproject.toml"), "--no-cache")
    mypy = ("mypy", "--strict", "--config-file=", f"--cache-dir={package / 'cache'}")
    assert check(*ruff, "kinds.py") == ""
    assert check(*mypy, "kinds.py", "typed_kinds.py") == ""
    (package / "typed_kinds.py").write_text(PLUGIN.replace("replicas=2", 'replicas="2"').replace("image=(", "imag=("))
    errors = check(*mypy, "typed_kinds.py")
    assert 'Unexpected keyword argument "imag" for "Container"' in errors
    assert 'Argument "replicas" to "DeploymentSpec" has incompatible type "str"' in errors


def test_the_same_kinds_give_the_same_text(printed: Callable[..., str]) -> None:
    command = [sys.executable, "-m", "ctrlhost", "models", *KINDS]
    done = subprocess.run(command, env={"PYTHONHASHSEED": "7"}, capture_output=True, text=True, check=True, timeout=60)
    text = printed(*KINDS)
    assert done.stdout == text == printed(*KINDS, KINDS[0])
    assert "Generated by `ctrlhost models apps/v1/Deployment v1/Service v1/ConfigMap`." in text


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["v1/Deployment"], 2, "v1/Deployment is not a built-in kind\n\nhint: did you mean `Deployment` in apps/v1?"),
        (["x.io/v1/Foo"], 2, "x.io/v1/Foo is not a built-in kind\n\nhint: of a custom kind, pass the file of its CRD"),
        (["v1/Pod", "crd.yaml"], 2, "name one file with a CRD, or built-in kinds such as apps/v1/Deployment"),
        (["v1/Pod", "--version=v1"], 2, "--version is for a CRD; a kind has its version: apps/v1/Deployment"),
    ],
)
def test_what_is_no_built_in_kind_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    assert execute(["models", *arguments]) == code
    captured = capsys.readouterr()
    assert (captured.out, message in captured.err) == ("", True)
