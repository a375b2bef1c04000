"""The tests of an author on a real kube-apiserver, in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import ctrlhost
from tests.support.control_plane import KubeApiserver
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[2]
PLUGIN = '''
    """A class of sizes for each Team, and a ConfigMap in the namespace of each of its members."""

    import ctrlhost
    import msgspec


    class Spec(msgspec.Struct, frozen=True):
        size: int = 1


    @ctrlhost.resource("teams.example.com/v1")
    class Team(ctrlhost.Model[Spec, None]):
        """A team."""


    CRD = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "teams.teams.example.com"},
        "spec": {
            "group": "teams.example.com",
            "scope": "Namespaced",
            "names": {"kind": "Team", "plural": "teams", "singular": "team", "listKind": "TeamList"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}},
                        }
                    },
                }
            ],
        },
    }


    @ctrlhost.hookimpl
    def ctrlhost_crds():
        return [CRD]


    @ctrlhost.hookimpl
    def ctrlhost_permissions(settings):
        return [
            ctrlhost.Permission("", ["configmaps"], ["create", "patch"]),
            ctrlhost.Permission("teams.example.com", ["teams/finalizers"], ["update"]),
            # One too many.
            ctrlhost.Permission("", ["pods"], ["delete"]),
            ctrlhost.Permission("scheduling.k8s.io", ["priorityclasses"], ["create", "patch"]),
        ]


    def reconcile(ctx, request):
        team = ctx.get(request)
        if team is None:
            return
        labels, name = {"team": team.name}, f"team-{team.namespace}-{team.name}"
        copied = ctx.lister("v1", "ConfigMap").get(team.name, team.namespace)
        data = {"size": str(team["spec"]["size"])}
        if copied is None or copied.to_dict().get("data") != data:
            ctx.client.apply(
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": team.name, "namespace": team.namespace, "labels": labels},
                    "data": data,
                },
                owner=team,
            )
            ctx.client.apply(
                {
                    "apiVersion": "scheduling.k8s.io/v1",
                    "kind": "PriorityClass",
                    "metadata": {"name": name, "labels": labels},
                    "value": 5,
                }
            )


    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        team = ctrlhost.For("teams.example.com/v1", "Team")
        plugin.add_controller("team", reconcile, team, ctrlhost.Owns("v1", "ConfigMap"))
'''
TESTS = """
    from pathlib import Path

    import ctrlhost
    import plugin_of_teams
    import pytest
    from ctrlhost.testing import HostUnderTest, ManualClock, StartHost, converges
    from plugin_of_teams import Spec, Team

    EXAMPLE = Path(__file__).parent / "team.yaml"


    @pytest.fixture
    def ctrlhost_least_privilege() -> bool:
        return True


    @pytest.fixture
    def host(ctrlhost_host: StartHost) -> HostUnderTest:
        host = ctrlhost_host(plugin_of_teams)
        host.apply(EXAMPLE)
        host.settle()
        return host


    def test_created(host):
        team = host.get(Team, "red")
        config_map = host.get("v1/ConfigMap", "red")
        assert config_map["data"] == {"size": "3"}
        assert config_map.owner_references[0].uid == team.metadata.uid
        classes = host.list("scheduling.k8s.io/v1/PriorityClass")
        (priority_class,) = [obj for obj in classes if obj.labels.get("team") == "red"]
        assert priority_class["value"] == 5


    def test_repaired(host):
        host.patch("v1/ConfigMap", "red", {"data": {"size": "100"}})
        host.settle()
        assert host.get("v1/ConfigMap", "red")["data"] == {"size": "3"}
        host.delete("v1/ConfigMap", "red")
        host.settle()
        assert host.get("v1/ConfigMap", "red")["data"] == {"size": "3"}


    def test_changed(host):
        host.patch(Team, "red", {"spec": {"size": 4}})
        host.settle()
        assert host.get("v1/ConfigMap", "red")["data"] == {"size": "4"}


    def test_deleted(host):
        host.delete(Team, "red")
        host.settle()
        assert host.find(Team, "red") is None


    def test_nothing_is_written_twice(host):
        before = len(host.writes())
        assert before == 2
        host.patch(Team, "red", {"metadata": {"labels": {"a": "b"}}})
        host.settle()
        assert len(host.writes()) == before


    def test_the_rights_are_the_least(host):
        host.patch("v1/ConfigMap", "red", {"data": {"size": "100"}})
        host.settle()
        assert host.unused_rights() == [("", "pods", "delete")]


    def test_retries_with_a_manual_clock(ctrlhost_host, manual_clock: ManualClock):
        host = ctrlhost_host(plugin_of_teams, clock=manual_clock)
        host.faults.next("apply", ctrlhost.ServerError("not now"), times=3)
        host.apply(Team(metadata=ctrlhost.ObjectMeta(name="blue"), spec=Spec(2)))
        host.settle(through="1m")
        assert host.get("v1/ConfigMap", "blue")["data"] == {"size": "2"}
        assert [run.result for run in host.runs("team", "blue")][:4] == ["error", "error", "error", "success"]


    def test_the_snapshot_is_that_of_a_sandbox(host):
        text = host.snapshot(Team, "v1/ConfigMap")
        assert text == (Path(__file__).parent / "expected.yaml").read_text()


    def test_convergence():
        def apply(host):
            host.apply(EXAMPLE)

        other = EXAMPLE.read_text().replace("red", "green")
        converges(plugin_of_teams, [apply, other], kinds=[Team, "v1/ConfigMap"], runs=2)
"""
EXAMPLE = """
    apiVersion: teams.example.com/v1
    kind: Team
    metadata:
      name: red
    spec:
      size: 3
"""
EXPECTED = """\
apiVersion: teams.example.com/v1
kind: Team
metadata:
  name: red
  namespace: default
spec:
  size: 3
---
apiVersion: v1
data:
  size: '3'
kind: ConfigMap
metadata:
  labels:
    team: red
  name: red
  namespace: default
  ownerReferences:
  - apiVersion: teams.example.com/v1
    blockOwnerDeletion: true
    controller: true
    kind: Team
    name: red
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in {"plugin_of_teams.py": PLUGIN, "test_teams.py": TESTS, "team.yaml": EXAMPLE}.items():
        (tmp_path / name).write_text(dedent(text).lstrip())
    (tmp_path / "expected.yaml").write_text(EXPECTED)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def run_tests(project: Path, *arguments: str) -> str:
    """Run the tests of a project as its author would, and return the last line."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "CTRLHOST", "KUBE"))}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    environment = kept | {"PYTHONPATH": f"{ROOT}:{project}"}
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.behaviour("authoring/AT12")
def test_the_tests_of_an_author_pass_unchanged(project: Path, own_kube_apiserver: KubeApiserver) -> None:
    client = own_kube_apiserver.client

    def names(api_version: str, kind: str) -> set[str]:
        return {obj["metadata"]["name"] for obj in client.list(api_version, kind)}

    def cluster_scoped() -> set[tuple[str, str]]:
        rbac, extensions = "rbac.authorization.k8s.io/v1", "apiextensions.k8s.io/v1"
        kinds = (
            *((rbac, "ClusterRole"), (rbac, "ClusterRoleBinding"), (extensions, "CustomResourceDefinition")),
            ("scheduling.k8s.io/v1", "PriorityClass"),
        )
        return {(kind, name) for api_version, kind in kinds for name in names(api_version, kind)}

    namespaces, before = names("v1", "Namespace"), cluster_scoped()
    passed = run_tests(project).partition(" in ")[0]
    assert passed == "9 passed"
    option = f"--ctrlhost-server=kubeconfig:{own_kube_apiserver.kubeconfig}"
    assert run_tests(project, option).partition(" in ")[0] == passed
    assert cluster_scoped() == before
    # Only a controller removes the namespaces that were deleted.
    left = [obj for obj in client.list("v1", "Namespace") if obj["metadata"]["name"] not in namespaces]
    assert left
    assert all(obj["metadata"]["name"].startswith("ctrlhost-test-") for obj in left)
    assert all(obj["status"]["phase"] == "Terminating" for obj in left)
    own_kube_apiserver.start_controllers()
    eventually(lambda: names("v1", "Namespace") == namespaces, 60)


@pytest.mark.behaviour("findings3/NA9")
def test_all_hosts_of_a_test_share_its_namespace(own_kube_apiserver: KubeApiserver, ctrlhost_host: Any) -> None:
    plugin: ctrlhost.Plugin[None] = ctrlhost.Plugin()
    plugin.__name__ = "demo"
    host = ctrlhost_host(plugin, server=own_kube_apiserver)
    host.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
    assert host.stop()
    for server in (own_kube_apiserver, host.server, host.server.kubeconfig):
        again = ctrlhost_host(plugin, server=server)
        assert again.get("v1/ConfigMap", "a").namespace == host.server.namespace
        assert again.stop()
