"""The tests of a new plugin."""

from __future__ import annotations

from string import Template
from typing import TYPE_CHECKING

from ctrlhost.authoring.scaffold.plugin_source import LINE_LENGTH

if TYPE_CHECKING:
    from ctrlhost.authoring.scaffold.choices import Choices

_CONFTEST = '''"""What all tests share."""

import pytest


@pytest.fixture
def ctrlhost_least_privilege() -> bool:
    """Restrict each host to the rights that `ctrlhost manifests` prints."""
    return True
'''
_HEAD = '''"""The plugin in a host on a sandbox, with the rights that it asks for."""

from pathlib import Path

import pytest
from ctrlhost.testing import HostUnderTest, StartHost, converges

$import

EXAMPLE = Path(__file__).parents[1] / "examples" / "$file.yaml"
OWNED = [$owns]


@pytest.fixture
def host(ctrlhost_host: StartHost) -> HostUnderTest:
    """A host that has reconciled the example."""
    host = ctrlhost_host(plugin)
    host.apply(EXAMPLE)
    host.settle()
    return host


@pytest.mark.parametrize("kind", OWNED)
def test_each_owned_object_is_created(host: HostUnderTest, kind: str) -> None:
    owner = host.get($reconciled, "example")
    assert host.get(kind, $made).is_controlled_by(owner)


@pytest.mark.parametrize("kind", OWNED)
def test_a_deleted_object_is_repaired(host: HostUnderTest, kind: str) -> None:
    before = host.get(kind, $made)
    host.delete(kind, $made)
    host.settle()
    assert host.get(kind, $made).uid != before.uid


def test_nothing_fails_when_the_owner_is_deleted(host: HostUnderTest) -> None:
    host.delete($reconciled, "example")
    host.settle()
    assert host.find($reconciled, "example") is None
'''
_READY = """

def test_the_status_tells_how_many_are_ready(host: HostUnderTest) -> None:
    before = host.get($kind, "example").status
    assert before is not None
    assert not before.is_true("Available")
    ready = {"status": {"replicas": 2, "readyReplicas": 2}}
    host.patch("$workload", "example", ready$namespace, subresource="status")
    host.settle()
    after = host.get($kind, "example").status
    assert after is not None
    assert after.readyReplicas == 2
    assert after.is_true("Available")
"""
_APPLIED = """

def test_the_status_tells_that_all_is_made(host: HostUnderTest) -> None:
    status = host.get($kind, "example").status
    assert status is not None
    assert status.is_true("Ready")
"""
_REFUSED = """

def test_a_size_that_is_no_number_is_refused(host: HostUnderTest) -> None:
    host.patch("v1/ConfigMap", "example", {"data": {"size": "many"}})
    host.settle(allow=["terminal"])
    (run,) = [run for run in host.runs("configmap", "example") if run.error]
    assert "data.size: 'many' is not a number" in str(run.error)
"""
_TAIL = """

def test_the_rights_are_the_least(host: HostUnderTest) -> None:
    assert host.unused_rights() == []


def test_the_order_of_changes_does_not_matter() -> None:
    def apply(host: HostUnderTest) -> None:
        host.apply(EXAMPLE)

    def apply_another(host: HostUnderTest) -> None:
        host.apply(EXAMPLE.read_text(encoding="utf-8").replace("name: example", "name: another"))

    converges(plugin, [apply, apply_another], kinds=[$reconciled, *OWNED], runs=2)
"""


def conftest_source() -> str:
    """Return the text of `conftest.py`."""
    return _CONFTEST


def test_source(choices: Choices) -> str:
    """Return the text of the tests of the reconciler."""
    first = choices.owns[0]
    status = (_READY if first.has_replicas else _APPLIED) if choices.kind else _REFUSED
    own_name_taken = not choices.kind and any(child.kind == "ConfigMap" for child in choices.owns)
    # What an object without a namespace makes is in that of the settings.
    namespace = ', "default"' if choices.cluster_scoped else ""
    names = f"{choices.kind}, plugin" if choices.kind else "plugin"
    values = {
        "import": _import(choices.module, names),
        "file": choices.file,
        "owns": ", ".join(f'"{child.reference}"' for child in choices.owns),
        "reconciled": choices.kind or '"v1/ConfigMap"',
        "made": f'"{"example-made" if own_name_taken else "example"}"{namespace}',
        "namespace": namespace,
        "kind": choices.kind,
        "workload": first.reference,
    }
    return Template(_HEAD + status + _TAIL).substitute(values)


def _import(module: str, names: str) -> str:
    line = f"from {module} import {names}"
    if len(line) <= LINE_LENGTH:
        return line
    return "\n".join([f"from {module} import (", *(f"    {name}," for name in names.split(", ")), ")"])
