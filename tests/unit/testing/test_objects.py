"""Objects as a test applies and reads them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Annotated

import msgspec
import pytest

import ctrlhost
from ctrlhost import CtrlhostError, NotFound, UnknownKind
from ctrlhost.testing import HostUnderTest
from tests.support.objects import crd, deployment
from tests.support.plugin_modules import config_map, plugin_of

behaviour = pytest.mark.behaviour
ROOT = Path(__file__).parents[3]


class Spec(msgspec.Struct, frozen=True):
    size: Annotated[int, msgspec.Meta(ge=0, le=5)] = 1


class Status(ctrlhost.ModelStatus):
    readyReplicas: int = 0  # noqa: N815 - Kubernetes' name


@ctrlhost.resource("cache.example.com/v1")
class Memcached(ctrlhost.Model[Spec, Status]):
    """A set of memcached servers."""


@pytest.fixture
def host(ctrlhost_host) -> HostUnderTest:
    started: HostUnderTest = ctrlhost_host(plugin_of(lambda plugin: None))
    return started


def memcached(name: str, size: int) -> Memcached:
    return Memcached(metadata=ctrlhost.ObjectMeta(name=name), spec=Spec(size))


@behaviour("authoring/AT8")
def test_a_struct_gives_structs_and_other_kinds_give_objects(host: HostUnderTest) -> None:
    host.apply(crd("cache.example.com", "Memcached"), memcached("cache", 3))
    cache = host.get(Memcached, "cache")
    assert type(cache) is Memcached
    assert (cache.spec, cache.metadata.name, cache.metadata.namespace) == (Spec(3), "cache", "default")
    assert cache.status is None
    patched = host.patch(Memcached, "cache", {"spec": {"size": 4}, "status": {"readyReplicas": 2}})
    assert patched.spec.size == 4
    assert patched.status == Status(readyReplicas=2)
    assert [obj.spec.size for obj in host.list(Memcached)] == [4]
    assert host.find(Memcached, "cache") == patched
    assert host.find(Memcached, "other") is None
    for kind in ("cache.example.com/v1/Memcached", ("cache.example.com/v1", "Memcached")):
        untyped = host.get(kind, "cache")
        assert type(untyped) is ctrlhost.Object
        assert untyped["spec"] == {"size": 4}
        assert [obj.name for obj in host.list(kind)] == ["cache"]
    host.delete(Memcached, "cache")
    with pytest.raises(NotFound, match="cache"):
        host.get(Memcached, "cache")
    with pytest.raises(NotFound, match="cache"):
        host.delete(Memcached, "cache")


def test_an_unserved_kind_is_an_error_with_the_nearest_name(host: HostUnderTest) -> None:
    for read in (lambda: host.get("apps/v1/Deploymnet", "a"), lambda: host.find("apps/v1/Deploymnet", "a")):
        with pytest.raises(UnknownKind, match="did you mean `Deployment`"):
            read()
    with pytest.raises(UnknownKind, match="did you mean `Deployment`"):
        host.list("apps/v1/Deploymnet")


@behaviour("authoring/AT8")
@pytest.mark.slow
def test_mypy_knows_the_types(tmp_path: Path) -> None:
    test = tmp_path / "test_types.py"
    test.write_text(
        dedent("""
            from typing import assert_type
            import ctrlhost
            import msgspec
            from ctrlhost_sandbox import Sandbox
            from ctrlhost.testing import HostUnderTest, ManualClock, Run, StartHost, StartProxy, Write

            class Spec(msgspec.Struct, frozen=True):
                size: int = 1

            @ctrlhost.resource("cache.example.com/v1")
            class Memcached(ctrlhost.Model[Spec, None], frozen=True):
                pass

            def test(ctrlhost_host: StartHost, manual_clock: ManualClock, sandbox: Sandbox, faults: StartProxy) -> None:
                host = ctrlhost_host("plugin", clock=manual_clock, server=sandbox, through=faults())
                assert_type(host, HostUnderTest)
                assert_type(host.get(Memcached, "a"), Memcached)
                assert_type(host.get(Memcached, "a").spec.size, int)
                assert_type(host.find(Memcached, "a"), Memcached | None)
                assert_type(host.list(Memcached), list[Memcached])
                assert_type(host.patch(Memcached, "a", {}), Memcached)
                assert_type(host.get("v1/Pod", "a"), ctrlhost.Object)
                assert_type(host.list(("v1", "Pod")), list[ctrlhost.Object])
                assert_type(host.runs("c"), list[Run])
                assert_type(host.writes(), list[Write])
                host.get(Memcached, "a").spec.sise  # type: ignore[attr-defined]
                host.settle(allow=("waitng",))  # type: ignore[arg-type]
        """)
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--warn-unused-ignores", str(test)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@behaviour("authoring/AT9")
def test_files_texts_mappings_and_models_are_applied_in_order(host: HostUnderTest, tmp_path: Path) -> None:
    file = tmp_path / "objects.yaml"
    file.write_text(
        dedent("""
            apiVersion: v1
            kind: Namespace
            metadata: {name: other}
            ---
            # Needs the namespace.
            apiVersion: v1
            kind: ConfigMap
            metadata: {name: inside, namespace: other}
            ---
            ---
            apiVersion: v1
            kind: List
            items:
            - {apiVersion: v1, kind: ConfigMap, metadata: {name: listed}}
        """)
    )
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: written}\ndata: {a: b}\n"
    flow = '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "flow"}}'
    everything = (file, str(file), text, flow, config_map("mapped"), crd("cache.example.com", "Memcached"))
    for _ in range(2):
        applied = host.apply(*everything, memcached("model", 2))
        assert [obj.name for obj in applied] == [
            *("other", "inside", "listed", "other", "inside", "listed"),
            *("written", "flow", "mapped", "memcacheds.cache.example.com", "model"),
        ]
        assert [obj.namespace for obj in applied[:3]] == ["", "other", "default"]
    assert host.get("v1/ConfigMap", "written")["data"] == {"a": "b"}
    assert host.get(Memcached, "model").spec.size == 2
    assert {obj.name for obj in host.list("v1/ConfigMap", everywhere=True)} >= {"inside", "listed", "mapped"}
    assert [obj.name for obj in host.list("v1/ConfigMap", "other") if not obj.name.startswith("kube-")] == ["inside"]
    again = host.apply(host.get("v1/ConfigMap", "written").to_dict() | {"metadata": {"name": "written"}})
    assert again[0].resource_version == applied[6].resource_version


def test_a_generated_name_is_created_each_time(host: HostUnderTest) -> None:
    pod = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "job-"}}
    names = {host.apply(pod)[0].name for _ in range(2)}
    assert len(names) == 2
    assert all(name.startswith("job-") for name in names)


@pytest.mark.parametrize(
    ("what", "error", "message"),
    [
        (
            3,
            TypeError,
            "an object is a path, a YAML text, a mapping or a model: an object must be a mapping or a model, got 3",
        ),
        ("a: b\n- c\n", ValueError, "the text: invalid YAML: while parsing"),
        ("- a\n- b\n", ValueError, "the text: a document is no object but list"),
        ("missing.yaml", FileNotFoundError, "missing.yaml"),
    ],
)
def test_what_is_no_object_is_refused(host: HostUnderTest, what: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        host.apply(what)


@pytest.mark.parametrize("text", ["a: [", "", "x" * 300])
def test_a_text_of_one_line_is_explained_to_be_a_path(host: HostUnderTest, text: str) -> None:
    with pytest.raises(OSError, match=r"No such file|Is a directory|name too long") as caught:
        host.apply(text)
    assert caught.value.__notes__ == [
        "a string of one line is a path; a YAML text has several lines, or begins with `{`"
    ]


def test_a_snapshot_of_nothing_is_an_error(host: HostUnderTest) -> None:
    with pytest.raises(ValueError, match="at least one kind"):
        host.snapshot()


def test_controllers_of_the_sandbox_are_no_overrides(ctrlhost_host) -> None:
    with pytest.raises(TypeError, match=r"sandbox's own.*server=Sandbox\(controllers="):
        ctrlhost_host(plugin_of(lambda plugin: None), controllers=("gc",))


@behaviour("authoring/AT14")
def test_snapshots_of_equal_objects_are_equal(ctrlhost_host, host: HostUnderTest) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s"},
        "spec": {"type": "NodePort", "selector": {"app": "d"}, "ports": [{"port": 80}]},
    }
    headless = {**service, "metadata": {"name": "h"}, "spec": {"clusterIP": "None", "ports": [{"port": 80}]}}
    generated = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "g-"}}
    written_at = {"applied.ctrlhost.dev/demo": "0123456789abcdef"}
    kinds = ("apps/v1/Deployment", "v1/Service", "v1/ConfigMap")
    texts = []
    for number, tested in enumerate((host, ctrlhost_host(plugin_of(lambda plugin: None)))):
        tested.sandbox.advance(1000 * number)
        if number:
            tested.apply(config_map("before"))
            tested.delete("v1/ConfigMap", "before")
        owned = deployment("d") | {"metadata": {"name": "d", "annotations": written_at if number else {}}}
        (owner,) = tested.apply(owned)
        tested.apply(headless, service)
        times = {"lastTransitionTime": f"2026-01-0{number + 1}T00:00:00Z", "lastUpdateTime": "2026-01-01T00:00:00Z"}
        condition = {"type": "Available", "status": "True", "reason": "R", "message": "m", **times}
        status = {"status": {"observedGeneration": number + 1, "conditions": [condition]}}
        tested.patch("apps/v1/Deployment", "d", status, subresource="status")
        reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": owner.uid}
        contents = [{"data": {"n": "one", "at": "2026-01-01T00:00:00Z"}}, {"data": {"n": "two"}}]
        for content in reversed(contents) if number else contents:
            metadata = {**generated["metadata"], "ownerReferences": [reference]}
            (config,) = tested.apply({**generated, "metadata": metadata, **content})
            if content["data"]["n"] == "one":
                tested.apply(config_map("names", names=config.name, exact="no"))
        tested.settle()
        texts.append(tested.snapshot(*kinds))
    assert texts[0] == texts[1]
    text = texts[0]
    for gone in ("uid", "resourceVersion", "eneration", "managedFields", "Time", "nodePort", "applied.ctrlhost.dev"):
        assert gone not in text
    assert "name: g-1\n" in text
    assert "names: g-1\n" in text
    assert "name: g-2\n" in text
    assert "at: '2026-01-01T00:00:00Z'" in text
    assert "clusterIP: None" in text
    assert text.count("clusterIP:") == 1
    assert "kube-root-ca.crt" not in text
    host.patch("apps/v1/Deployment", "d", {"spec": {"replicas": 7}})
    assert host.snapshot(*kinds) != text
    with pytest.raises(UnknownKind, match="did you mean `Deployment`"):
        host.snapshot("apps/v1/Deploymnet")


def test_a_crd_whose_names_are_taken_fails_with_the_reason(host: HostUnderTest) -> None:
    old, renamed = crd("kopf.example.com", "Evc"), crd("kopf.example.com", "Evcx")
    for body in (old, renamed):
        body["spec"]["names"]["shortNames"] = ["evc"]
    host.apply(old)
    refused = 'CRD evcxs.kopf.example.com: the server does not accept its names: "evc" is already in use'
    with pytest.raises(CtrlhostError, match=refused) as caught:
        host.apply(renamed)
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("another CRD of kopf.example.com has them")
    renamed["spec"]["names"]["shortNames"] = ["ex"]
    host.apply(renamed)
    assert host.list("kopf.example.com/v1/Evcx") == []
