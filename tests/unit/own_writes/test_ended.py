"""Which answers to a write say that it has ended its object."""

from __future__ import annotations

from typing import Any

import pytest

from ctrlhost.own_writes.client import ended

DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("answer", "gone"),
    [
        ({"metadata": {}}, False),
        ({"kind": "Status"}, False),
        ({"metadata": DELETED}, True),
        ({"metadata": {**DELETED, "deletionGracePeriodSeconds": 0, "finalizers": []}}, True),
        ({"metadata": {**DELETED, "finalizers": ["example.com/keep"]}}, False),
        ({"metadata": {**DELETED, "deletionGracePeriodSeconds": 30}}, False),
        ({"kind": "Namespace", "metadata": DELETED, "spec": {"finalizers": ["kubernetes"]}}, False),
        ({"kind": "Namespace", "metadata": DELETED, "spec": {}}, True),
    ],
)
def test_an_object_without_finalizers_and_grace_period_ends(answer: dict[str, Any], gone: bool) -> None:
    assert ended(answer) is gone
