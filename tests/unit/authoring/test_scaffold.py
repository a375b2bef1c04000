"""What `ctrlhost new` writes, and what it refuses."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from ctrlhost.authoring.scaffold.choices import Choices
from ctrlhost.authoring.scaffold.owned import OWNED
from ctrlhost.authoring.scaffold.project import project
from ctrlhost.cli import execute

EVERY_OWNED = [argument for reference in OWNED for argument in ("--owns", reference)]
#: Arguments of `ctrlhost new` after the name, and the reconciled kind in names of files.
VARIANTS = {
    "none": ([], "configmap"),
    "kind": (["--kind", "Memcached"], "memcached"),
    "group": (["--kind", "Memcached", "--group", "cache.example.com"], "memcached"),
    "two owned": (["--kind", "Memcached", "--owns", "v1/ConfigMap", "--owns", "v1/Service"], "memcached"),
    "cluster": (["--kind", "Memcached", "--cluster-scoped"], "memcached"),
    "its own kind": (["--owns", "v1/ConfigMap"], "configmap"),
    "everything": (
        ["--kind", "K" * 40, "--group", "g" * 58 + ".example.com", "--cluster-scoped", *EVERY_OWNED],
        "k" * 40,
    ),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.behaviour("authoring/AN5")
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_tree_is_that_of_the_specification(folder, capsys, variant):
    arguments, kind = VARIANTS[variant]
    assert execute(["new", "my-op", *arguments]) == 0
    expected = {
        "pyproject.toml",
        "README.md",
        "Dockerfile",
        ".gitignore",
        "src/ctrlhost_my_op/__init__.py",
        "src/ctrlhost_my_op/py.typed",
        f"examples/{kind}.yaml",
        "tests/conftest.py",
        f"tests/test_{kind}.py",
    }
    assert written(folder / "my-op") == expected
    # The files on stdout, and the three next commands beside them.
    printed = capsys.readouterr()
    assert set(printed.out.splitlines()) == {f"my-op/{path}" for path in expected}
    commands = printed.err.splitlines()
    assert len(commands) == 3
    assert commands[0] == "cd my-op"
    text = "".join((folder / "my-op" / path).read_text() for path in sorted(expected))
    assert "$" not in text.replace("${CTRLHOST_IMAGE}", "")
    # Nothing is invented: no address, author or organisation; groups and labels are of the domain for examples.
    assert "://" not in text
    project_file = tomllib.loads((folder / "my-op/pyproject.toml").read_text())
    assert {"authors", "maintainers", "urls", "license"}.isdisjoint(project_file["project"])
    domains = set(re.findall(r"[\w.-]+\.(?:com|org|io|dev|net)\b", text))
    assert {domain for domain in domains if not domain.endswith("example.com")} <= {"app.kubernetes.io"}
    assert project_file["project"]["entry-points"]["ctrlhost"] == {"my-op": "ctrlhost_my_op:plugin"}
    assert all(">=" in dependency for dependency in project_file["project"]["dependencies"])
    assert list(yaml.safe_load_all((folder / f"my-op/examples/{kind}.yaml").read_text()))
    # The tutorial writes the kubeconfig of a sandbox there, with a token.
    assert "sandbox.yaml" in (folder / "my-op/.gitignore").read_text().splitlines()
    readme = (folder / "my-op/README.md").read_text()
    blocks = "".join(re.findall(r"```sh\n(.*?)```", readme, re.DOTALL))
    assert len(blocks.splitlines()) == 5
    assert commands[1] in blocks
    assert commands[2] in blocks


@pytest.mark.behaviour("authoring/AN3")
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_code_of_each_variant_is_formatted(folder, variant):
    """That it runs is the test of the installed project."""
    assert execute(["new", "n" * 40 if variant == "everything" else "my-op", *VARIANTS[variant][0]]) == 0
    for arguments in (["check"], ["format", "--check"]):
        command = [Path(sys.executable).with_name("ruff"), *arguments, "--no-cache", "."]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_all_that_is_chosen_is_in_the_code():
    choices = Choices.checked(
        "my-op", kind="Memcached", group="a.example.com", owns=list(OWNED), cluster_scoped=True, reserved=()
    )
    source = project(choices)["src/ctrlhost_my_op/__init__.py"]
    assert '@ctrlhost.resource("a.example.com/v1alpha1", scope="Cluster")' in source
    assert all(f'"{reference}"' in source for reference in OWNED)
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    ensured = [call for call in calls if ast.unparse(call.func) == "ctx.ensure"]
    assert len(ensured) == len(OWNED)


@pytest.mark.behaviour("authoring/AN4")
@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (["run"], "the host reserves it"),
        (["metrics"], "the host reserves it"),
        (["My_Op"], "it must match `[a-z][a-z0-9-]*`"),
        (["9x"], "it must match `[a-z][a-z0-9-]*`"),
        (["../up"], "it must match `[a-z][a-z0-9-]*`"),
        (["x" * 41], "at most 40 characters"),
        (["op", "--kind", "lower"], "it must match `[A-Z][A-Za-z0-9]*`"),
        (["op", "--kind", "Settings"], "the code itself uses Annotated, "),
        (["op", "--kind", "EXAMPLE"], "`EXAMPLE` cannot be the name of a class"),
        (["op", "--kind", "OWNED"], "`OWNED` cannot be the name of a class"),
        (["op", "--kind", "None"], "`None` cannot be the name of a class"),
        (["op", "--kind", "True"], "`True` cannot be the name of a class"),
        (["op", "--kind", "TestRun"], "pytest names that begin with `Test`"),
        (["op", "--kind", "Op", "--group", "op"], "it must be a domain such as"),
        (["op", "--kind", "Op", "--group", "op.k8s.io"], "`k8s.io` and `kubernetes.io` from Kubernetes only"),
        (["op", "--kind", "Op", "--group", "kubernetes.io"], "`k8s.io` and `kubernetes.io` from Kubernetes only"),
        (["op", "--group", "op.example.com"], "--group needs --kind"),
        (["op", "--cluster-scoped"], "--cluster-scoped needs --kind"),
        (["op", "--owns", "v1/Pod"], "there is no template for `v1/Pod`; there are apps/v1/Deployment, "),
    ],
)
def test_what_cannot_be_written_is_refused_with_the_rule(folder, capsys, arguments, rule):
    assert execute(["new", *arguments]) == 2
    assert rule in capsys.readouterr().err
    assert list(folder.iterdir()) == []


@pytest.mark.behaviour("authoring/AN4")
@pytest.mark.parametrize("contents", [["empty"], [], None], ids=["one empty file", "empty directory", "file"])
def test_an_existing_target_is_left_alone(folder, capsys, contents):
    target = folder / "my-op"
    if contents is None:
        target.write_text("")
    else:
        target.mkdir()
        for name in contents:
            (target / name).write_text("")
    before = sorted(folder.rglob("*"))
    assert execute(["new", "my-op"]) == 2
    printed = capsys.readouterr()
    assert "my-op exists" in printed.err
    assert printed.out == ""
    assert sorted(folder.rglob("*")) == before


def test_the_same_choices_give_the_same_texts():
    choices = Choices.checked("my-op", kind="Memcached")
    assert project(choices) == project(Choices.checked("my-op", kind="Memcached"))


def test_the_help_lists_the_kinds_that_a_plugin_can_own(capsys):
    assert execute(["new", "--help"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in OWNED)
