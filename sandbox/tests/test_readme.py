"""The examples of the README work as written; those in Go and Java need their tools."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.guides import Terminal, matches, steps_of

ROOT = Path(__file__).parents[2]
README = (ROOT / "sandbox" / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: The text below each heading; the first part has none.
SECTIONS = dict(re.findall(r"^#+ (\w+).*?\n(.*?)(?=^#+ |\Z)", README, re.MULTILINE | re.DOTALL))
PROGRAMS = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
#: The flags of `tests/go/build`, so that what it has compiled is not compiled again.
ENVIRONMENT = {**os.environ, "PATH": PROGRAMS, "PYTEST_ADDOPTS": "", "GOFLAGS": "-mod=readonly -trimpath"}
#: Seconds to compile all of client-go, or to download what Maven needs.
LIMIT = 600

#: The operator of the Python example.
HANDLERS = """
import kopf


@kopf.on.create("configmaps")
@kopf.on.delete("configmaps")
def handle(**_):
    pass
"""
GO = """\
package readme

import (
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

"""
#: A suite that starts a control plane of its own.
ENVTEST = """\
package readme

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

func TestNamespace(t *testing.T) {
	environment := &envtest.Environment{}
	config, err := environment.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer environment.Stop()
	namespaces := kubernetes.NewForConfigOrDie(config).CoreV1().Namespaces()
	if _, err := namespaces.Get(t.Context(), "default", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
}
"""
JAVA = """\
import static org.junit.jupiter.api.Assertions.assertNotNull;

import io.fabric8.kubernetes.api.model.ConfigMapBuilder;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import org.junit.jupiter.api.Test;

class ReadmeTest {
"""


def blocks(section: str, language: str) -> list[str]:
    """Return the code of a section in one language."""
    return [code for name, code in BLOCK.findall(SECTIONS[section]) if name == language]


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """Return a terminal in the folder of the test."""
    with Terminal(tmp_path, tmp_path / "notes", ENVIRONMENT) as terminal:
        yield terminal


def run_commands(terminal: Terminal, commands: str, folder: Path | None = None) -> str:
    """Run commands, none of which may fail, and return what they print."""
    printed = terminal.run(commands, folder)
    assert terminal.failures() == [], printed
    return printed


def test_every_example_is_run() -> None:
    examples = {(section, name) for section, text in SECTIONS.items() for name, _ in BLOCK.findall(text)}
    assert examples == {
        ("ctrlhost", "sh"),
        ("ctrlhost", "console"),
        ("Python", "python"),
        ("Go", "sh"),
        ("Go", "go"),
        ("Java", "java"),
        ("Java", "sh"),
    }
    assert [step.left_out for step in steps_of(README) if step.left_out] == ["pip"]
    assert re.findall(r"^ {4}(?:pip|ctrlhost|go|mvn|[A-Z_]+=)\b.*", BLOCK.sub("", README), re.MULTILINE) == []


def test_the_server_prints_its_kubeconfig(terminal: Terminal) -> None:
    _, step = steps_of(SECTIONS["ctrlhost"])
    printed = run_commands(terminal, step.commands)
    assert step.output is not None
    assert matches(printed, step.output), printed


def test_the_fixtures_test_an_operator(tmp_path: Path) -> None:
    test, hook, _ = blocks("Python", "python")
    # The second test shows that the hook chooses the arguments.
    (tmp_path / "test_operator.py").write_text(f"{test}\n\ndef test_rbac(sandbox):\n    assert sandbox.rbac\n")
    (tmp_path / "conftest.py").write_text(hook)
    (tmp_path / "handlers.py").write_text(HANDLERS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(tmp_path)]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env=ENVIRONMENT, check=False, timeout=120
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr


def test_a_server_without_pytest(capsys: pytest.CaptureFixture[str]) -> None:
    *_, code = blocks("Python", "python")
    exec(code, {})
    assert capsys.readouterr().out.endswith("kubeconfig\n")


@pytest.mark.real
@pytest.mark.timeout(LIMIT)
def test_go_suites_with_an_existing_cluster_and_with_envtest(tmp_path: Path, terminal: Terminal) -> None:
    if shutil.which("go") is None:
        pytest.skip("this machine has no Go")
    for name in ("go.mod", "go.sum"):
        shutil.copy(ROOT / "tests" / "go" / name, tmp_path)
    (code,) = blocks("Go", "go")
    existing, own = tmp_path / "existing", tmp_path / "own"
    for folder, source in ((existing, GO + code), (own, ENVTEST)):
        folder.mkdir()
        (folder / "readme_test.go").write_text(source)
    # Compiles the clients, where nothing has done so before.
    subprocess.run(["go", "test", "-run", "^$", "./..."], cwd=tmp_path, check=True, timeout=LIMIT, env=ENVIRONMENT)
    for step, folder in zip(steps_of(SECTIONS["Go"]), (existing, own), strict=True):
        printed = run_commands(terminal, step.commands, folder)
        assert re.search(r"^ok\s+ctrlhost.dev/tests/", printed, re.MULTILINE), printed


@pytest.mark.real
@pytest.mark.timeout(LIMIT)
def test_a_java_suite(tmp_path: Path, terminal: Terminal) -> None:
    if not all(map(shutil.which, ("mvn", "javac"))):
        pytest.skip("this machine has no Maven and JDK")
    shutil.copy(ROOT / "tests" / "java" / "pom.xml", tmp_path)
    (code,) = blocks("Java", "java")
    source = tmp_path / "src" / "test" / "java" / "ReadmeTest.java"
    source.parent.mkdir(parents=True)
    source.write_text(f"{JAVA}{code}}}\n")
    (step,) = steps_of(SECTIONS["Java"])
    printed = run_commands(terminal, step.commands)
    assert "Tests run: 1, Failures: 0, Errors: 0, Skipped: 0" in printed
