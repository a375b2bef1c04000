"""The manifests of a host with an isolated plugin."""

from __future__ import annotations

import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.other_user import NOBODY, needs_root, run_as_nobody
from tests.support.plugin_sources import GREETER, WIDGETS

behaviour = pytest.mark.behaviour
HASH = "ctrlhost.dev/config-hash"

CONFIG = """
[host]
plugins = ["greeter", "widgets"]

[supervision.widgets]
process = "own"
memory_limit = "200Mi"
"""

Manifests = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def printed(ctrlhost, distributions, tmp_path: Path) -> Manifests:
    """Return a function that returns the manifests for a settings file."""
    distributions.add("greeter", GREETER)
    distributions.add("widgets", WIDGETS)
    file = tmp_path / "ctrlhost.toml"

    def run(config: str, *arguments: str, **environment: str) -> list[dict[str, Any]]:
        file.write_text(config)
        result = ctrlhost("manifests", "--image=host:1", f"--config={file}", *arguments, **environment)
        assert result.returncode == 0, result.stderr
        return list(yaml.safe_load_all(result.stdout))

    return run


def template(manifests: list[dict[str, Any]]) -> dict[str, Any]:
    (deployment,) = (manifest for manifest in manifests if manifest["kind"] == "Deployment")
    return deployment["spec"]["template"]


def config_hash(manifests: list[dict[str, Any]]) -> str:
    return template(manifests)["metadata"]["annotations"][HASH]


def rights(manifests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        manifest
        for manifest in manifests
        if manifest["kind"] == "ServiceAccount" or manifest["apiVersion"].startswith("rbac.")
    ]


@behaviour("supervision/PI21")
@pytest.mark.parametrize("flag", [False, True], ids=["file", "flag"])
def test_an_isolated_plugin_has_a_folder_for_sockets_and_no_further_rights(
    printed: Manifests, kube_apiserver, flag: bool
) -> None:
    shared = CONFIG.replace('"own"', '"shared"')
    isolated = printed(shared, "--isolate=widgets") if flag else printed(CONFIG)

    pod = template(isolated)["spec"]
    (container,) = pod["containers"]
    assert {"name": "run", "emptyDir": {"medium": "Memory"}} in pod["volumes"]
    assert {"name": "run", "mountPath": "/run/ctrlhost"} in container["volumeMounts"]
    assert {"name": "XDG_RUNTIME_DIR", "value": "/run/ctrlhost"} in container["env"]
    assert ("--isolate=widgets" in container["args"]) == flag

    assert len(config_hash(isolated)) == 64
    assert config_hash(isolated) != config_hash(printed(shared))
    for other in (CONFIG.replace("200Mi", "300Mi"), CONFIG + 'heartbeat_timeout = "20s"\n'):
        assert config_hash(printed(other)) not in {config_hash(isolated), config_hash(printed(CONFIG))}

    assert rights(isolated) == rights(printed(shared))
    kinds = ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "ClusterRoleBinding", *["ClusterRole"] * 3]
    assert [manifest["kind"] for manifest in rights(isolated)] == kinds

    # A real server accepts all of it, and stores it as printed.
    client = kube_apiserver.client
    for manifest in isolated:
        client.apply(manifest)
    stored = client.get("apps/v1", "Deployment", "ctrlhost", "ctrlhost-system")
    assert stored["spec"]["template"]["metadata"]["annotations"] == {HASH: config_hash(isolated)}
    assert stored["spec"]["template"]["spec"]["volumes"][0] == {"name": "run", "emptyDir": {"medium": "Memory"}}
    assert stored["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] == container["volumeMounts"]


def test_the_hash_of_the_settings_ignores_what_is_no_setting(printed: Manifests) -> None:
    first = printed(CONFIG)
    assert printed(CONFIG) == first
    assert template(printed(CONFIG.replace("[supervision", "# A comment.\n[supervision"))) == template(first)
    assert template(printed(CONFIG, CTRLHOST_SUPERVISION__WIDGETS__MEMORY_LIMIT="1Gi")) == template(first)
    other = [
        printed(CONFIG, "--set=supervision.widgets.memory_limit=300Mi"),
        printed(CONFIG, "--isolate=all"),
        printed(CONFIG.replace("[host]", "[host]\nresync = '1h'")),
    ]
    assert len({config_hash(manifests) for manifests in [first, *other]}) == 4
    for change in ("--plugins=greeter", "--image=example.com/host:2"):
        assert config_hash(printed(CONFIG, change)) == config_hash(first)
        assert template(printed(CONFIG, change)) != template(first)


@needs_root
@behaviour("supervision/PI21")
def test_the_printed_folder_is_good_for_a_private_directory() -> None:
    # What the kubelet mounts: it belongs to root and everybody may write to it.
    with tempfile.TemporaryDirectory(prefix="run-") as directory:
        folder = Path(directory)
        folder.chmod(0o777)
        imports = "from ctrlhost.supervisor.run_directory import RunDirectory"
        made_path = run_as_nobody(
            "print(RunDirectory().for_plugin('widgets'))", imports=imports, XDG_RUNTIME_DIR=str(folder)
        )
        private = folder / "ctrlhost"
        assert Path(made_path).parents[1] == private
        assert (private.stat().st_uid, stat.S_IMODE(private.stat().st_mode)) == (NOBODY, 0o700)
