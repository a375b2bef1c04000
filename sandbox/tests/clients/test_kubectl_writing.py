"""kubectl writes and deletes: the same output and the same stored objects on both servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sandbox.tests.clients.comparison import Comparison
from sandbox.tests.clients.shell import BUILT, KUBECTLS, Run, Shell, compare_shells
from sandbox.tests.clients.widgets import define, service, widget
from tests.support.objects import config_map, container, deployment


@pytest.mark.behaviour("sandbox/EE-01")
@pytest.mark.behaviour("sandbox/EE-03")
@pytest.mark.parametrize("kubectl", KUBECTLS)
def test_applying(compare: Comparison, tmp_path: Path, kubectl: list[str]) -> None:
    def steps(k: Shell) -> None:
        kind = define(k)
        objects = [config_map("a"), widget(k, size=1), deployment("web", replicas=0), service()]
        k("apply", "-f", "-", objects=objects)
        k("apply", "-f", "-", objects=objects)
        ports = container("a", ports=[{"containerPort": 80}, {"containerPort": 81, "protocol": "UDP"}])
        changed = [config_map("a", {"k": "w"}), widget(k, size=2), deployment("web", ports, replicas=0), service()]
        k(
            "diff",
            "-f",
            "-",
            objects=changed,
            code=1,
            only=_changed,
        )
        k("apply", "--dry-run=server", "-f", "-", "-o", "yaml", objects=changed)
        k("apply", "-f", "-", objects=changed)
        k("diff", "-f", "-", objects=changed)
        k("apply", "view-last-applied", "configmap", "a")
        k("apply", "--server-side", "-f", "-", objects=changed)
        k("apply", "--server-side", "-f", "-", objects=[deployment("ssa", replicas=0)])
        k("apply", "--server-side", "--field-manager=other", "-f", "-", objects=[deployment("ssa", replicas=1)], code=1)
        forced = ("apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", "-")
        k(*forced, "-o", "yaml", "--show-managed-fields", objects=[deployment("ssa", ports, replicas=0, paused=True)])
        k(
            "diff",
            "--server-side",
            "-f",
            "-",
            objects=[config_map("a", {"k": "x"})],
            code=1,
            only=_changed,
        )
        several = ("configmap/a", f"{kind}/w", "deployment/web", "deployment/ssa")
        k("get", *several, "-o", "yaml", "--show-managed-fields")
        k("apply", "--server-side", "-f", "-", objects=[{**config_map("a"), "nonesuch": 1}], code=1)
        k("apply", "-f", "-", objects=[deployment("web", replicas="many")], code=1)
        k("apply", "--validate=strict", "-f", "-", objects=[{**config_map("a"), "nonesuch": 1}], code=1)
        k("apply", "--validate=warn", "-f", "-", objects=[{**config_map("a"), "nonesuch": 1}])

    compare_shells(compare, kubectl, tmp_path, "apply", steps)


@pytest.mark.behaviour("sandbox/EE-01")
def test_changing(run: Run) -> None:
    def steps(k: Shell) -> None:
        kind = define(k)
        two = [container("a"), container("b", image="example.org/b:1")]
        k("create", "-f", "-", objects=[config_map("a"), widget(k, size=1), deployment("web", *two, replicas=0)])
        k("edit", "configmap", "a")
        k("edit", "configmap", "a", editor="sed -i s/k:.v/k:\\ z/")
        k("edit", kind, "w", editor="sed -i s/size:.1/size:\\ -1/", code=1, only=lambda line: "invalid" in line)
        k("label", "configmap", "a", "tier=x")
        k("label", "configmap", "a", "tier=y", code=1)
        k("label", "configmap", "a", "tier=y", "--overwrite", "other=z")
        k("label", "configmap", "a", "tier-", "bad=not a value", code=1)
        k("annotate", kind, "w", "note=something to read")
        k("annotate", "configmap", "--all", "seen=yes", only=lambda line: "/a" in line)
        k("scale", "deployment", "web", "--replicas=2", "--current-replicas=9", code=1)
        k("scale", "deployment", "web", "--replicas=0", "--current-replicas=0")
        k("scale", kind, "w", "--replicas=4")
        k(
            "patch",
            "deployment",
            "web",
            "-p",
            '{"spec":{"template":{"spec":{"containers":[{"$patch":"delete","name":"b"}]}}}}',
        )
        k(
            "patch",
            "deployment",
            "web",
            "-p",
            '{"spec":{"strategy":{"$retainKeys":["type"],"type":"Recreate"}}}',
            "-o",
            "yaml",
        )
        k("patch", kind, "w", "-p", '{"spec":{"size":2}}', code=1)
        k("patch", kind, "w", "--type=merge", "-p", '{"spec":{"color":"red"}}')
        k("patch", kind, "w", "--type=merge", "-p", '{"spec":{"color":null,"size":null}}', code=1)
        k("patch", kind, "w", "--type=merge", "-p", '{"spec":{"size":"big"}}', code=1)
        k("patch", kind, "w", "--type=json", "-p", '[{"op":"replace","path":"/spec/size","value":7}]')
        k("patch", kind, "w", "--type=json", "-p", '[{"op":"test","path":"/spec/size","value":8}]', code=1)
        k("patch", kind, "w", "--type=json", "-p", '[{"op":"remove","path":"/spec/none"}]', code=1)
        k(
            "patch",
            kind,
            "w",
            "--subresource=status",
            "--type=merge",
            "-p",
            '{"status":{"replicas":1},"spec":{"size":0}}',
        )
        k("patch", "deployment", "web", "-p", '{"spec":{"selector":{"matchLabels":{"app":"other"}}}}', code=1)
        k("patch", "configmap", "none", "-p", "{}", code=1)
        k("patch", "configmap", "a", "-p", '{"data":{"k":5}}', code=1)
        k("patch", "configmap", "a", "-p", '{"metadata":{"uid":"1"}}', code=1)
        k("patch", "configmap", "a", "--type=merge", "-p", '{"metadata":{"name":"b"}}', code=1)
        k("patch", "configmap", "a", "--type=json", "-p", '[{"op":"remove","path":""}]', code=1)
        k("patch", "configmap", "a", "--subresource=status", "-p", "{}", code=1)
        k("patch", "deployment", "web", "-p", '{"spec":{"replicas":"x"}}', code=1)
        k("patch", "deployment", "web", "-p", '{"spec":{"template":{"spec":{"containers":[{"image":"y"}]}}}}', code=1)
        k("patch", "deployment", "web", "--type=merge", "-p", '{"spec":{"template":null}}', code=1)
        k("create", "--validate=ignore", "-f", "-", objects=[{**config_map("x"), "data": {"k": 5}}], code=1)
        k("create", "--validate=ignore", "-f", "-", objects=[deployment("x", replicas="many")], code=1)
        k("get", "secrets", "--field-selector", "data=x", code=1)
        k("replace", "-f", "-", objects=[config_map("a", {"k": "r"})])
        k("replace", "-f", "-", objects=[config_map("none")], code=1)
        k("set", "image", "deployment/web", "a=example.org/a:2")
        k("set", "env", "deployment/web", "A=1", "B-")
        k("set", "resources", "deployment/web", "--limits=cpu=0.5,memory=1000Mi")
        k("wait", kind, "w", "--for=jsonpath={.spec.size}=7", "--timeout=20s")
        k("wait", kind, "w", "--for=condition=Ready", "--timeout=1s", code=1)
        k("create", "-f", "-", "--validate=strict", objects=[deployment("x", foo=1)], code=1)
        k("create", "-f", "-", "--validate=warn", "--dry-run=server", objects=[deployment("x", foo=1)])
        k("create", "-f", "-", "--validate=ignore", "--dry-run=server", objects=[deployment("x", foo=1)])
        k("create", "-f", "-", "--validate=strict", objects=[widget(k, "x", size=1, foo=1)], code=1)
        k("create", "-f", "-", objects=[deployment("x", container("a", image=""), replicas=-1)], code=1)
        k("create", "-f", "-", objects=[widget(k, "x", size=1, color=3)], code=1)
        k("get", "configmap/a", f"{kind}/w", "deployment/web", "-o", "yaml")

    run("change", steps)


@pytest.mark.behaviour("sandbox/EE-01")
def test_deleting(run: Run) -> None:
    def steps(k: Shell) -> None:
        kind = define(k)
        held = widget(k, "held", size=1)
        held["metadata"]["finalizers"] = ["example.org/hold"]
        k("create", "-f", "-", objects=[config_map("a"), config_map("b"), config_map("c"), held, widget(k, size=1)])
        k("delete", "configmap", "a", "--dry-run=server")
        k("delete", "configmap", "a", "b")
        k("delete", "configmap", "a", code=1)
        k("delete", "configmap", "a", "--ignore-not-found")
        k("label", "configmap", "c", "tier=x")
        k("delete", "configmap", "-l", "tier=x")
        k("wait", "configmap", "c", "--for=delete", "--timeout=20s")
        k("delete", kind, "held", "--wait=false")
        k("get", kind, "held", "-o", "yaml")
        k("delete", kind, "w", "--cascade=foreground")
        k("patch", kind, "held", "--type=merge", "-p", '{"metadata":{"finalizers":["example.org/other"]}}', code=1)
        k("patch", kind, "held", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        k("get", kind)
        for policy in ("background", "foreground", "orphan"):
            owner, owned = config_map(f"owner-{policy}"), config_map(f"owned-{policy}")
            k("create", "-f", "-", objects=[owner])
            uid = k.server.client.get("v1", "ConfigMap", f"owner-{policy}", k.server.namespace)["metadata"]["uid"]
            reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": f"owner-{policy}", "uid": uid}
            owned["metadata"]["ownerReferences"] = [{**reference, "blockOwnerDeletion": True}]
            k("create", "-f", "-", objects=[owned])
            k("delete", "configmap", f"owner-{policy}", f"--cascade={policy}")
            if policy == "orphan":
                k("get", "configmap", "owned-orphan", "-o", "yaml")
            else:
                k("wait", "configmap", f"owned-{policy}", "--for=delete", "--timeout=60s")
        k("delete", "crd", kind)
        k("get", kind, code=1)
        k("delete", "namespace", k.server.namespace, "--timeout=60s")
        k("delete", "namespace", "kube-system", code=1)

    run("delete", steps)


@pytest.mark.behaviour("sandbox/EE-04")
def test_workloads(run: Run) -> None:
    def steps(k: Shell) -> None:
        k("create", "deployment", "web", "--image=example.org/web:1", "--replicas=2")
        k("rollout", "status", "deployment/web", "--timeout=60s", only=_last)
        k("set", "image", "deployment/web", "web=example.org/web:2")
        k("rollout", "status", "deployment/web", "--timeout=60s", only=_last)
        k("rollout", "history", "deployment/web")
        k("rollout", "history", "deployment/web", "--revision=1")
        k("rollout", "undo", "deployment/web")
        k("rollout", "status", "deployment/web", "--timeout=60s", only=_last)
        k("rollout", "restart", "deployment/web")
        k("rollout", "status", "deployment/web", "--timeout=60s", only=_last)
        k("wait", "deployment", "web", "--for=condition=Available", "--timeout=60s")
        k("rollout", "pause", "deployment/web")
        k("rollout", "resume", "deployment/web")
        k("expose", "deployment", "web", "--port=80", "--target-port=8080")
        k("scale", "deployment", "web", "--replicas=1")
        k("rollout", "status", "deployment/web", "--timeout=60s", only=_last)
        k("get", "deployment", "web")
        k(
            "get",
            "replicasets",
            "-o",
            "custom-columns=D:.spec.replicas,R:.metadata.annotations",
            only=lambda line: " 1 " in line,
        )
        k("describe", "deployment", "web", "--show-events=false")
        stateful = {**deployment("set", replicas=2, serviceName="web"), "kind": "StatefulSet"}
        daemon = {**deployment("each"), "kind": "DaemonSet"}
        k("create", "-f", "-", objects=[stateful, daemon])
        for what in ("statefulset/set", "daemonset/each"):
            k("rollout", "status", what, "--timeout=60s", only=_last)
            k("rollout", "restart", what)
            k("rollout", "status", what, "--timeout=60s", only=_last)
            k("get", what, "-o", "wide")
        k("get", "statefulset", "set", "-o", "yaml")
        k("get", "daemonset", "each", "-o", "yaml")
        k("get", "pod", "set-0", "-o", "yaml")
        k("run", "one", "--image=example.org/run")
        k("wait", "pod", "one", "--for=condition=Ready", "--timeout=60s")
        k("get", "pod", "one", "-o", "wide")
        k("describe", "pod", "one", "--show-events=false", only=lambda line: "sandbox://" not in line)
        k("delete", "pod", "one", "--now")
        k("delete", "deployment,statefulset,daemonset", "--all", "--cascade=foreground", "--timeout=60s")
        k("get", "pods,replicasets")

    run("workloads", steps)


@pytest.mark.behaviour("sandbox/EE-04")
def test_logs_of_a_pod_that_ran_nothing(sandbox_server: Any, compare: Comparison, tmp_path: Path) -> None:
    k = Shell(BUILT, sandbox_server, tmp_path)
    assert k.run("run", "one", "--image=example.org/run")[0] == 0
    assert k.run("wait", "pod", "one", "--for=condition=Ready", "--timeout=60s")[0] == 0
    for options in ((), ("--tail=1",), ("-c", "one"), ("--previous",)):
        code, text = k.run("logs", "one", *options)
        assert code == 0, text
        assert text


def _changed(line: str) -> bool:
    """Select the contents of a diff; the file names differ."""
    return line[:1] in ("+", "-") and line[:3] not in ("+++", "---")


def _last(line: str) -> bool:
    """Select the final line of rollout status; the progress lines depend on timing."""
    return "Waiting" not in line and "waiting" not in line
