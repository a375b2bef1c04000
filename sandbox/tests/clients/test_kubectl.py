"""kubectl with verified TLS: the same output on the sandbox and on a real kube-apiserver."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
from ctrlhost_sandbox.registry.builtin import builtin_kinds

from sandbox.tests.clients.comparison import Comparison
from sandbox.tests.clients.shell import BUILT, KUBECTLS, Run, Shell, compare_shells
from sandbox.tests.clients.widgets import define, group, ingress, service, widget
from tests.support.objects import config_map, deployment


@pytest.fixture(params=KUBECTLS)
def run(request: pytest.FixtureRequest, compare: Comparison, tmp_path: Path) -> Run:
    """Return a function that compares the output of commands on both servers, for each available kubectl."""
    return lambda name, steps: compare_shells(compare, request.param, tmp_path, name, steps)


@pytest.mark.behaviour("sandbox/EE-01")
def test_get_in_all_output_formats(run: Run) -> None:
    def steps(k: Shell) -> None:
        kind = define(k)
        labelled = config_map("a")
        labelled["metadata"]["labels"] = {"tier": "x"}
        objects = [
            labelled,
            config_map("b", {"k": "w", "l": "m"}),
            widget(k, size=3, color="red"),
            service(),
            ingress(),
        ]
        k("create", "-f", "-", objects=[*objects, deployment("web", replicas=0)])
        several = f"configmap/a,service/svc,ingress/web,deployment/web,{kind}/w".split(",")
        for form in ("wide", "yaml", "json", "name"):
            k("get", *several, "-o", form)
        k("get", *several, "-o", "yaml", "--show-managed-fields")
        k("get", *several)
        k("get", kind, "-o", "jsonpath={.items[*].spec.size}")
        k("get", "configmaps", "-l", "tier=x", "-o", "jsonpath={range .items[*]}{.metadata.name}{end}")
        k("get", "configmaps", "-l", "tier in (x)", "--show-labels")
        k("get", "configmaps", "--field-selector", "metadata.name=b", "-o", "go-template={{len .items}}")
        k(
            "get",
            "configmaps",
            "--sort-by",
            "{.metadata.name}",
            "-o",
            "custom-columns=N:.metadata.name,D:.data",
            "-l",
            "!none",
        )
        k("get", "configmaps", "--chunk-size=1", "-L", "tier", "--field-selector", "metadata.name!=kube-root-ca.crt")
        k("get", "all", "-o", "name")
        k("get", "configmap", "none", code=1)
        k("get", "nonesuch", code=1)
        k("get", "configmaps", "-l", "a=(", code=1)
        k("get", "configmaps", "--field-selector", "data.k=v", code=1)
        k("get", "deployment", "web", "--subresource=scale")
        k("get", "deployment", "web", "--subresource=status", "-o", "jsonpath={.spec.replicas}")
        k("get", kind, "w", "--subresource=scale", "-o", "yaml")
        k("get", "--raw", f"/apis/{group(k)}/v1")
        k("get", "--raw", "/api/v1/namespaces/none-such/pods?limit=x", code=1)
        k("get", "crd", kind)
        k("get", "crd", kind, "-o", "yaml")

    run("get", steps)


@pytest.mark.behaviour("sandbox/EE-01")
def test_describing(run: Run) -> None:
    def steps(k: Shell) -> None:
        kind = define(k)
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"k": "v"}}
        objects = [config_map("a"), secret, widget(k, size=3), service(clusterIP="None"), ingress()]
        k("create", "-f", "-", objects=[*objects, deployment("web", replicas=0, paused=True)])
        k("create", "serviceaccount", "robot")
        k("create", "role", "reader", "--verb=get,list", "--resource=pods")
        k("create", "rolebinding", "reads", "--role=reader", "--serviceaccount=default:robot")
        for what in ("configmap/a", "secret/s", f"{kind}/w", "service/svc", "ingress/web", "deployment/web"):
            k("describe", what)
        for what in ("serviceaccount/robot", "role/reader", "rolebinding/reads", f"namespace/{k.server.namespace}"):
            k("describe", what)
        k("describe", "configmap", "none", code=1)

    run("describe", steps)


@pytest.mark.behaviour("sandbox/EE-01")
@pytest.mark.behaviour("sandbox/EE-02")
def test_commands_about_the_server(run: Run) -> None:
    served = {kind.plural for kind in builtin_kinds()} | {"widgets"}
    head = ("KIND", "VERSION", "FIELD", "GROUP")

    def steps(k: Shell) -> None:
        kind = define(k)
        k("version", "-o", "yaml", only=lambda line: "git" in line or "jor" in line)
        k("api-resources", "-o", "wide", only=lambda line: line.split(" ")[0] in served)
        k("api-resources", "--api-group=apps", "-o", "name")
        k("api-resources", "--namespaced=false", "--verbs=delete", only=lambda line: line.split(" ")[0] in served)
        k("explain", f"{kind}.spec")
        k("explain", kind, "--recursive")
        k("explain", "deployment.spec.replicas", only=lambda line: line.startswith(head))
        k("explain", "deployment.spec.nonesuch", code=1)
        k("auth", "can-i", "create", "pods")
        k("auth", "can-i", "create", "deployments.apps/scale", "--subresource=scale")
        k("auth", "can-i", "get", "/healthz")
        k("auth", "whoami", only=lambda line: "Groups" in line)
        k("events")
        k("get", "--raw", "/readyz")
        k("get", "--raw", "/livez")
        k("cluster-info", only=lambda line: "control plane" in line)

    run("information", steps)


@pytest.mark.behaviour("sandbox/EE-02")
def test_creating_by_command(run: Run) -> None:
    def steps(k: Shell) -> None:
        ns = k.server.namespace
        k("create", "configmap", "c", "--from-literal=a=b", "-o", "yaml")
        k("create", "configmap", "c", "--from-literal=a=b", code=1)
        k("create", "secret", "generic", "s", "--from-literal=a=b", "-o", "yaml")
        k("create", "secret", "docker-registry", "d", "--docker-username=u", "--docker-password=p", "-o", "yaml")
        k("create", "deployment", "d", "--image=example.org/main:1", "--replicas=0", "-o", "yaml")
        k("create", "service", "clusterip", "s", "--tcp=80:8080", "-o", "yaml")
        k("create", "service", "nodeport", "np", "--tcp=80:8080", "-o", "yaml")
        k("create", "service", "externalname", "en", "--external-name=a.example.org", "-o", "yaml")
        k("create", "ingress", "i", "--rule=a.example.org/x=s:80,tls=t", "-o", "yaml")
        k("create", "serviceaccount", "sa", "-o", "yaml")
        k("create", "role", "r", "--verb=get", "--resource=pods", "-o", "yaml")
        k("create", "rolebinding", "rb", "--role=r", "--serviceaccount=default:default", "-o", "yaml")
        k("create", "clusterrole", f"{ns}-cr", "--verb=get", "--resource=pods", "-o", "yaml")
        k("create", "clusterrolebinding", f"{ns}-crb", f"--clusterrole={ns}-cr", "--user=u", "-o", "yaml")
        k("get", "ingress,secret,sa,role,rolebinding,services", "-o", "wide")
        k("delete", "clusterrole,clusterrolebinding", f"{ns}-cr", f"{ns}-crb", code=1)
        k("expose", "deployment", "d", "--port=80", "--name=ex", "-o", "yaml")
        k("run", "p", "--image=example.org/run", "--dry-run=server", "-o", "yaml")
        k("create", "namespace", f"{ns}-made", "-o", "yaml")
        # Its end takes a real server 5 s.
        k("delete", "namespace", f"{ns}-made", "--wait=false")
        k("create", "deployment", "UPPER", "--image=x", code=1)
        k("create", "-f", "-", objects=[config_map("a", {"bad key": "v"})], code=1)
        k("create", "-f", "-", objects=[{**config_map("a"), "kind": "Nonesuch"}], code=1)

    run("create", steps)


@pytest.mark.behaviour("sandbox/EE-01")
@pytest.mark.parametrize("form", ["wide", "json", "name"])
def test_watching(compare: Comparison, tmp_path: Path, form: str) -> None:
    def steps(k: Shell) -> None:
        k("create", "configmap", "first", "--from-literal=k=v")
        words = ["get", "configmaps", "-w", "-o", form, "--output-watch-events", "--request-timeout=20s"]
        command = [
            *k.kubectl,
            "-n",
            k.server.namespace,
            *words,
            "-l",
            "!none",
            "--field-selector",
            "metadata.name!=kube-root-ca.crt",
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=k.environment()) as process:
            assert process.stdout is not None
            seen = lines_until(process.stdout, "first")
            k.run("create", "configmap", "second", "--from-literal=k=v")
            k.run("label", "configmap", "second", "a=b")
            k.run("delete", "configmap", "second")
            # The name alone is the same in each event.
            seen += lines_until(process.stdout, *(("second", 3) if form == "name" else ("DELETED",)))
            process.terminate()
            seen += process.stdout.readlines() if form == "json" else []
        k.server.note(f"get -w -o {form}", "".join(seen))

    compare_shells(compare, BUILT, tmp_path, "watch", steps)


def lines_until(lines: Iterable[str], word: str, times: int = 1) -> list[str]:
    """Return the lines up to the first with the word, or up to a later one."""
    seen = []
    for line in lines:
        seen.append(line)
        times -= word in line
        if not times:
            break
    return seen
