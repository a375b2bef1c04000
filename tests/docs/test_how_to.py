"""The commands of the how-to guides for operators work as written, on a real kube-apiserver.

There is no node, so a toy kubelet runs the pods of the installation: each is a `ctrlhost run` of this machine as the
printed ServiceAccount, with the printed arguments. `kubectl exec`, `logs` and `port-forward` act on that process.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from ctrlhost.client import Client
from tests.host.conftest import Distributions
from tests.support.control_plane import KubeApiserver, require_kube_apiserver
from tests.support.go_modules import published
from tests.support.guides import Step, Terminal, matches, steps_of
from tests.support.host_pods import HostKubelet
from tests.support.programs import ROOT, install_kubectl_for_toy_pods, install_programs
from tests.support.promtool import program
from tests.support.rights import account_rule, forbidden
from tests.support.waiting import eventually

FOLDER = ROOT / "docs" / "how-to"
#: The guide to deploy comes last, since it ends with the removal. The others begin with what it installs.
GUIDES = ("observe", "on-call", "secure", "debug", "upgrade", "deploy")
NAMESPACE = "ctrlhost-system"
#: Why blocks with such a mark are not run.
NOT_RUN = {
    "helm": "installs what the guide has installed already; tests/e2e/test_chart.py installs a chart",
    "docker": "builds and pushes an image, for which there is neither a container engine nor a registry",
    "Database": "the cluster of the guide has no such kind",
}
#: Commands whose exit code is not 0 when they work.
CODES = {"kubectl diff": "1", "kubectl auth can-i": "1"}
#: The plugin of the reader, which has a secret setting.
YOURS = """
    import msgspec
    import ctrlhost

    class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
        token: ctrlhost.Secret = ctrlhost.Secret()

    @ctrlhost.hookimpl
    def ctrlhost_settings():
        return Settings
"""


class Installation:
    """A cluster with what the guide to deploy installs, and terminals for its administrator."""

    def __init__(self, server: KubeApiserver, kubelet: HostKubelet, folder: Path) -> None:
        self.server, self.kubelet, self._folder = server, kubelet, folder
        programs = install_programs(folder / "bin")
        install_kubectl_for_toy_pods(programs)
        site = folder / "site"
        site.mkdir()
        distributions = Distributions(site)
        distributions.add("yours", YOURS)
        self._environment = distributions.environment(
            PATH=os.pathsep.join([str(programs), os.environ["PATH"], str(Path(program("promtool")).parent)]),
            PYTHONPATH=os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")])),
            KUBECONFIG=str(server.kubeconfig),
            TOY_PODS=str(kubelet.folder),
        )

    @contextlib.contextmanager
    def terminal(self, name: str) -> Iterator[Terminal]:
        """Return a terminal in an empty folder."""
        folder = self._folder / name
        folder.mkdir()
        with Terminal(folder, self._folder / f"{name}.notes", self._environment) as terminal:
            yield terminal

    def install(self) -> None:
        """Run the guide to deploy until its pods are ready, and no others are left."""
        (place,) = (at for at, step in enumerate(steps_of(guide("deploy"))) if "rollout status" in step.commands)
        with self.terminal(f"install-{len(list(self._folder.iterdir()))}") as terminal:
            for step in steps_of(guide("deploy"))[: place + 1]:
                if not step.left_out:
                    terminal.run(step.commands)
            assert terminal.failures() == []
        self.settle()

    def settle(self) -> None:
        """Wait until no replaced pod is left, and one of the others leads."""

        def is_settled() -> bool:
            client = self.server.client
            names = {obj["metadata"]["name"] for obj in client.list("v1", "Pod", NAMESPACE)}
            lease = client.find("coordination.k8s.io/v1", "Lease", "ctrlhost", NAMESPACE) or {"spec": {}}
            return len(names) == 2 and str(lease["spec"].get("holderIdentity")).partition("_")[0] in names

        eventually(is_settled, 60, "two pods, one of which leads", pause=0.05)


def guide(name: str) -> str:
    return (FOLDER / f"{name}.md").read_text(encoding="utf-8")


def prepare_monitoring(client: Client) -> None:
    """Add what a cluster with the Prometheus operator has."""
    client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "monitoring"}})
    (operator,) = (row for row in published() if row.name == "prometheus-operator")
    for crd in operator.definitions():
        if crd["spec"]["names"]["kind"] == "PrometheusRule":
            client.apply(crd)


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    require_kube_apiserver()
    for name in ("curl", "jq"):
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")
    folder = tmp_path_factory.mktemp("guides")
    with KubeApiserver(folder / "server", audit=[account_rule(NAMESPACE)]) as server:
        server.start_controllers()
        prepare_monitoring(server.client)
        # Sockets have short paths.
        with TemporaryDirectory(prefix="pods-") as pods, HostKubelet(server, NAMESPACE, Path(pods)) as kubelet:
            yield Installation(server, kubelet, folder)


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.behaviour("operations/OP167")
@pytest.mark.parametrize("name", GUIDES)
def test_the_commands_of_the_guide_work(installation: Installation, name: str) -> None:
    if name != "deploy":
        installation.install()
    steps = steps_of(guide(name))
    assert len(steps) > 1
    removed = False
    with installation.terminal(name) as terminal:
        for step in steps:
            if step.left_out:
                continue
            if "kubectl delete" in step.commands:
                # From here on the hosts lose their rights before they end.
                assert forbidden(installation.server.audited()) == []
                removed = True
            printed = terminal.run(step.commands, ROOT if step.in_checkout else None)
            allowed = [f"{code} {command}" for command, code in CODES.items() if command in step.commands]
            failed = [failure for failure in terminal.failures() if not failure.startswith(tuple(allowed))]
            assert failed == [], f"{step.commands}\n{printed}"
            if "rollout status" in step.commands:
                installation.settle()
            if step.output is not None:
                assert matches(printed, step.output), f"{step.commands}\n{printed}"
    assert removed or forbidden(installation.server.audited()) == []


@pytest.mark.behaviour("operations/OP167")
def test_only_blocks_that_cannot_run_are_left_out() -> None:
    marks = [
        mark for name in GUIDES for mark in re.findall(r"<!-- not run: (\w+) -->\n```(?:sh|console)\n", guide(name))
    ]
    assert set(marks) == NOT_RUN.keys()
    assert [step.left_out for name in GUIDES for step in steps_of(guide(name)) if step.left_out] == marks


@pytest.mark.behaviour("operations/OP167")
@pytest.mark.parametrize("name", GUIDES)
def test_every_command_is_in_a_block_that_is_run(name: str) -> None:
    outside = re.sub(r"^ *```.*?^ *```$", "", guide(name), flags=re.MULTILINE | re.DOTALL)
    assert re.findall(r"^ {4,}(?:\$ )?(?:ctrlhost|kubectl|curl|make|docker) .*$", outside, re.MULTILINE) == []
    languages = set(re.findall(r"^ *```(\w*)\n(?!```)", guide(name), re.MULTILINE))
    assert languages & {"bash", "shell", "zsh"} == set()


def test_a_command_that_fails_or_prints_something_else_is_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "reader"
    folder.mkdir()
    with Terminal(folder, tmp_path / "notes", os.environ) as terminal:
        assert terminal.run("one=1; echo $one > file; cat file\n") == "1\n"
        assert terminal.failures() == []
        assert terminal.run("echo $one; (exit 3) | cat; true\n") == "1\n"
        assert [failure.split()[0] for failure in terminal.failures()] == ["3"]
        assert terminal.run("pwd\n", tmp_path) == f"{tmp_path}\n"
        assert terminal.run("pwd\n") == f"{folder}\n"
    text = "```console\n$ a\nx … z\n…\nend\n$ b\n```\n```toml\ne\n```\n"
    left_out = "  <!-- not run: why -->\n  ```sh\n  c\n  d\n  ```\n"
    checkout = "<!-- in a checkout -->\n```sh\nf\n```\n"
    first, *others = steps_of(text + left_out + checkout)
    assert others == [Step("b\n", ""), Step("c\nd\n", None, "why"), Step("f\n", None, in_checkout=True)]
    assert first.output is not None
    assert matches("x y z\n1\n2\nend\n", first.output)
    assert matches("x  z\nend\n", first.output)
    for other in ("x y\nend\n", "x y z\n1\n", "x y z\nend\nmore\n"):
        assert not matches(other, first.output)
