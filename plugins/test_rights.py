"""No plugin asks for a right that it does not use. That those it asks for suffice is what all its other tests show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
#: Rights that no test of the plugin makes use of, and why they are asked for all the same.
NOT_SEEN = {
    ("events.k8s.io", "events", "patch"): "an event that is repeated for minutes is counted in the one that is there",
    ("bitcoincontroller.christianb93.github.com", "bitcoinnetworks/finalizers", "update"): (
        "some clusters ask for it of whoever sets an ownerReference that blocks the owner's deletion"
    ),
    (
        "gateway.networking.k8s.io",
        "httproutes",
        "update",
    ): "a changed route is put right; the tests of that use Ingresses",
}
#: What the host reads for its plugins, and when.
HOSTS_OWN = {
    ("apiextensions.k8s.io", "customresourcedefinitions"): "while a plugin waits for a kind that is not there yet",
    ("", "namespaces"): "where a plugin or an operator names namespaces by pattern",
}
READ = ("get", "list", "watch")
PLUGINS = sorted(folder.parent.name for folder in HERE.glob("*/pyproject.toml"))


@pytest.mark.parametrize("plugin", PLUGINS)
def test_every_right_that_is_printed_is_used(
    plugin: str, rights_of_plugins: Any, request: pytest.FixtureRequest
) -> None:
    folder = HERE / plugin / "tests"
    ran = {item.path for item in request.session.items if folder in item.path.parents}
    if ran != set(folder.glob("test_*.py")) or request.config.option.keyword:
        pytest.skip(f"only the whole suite of {plugin} uses all of its rights")
    rights = rights_of_plugins[plugin]
    assert rights.granted
    # To read is one right: which of its verbs an informer uses depends on what the server can do.
    read = {right[:2] for right in rights.used if right[2] in READ} | HOSTS_OWN.keys()
    unused = {right for right in rights.granted - rights.used if right[2] not in READ or right[:2] not in read}
    assert sorted(unused - NOT_SEEN.keys()) == []
