"""No plugin requests a right that it does not use. Its other tests show that its rights suffice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
#: Rights that no test of the plugin uses, and why the plugin requests them.
NOT_SEEN = {
    ("events.k8s.io", "events", "patch"): "an event that repeats for minutes becomes a series",
    ("bitcoincontroller.christianb93.github.com", "bitcoinnetworks/finalizers", "update"): (
        "some clusters require it for an ownerReference that blocks the owner's deletion"
    ),
    (
        "gateway.networking.k8s.io",
        "httproutes",
        "update",
    ): "repairs changed routes; the tests of that use Ingresses",
    (
        "gateway.networking.k8s.io",
        "httproutes",
        "get",
    ): "reads a route again after a conflict; the tests of that use Ingresses",
}
#: Rights that the host uses for its plugins, and when.
HOSTS_OWN = {
    (
        "apiextensions.k8s.io",
        "customresourcedefinitions",
    ): "while a plugin waits for a missing kind, and to compare its CRDs",
    ("", "namespaces"): "when a plugin or an operator selects namespaces by pattern",
}
READ = ("list", "watch")
#: Those that are plugins themselves: `kopf` runs the files of others.
PLUGINS = sorted(
    path.parent.name
    for path in HERE.glob("*/pyproject.toml")
    if "entry-points.ctrlhost]" in path.read_text(encoding="utf-8")
)


@pytest.mark.behaviour("operations/OP143")
@pytest.mark.parametrize("plugin", PLUGINS)
def test_every_right_that_is_printed_is_used(
    plugin: str, rights_of_plugins: Any, request: pytest.FixtureRequest, collected_files: set[Path]
) -> None:
    folder = HERE / plugin / "tests"
    ran = {path for path in collected_files if folder in path.parents}
    if ran != set(folder.glob("test_*.py")) or request.config.option.keyword:
        pytest.skip(f"only the whole suite of {plugin} uses all of its rights")
    rights = rights_of_plugins[plugin]
    assert rights.granted
    # To fill a cache counts as one right: the server decides which of its verbs an informer uses.
    read = {right[:2] for right in rights.used if right[2] in READ} | HOSTS_OWN.keys()
    owned = {right for right in rights.granted if right[:2] in HOSTS_OWN}
    unused = {right for right in rights.granted - rights.used if right[2] not in READ or right[:2] not in read} - owned
    assert sorted(unused - NOT_SEEN.keys()) == []
