"""A stock kubectl against the sandbox, over TLS with verification on."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from ctrlhost_sandbox import Sandbox

from sandbox.tests.conftest import Crd
from tests.support.control_plane import BINARY
from tests.support.http_client import Api
from tests.support.objects import config_map, core, deployment

# The installed kubectl, or the one built with the real control plane.
_INSTALLED = shutil.which("kubectl")
KUBECTL = [_INSTALLED] if _INSTALLED else [str(BINARY), "kubectl"]

pytestmark = pytest.mark.skipif(
    _INSTALLED is None and not BINARY.exists(),
    reason="kubectl is neither installed nor built; `make real-tools` builds it",
)

Kubectl = Callable[..., str]


@pytest.fixture
def kubectl(server: Sandbox, ns: str, tmp_path: Path) -> Kubectl:
    """Run kubectl in the test's namespace with its own cache; `objects` are passed on stdin."""
    environment = {**os.environ, "KUBECONFIG": str(server.kubeconfig), "HOME": str(tmp_path), "KUBE_EDITOR": "true"}

    def run(*words: str, objects: list[dict[str, Any]] | None = None, code: int = 0, editor: str = "true") -> str:
        text = yaml.safe_dump_all(objects) if objects is not None else None
        done = subprocess.run(
            [*KUBECTL, "-n", ns, *words],
            input=text,
            capture_output=True,
            text=True,
            timeout=60,
            env={**environment, "KUBE_EDITOR": editor},
            cwd=tmp_path,
        )
        assert done.returncode == code, (words, done.stdout[-2000:], done.stderr[-2000:])
        return done.stdout + done.stderr

    return run


@pytest.mark.behaviour("sandbox/EE-01")
def test_reading_commands(kubectl: Kubectl, api: Api, ns: str, widgets: Crd) -> None:
    api.post(widgets.path(ns), widgets.obj(size=1)).expect(201)
    api.post(core(ns, "configmaps"), config_map()).expect(201)
    assert "Server Version: v1." in kubectl("version")
    assert "widgets" in kubectl("api-resources")
    assert "size" in kubectl("explain", f"widgets.{widgets.group}.spec")
    assert "containers" in kubectl("explain", "deployment.spec.template.spec")
    assert "Widget" in kubectl("get", f"widgets.{widgets.group}", "-o", "yaml")
    assert kubectl("get", f"widgets.{widgets.group}", "-o", "jsonpath={.items[*].spec.size}") == "1"
    assert "a " in kubectl("get", "configmaps", "-o", "wide")
    assert "Namespace:" in kubectl("describe", "configmap", "a")
    assert "Status:" in kubectl("describe", "namespace", ns)
    assert kubectl("get", "configmap", "a", "-o", "name").strip() == "configmap/a"
    assert "No events found" in kubectl("events")
    assert "NotFound" in kubectl("get", "configmap", "none", code=1)


@pytest.mark.behaviour("sandbox/EE-01")
def test_writing_commands(kubectl: Kubectl, api: Api, ns: str, widgets: Crd) -> None:
    kind = f"widgets.{widgets.group}"
    deploy = deployment(replicas=0)
    objects = [config_map("a"), widgets.obj("w", size=1), deploy]
    assert kubectl("create", "-f", "-", objects=[config_map("c"), widgets.obj("c")]).count("created") == 2
    assert kubectl("apply", "-f", "-", objects=objects).count("created") == 3
    assert kubectl("apply", "-f", "-", objects=objects).count("unchanged") == 3
    changed = [config_map("a", {"k": "w"}), widgets.obj("w", size=2), deployment("d", replicas=0, paused=True)]
    assert "size: 2" in kubectl("diff", "-f", "-", objects=changed, code=1)
    assert kubectl("apply", "-f", "-", objects=changed).count("configured") == 3
    assert kubectl("diff", "-f", "-", objects=changed) == ""
    assert "no changes made" in kubectl("edit", "configmap", "a")
    assert "edited" in kubectl("edit", "configmap", "a", editor="sed -i s/k:.w/k:\\ z/")
    assert api.get(core(ns, "configmaps", "a")).json()["data"] == {"k": "z"}
    kubectl("annotate", kind, "w", "note=y")
    kubectl("scale", "deployment", "d", "--replicas=2")
    kubectl("scale", "deployment", "d", "--replicas=0", "--current-replicas=2")
    kubectl("patch", "deployment", "d", "-p", '{"metadata":{"labels":{"a":"b"}}}')
    kubectl("patch", kind, "w", "--type=merge", "-p", '{"spec":{"color":"red"}}')
    kubectl("patch", kind, "w", "--type=json", "-p", '[{"op":"replace","path":"/spec/size","value":7}]')
    kubectl("replace", "-f", "-", objects=[config_map("a", {"k": "r"})])
    kubectl("wait", kind, "w", "--for=jsonpath={.spec.size}=7", "--timeout=20s")
    assert "unknown field" in kubectl("create", "-f", "-", objects=[deployment("x", foo=1)], code=1)
    assert "created" in kubectl("create", "--dry-run=server", "-f", "-", objects=[config_map("dry")])
    kubectl("label", "configmap", "a", "tier=x")
    kubectl("delete", "configmap", "-l", "tier=x")
    kubectl("wait", "configmap", "a", "--for=delete", "--timeout=20s")
    kubectl("delete", kind, "--all")
    kubectl("delete", "deployment", "d", "--cascade=foreground")


@pytest.mark.behaviour("sandbox/EE-02")
def test_creating_by_command(kubectl: Kubectl, ns: str) -> None:
    kubectl("create", "namespace", f"{ns}-made")
    kubectl("create", "configmap", "c", "--from-literal=a=b")
    kubectl("create", "secret", "generic", "s", "--from-literal=a=b")
    kubectl("create", "deployment", "d", "--image=nginx:1", "--replicas=0")
    kubectl("create", "service", "clusterip", "s", "--tcp=80:80")
    kubectl("create", "service", "loadbalancer", "lb", "--tcp=80:80")
    kubectl("create", "ingress", "i", "--rule=a.example.org/x=s:80")
    kubectl("create", "serviceaccount", "sa")
    kubectl("create", "role", "r", "--verb=get", "--resource=pods")
    kubectl("create", "rolebinding", "rb", "--role=r", "--serviceaccount=default:default")
    kubectl("create", "clusterrole", f"{ns}-cr", "--verb=get", "--resource=pods")
    kubectl("delete", "clusterrole", f"{ns}-cr")
    assert kubectl("auth", "can-i", "create", "pods").strip() == "yes"
    assert "*.*" in kubectl("auth", "can-i", "--list")
    assert "sandbox-admin" in kubectl("auth", "whoami")
    assert "<pending>" in kubectl("get", "services")
    assert "a.example.org" in kubectl("get", "ingress,secret,sa,role,rolebinding")
    kubectl("delete", "namespace", f"{ns}-made")


@pytest.mark.behaviour("sandbox/EE-03")
@pytest.mark.behaviour("sandbox/SA-11")
def test_server_side_apply(kubectl: Kubectl, api: Api, ns: str) -> None:
    first, second = deployment("d", replicas=0), deployment("d", replicas=1, paused=True)
    kubectl("apply", "--server-side", "-f", "-", objects=[first])
    text = kubectl("apply", "--server-side", "--field-manager=other", "-f", "-", objects=[second], code=1)
    assert "Apply failed with 1 conflict" in text
    assert ".spec.replicas" in text
    kubectl("apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", "-", objects=[second])
    kubectl("apply", "-f", "-", objects=[config_map("m", {"k": "v"})])
    kubectl("apply", "--server-side", "-f", "-", objects=[config_map("m", {"k": "w"})])
    entries = api.get(core(ns, "configmaps", "m")).json()["metadata"]["managedFields"]
    owners = [(entry["manager"], entry["operation"]) for entry in entries]
    assert ("kubectl", "Apply") in owners
    assert ("kubectl-client-side-apply", "Update") not in owners


@pytest.mark.behaviour("sandbox/CD-31")
@pytest.mark.parametrize("categories", [["all"], []])
def test_short_names_and_categories(
    kubectl: Kubectl, api: Api, ns: str, make_crd: Callable[..., Crd], categories: list[str]
) -> None:
    short = f"s{ns.removeprefix('t-')}"
    crd = make_crd(names={"shortNames": [short], "categories": categories}).establish()
    api.post(crd.path(ns), crd.obj("w")).expect(201)
    assert kubectl("get", short, "-o", "name") == f"widget.{crd.group}/w\n"
    in_all = f"widget.{crd.group}/w" in kubectl("get", "all", "-o", "name").splitlines()
    assert in_all == bool(categories)


@pytest.mark.behaviour("sandbox/RO-05")
def test_without_tls_kubectl_needs_no_token(tmp_path: Path) -> None:
    with Sandbox(insecure_http=True) as sandbox:
        (user,) = yaml.safe_load(sandbox.kubeconfig.read_text())["users"]
        assert "token" not in user["user"]
        environment = {**os.environ, "KUBECONFIG": str(sandbox.kubeconfig), "HOME": str(tmp_path)}
        command = [*KUBECTL, "get", "namespaces", "-o", "name"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "namespace/default" in done.stdout.splitlines()


@pytest.mark.behaviour("sandbox/EE-12")
def test_a_new_kind_is_found_with_a_warm_cache(kubectl: Kubectl, make_crd: Callable[..., Crd]) -> None:
    kubectl("api-resources")
    crd = make_crd(names={"plural": "fresh", "kind": "Fresh", "shortNames": ["fr"]})
    kubectl("create", "-f", "-", objects=[crd.body])
    kubectl("wait", "crd", crd.name, "--for=condition=Established", "--timeout=20s")
    kubectl("create", "-f", "-", objects=[crd.obj("f")])
    assert "f " in kubectl("get", f"fresh.{crd.group}")


def test_kubectl_watches(kubectl: Kubectl, server: Sandbox, ns: str, api: Api, tmp_path: Path) -> None:
    api.post(core(ns, "configmaps"), config_map("a")).expect(201)
    environment = {**os.environ, "KUBECONFIG": str(server.kubeconfig), "HOME": str(tmp_path)}
    command = [*KUBECTL, "-n", ns, "get", "configmaps", "-w", "-o", "name"]
    command += ["--field-selector", "metadata.name!=kube-root-ca.crt"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "configmap/a"
        api.post(core(ns, "configmaps"), config_map("b")).expect(201)
        assert process.stdout.readline().strip() == "configmap/b"
        process.terminate()
