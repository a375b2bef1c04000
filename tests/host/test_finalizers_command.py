"""`ctrlhost finalizers` against a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ctrlhost.cli.group import main_group

PAGES = Path(__file__).parents[2] / "docs/how-to"
OLD, FOREIGN = "example.com/old", "example.com/theirs"


@pytest.mark.behaviour("findings3/NB18")
def test_finalizers_are_listed_with_their_holders_and_released_on_request(ctrlhost_host: Any, tmp_path: Path) -> None:
    import ctrlhost

    plugin: ctrlhost.Plugin[None] = ctrlhost.Plugin()
    plugin.__name__ = "demo"
    host = ctrlhost_host(plugin)
    client = host.client.derive(field_manager="former")
    for name, finalizers in (("a", [OLD, FOREIGN]), ("b", [OLD]), ("c", [])):
        metadata = {"name": name, "namespace": "default", "finalizers": finalizers}
        client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    client.delete("v1", "ConfigMap", "b", "default")
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(host.sandbox.kubeconfig.read_text())

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(
            main_group(), ["finalizers", "v1/ConfigMap", "--kubeconfig", str(kubeconfig), *arguments]
        )
        assert result.exit_code == 0, result.output
        return result.output

    heading, *lines = run("--namespace", "default")
    lines = "".join([heading, *lines]).splitlines()[1:]
    assert [line.split()[:4] for line in lines] == [
        [OLD, "ConfigMap", "default/a", "former"],
        [OLD, "ConfigMap", "default/b", "former"],
        [FOREIGN, "ConfigMap", "default/a", "former"],
    ]
    assert lines[0].endswith("-")
    assert lines[1].endswith("ago")
    assert run("--deleted", "--release", OLD) == "released ConfigMap default/b\n"
    assert client.find("v1", "ConfigMap", "b", "default") is None
    assert run("--release", OLD) == "released ConfigMap default/a\n"
    assert client.get("v1", "ConfigMap", "a", "default")["metadata"]["finalizers"] == [FOREIGN]
    assert "no object has the finalizer" in run("--release", OLD)
    for page in ("from-kopf", "upgrade"):
        assert "ctrlhost finalizers example.com/v1/Database" in (PAGES / f"{page}.md").read_text(encoding="utf-8")
