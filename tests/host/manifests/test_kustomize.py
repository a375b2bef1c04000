"""Folders with a kustomize base."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.control_plane import BINARY, require_kube_apiserver
from tests.support.manifests import Manifest, Printed
from tests.support.plugin_sources import GREETER, WIDGETS

behaviour = pytest.mark.behaviour


@pytest.fixture(autouse=True)
def plugins(distributions: Any) -> None:
    distributions.add("greeter", GREETER)
    distributions.add("widgets", WIDGETS, version="2.1")


@pytest.fixture
def written(ctrlhost: Any, tmp_path: Path) -> Any:
    """Return a function that writes the base and returns its objects, by the names of their files."""
    folder = tmp_path / "base"

    def run(*arguments: str) -> dict[str, Manifest]:
        done = ctrlhost("manifests", "--image=example.com/ctrlhost:1", f"--kustomize={folder}", *arguments)
        assert done.returncode == 0, done.stderr
        base = yaml.safe_load((folder / "kustomization.yaml").read_text())
        assert {path.name for path in folder.iterdir()} >= {"kustomization.yaml", *base["resources"]}
        assert f"wrote {len(base['resources'])} objects" in done.stdout
        return {name: yaml.safe_load((folder / name).read_text()) for name in base["resources"]}

    return run


@behaviour("oncall/OC27")
def test_a_base_has_one_file_per_object_and_later_calls_write_it_anew(
    written: Any, printed: Printed, tmp_path: Path
) -> None:
    arguments = ("--plugins=greeter,widgets", "--leader-elect", "--namespace=default,other")
    base = written(*arguments)
    assert list(base.values()) == printed(*arguments)
    assert len(base) > 10
    assert "deployment-ctrlhost.yaml" in base
    assert "customresourcedefinition-widgets.host.test.yaml" in base
    # Roles of one name in two namespaces.
    assert len({name for name in base if name.startswith("role-")}) >= 2

    folder = tmp_path / "base"
    overlay = folder / "patch.yaml"
    overlay.write_text("mine: true\n")
    fewer = written("--plugins=greeter")
    assert list(fewer.values()) == printed("--plugins=greeter")
    names = {path.name for path in folder.iterdir()}
    assert names == {"kustomization.yaml", "patch.yaml", *fewer}
    assert overlay.read_text() == "mine: true\n"


@behaviour("oncall/OC27")
def test_files_of_others_are_kept(ctrlhost: Any, tmp_path: Path) -> None:
    folder = tmp_path / "base"
    folder.mkdir()
    mine = folder / "kustomization.yaml"
    mine.write_text("resources: []\n")
    arguments = ("manifests", "--image=host:1", "--plugins=greeter")
    result = ctrlhost(*arguments, f"--kustomize={folder}")
    assert result.returncode == 2
    assert result.stderr.startswith(f"error: {mine}: exists, and `ctrlhost manifests --kustomize` did not write it")
    assert [path.name for path in folder.iterdir()] == [mine.name]
    result = ctrlhost(*arguments, f"--kustomize={mine}/below")
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert "not a directory" in result.stderr
    result = ctrlhost(*arguments, f"--kustomize={folder}", "--uninstall")
    assert (result.returncode, result.stdout) == (2, "")
    assert "mutually exclusive" in result.stderr


@pytest.mark.real
@behaviour("oncall/OC27")
def test_kustomize_builds_the_printed_objects(written: Any, printed: Printed, tmp_path: Path) -> None:
    require_kube_apiserver()
    arguments = ("--plugins=greeter,widgets", "--leader-elect")
    written(*arguments)
    overlay = tmp_path / "overlay"
    overlay.mkdir()
    patch = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "ctrlhost"}, "spec": {"replicas": 5}}
    (overlay / "patch.yaml").write_text(yaml.safe_dump(patch))
    content = {"resources": ["../base"], "patches": [{"path": "patch.yaml", "target": {"kind": "Deployment"}}]}
    (overlay / "kustomization.yaml").write_text(yaml.safe_dump(content))

    def built(folder: Path) -> dict[tuple[str, ...], Manifest]:
        done = subprocess.run(
            [BINARY, "kubectl", "kustomize", str(folder)], capture_output=True, check=True, timeout=60
        )
        return by_identity(list(yaml.safe_load_all(done.stdout)))

    expected = by_identity(printed(*arguments))
    assert built(tmp_path / "base") == expected
    expected["Deployment", "ctrlhost-system", "ctrlhost"]["spec"]["replicas"] = 5
    assert built(overlay) == expected


def by_identity(manifests: list[Manifest]) -> dict[tuple[str, ...], Manifest]:
    identities = {identity(manifest): manifest for manifest in manifests}
    assert len(identities) == len(manifests)
    return identities


def identity(manifest: Manifest) -> tuple[str, ...]:
    metadata = manifest["metadata"]
    return manifest["kind"], metadata.get("namespace", ""), metadata["name"]
