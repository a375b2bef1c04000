"""Tests that need more than Python and Rust, which have the marker `real`."""

from __future__ import annotations

import pytest

#: Fixtures that need a program: Go builds the servers, kubectl and helm; the others are fetched.
FIXTURES = {
    "bitcoind",
    "browser",
    "golden",
    "helm",
    "kube_apiserver",
    "kubectl",
    "own_kube_apiserver",
    "real_server",
    "workload_kube_apiserver",
}

#: Parameters of fixtures that choose one of those.
PARAMETERS = {"bitcoind", "kube-apiserver"}


def mark_if_real(item: pytest.Item) -> None:
    """Add the marker `real` to a test whose fixtures need a program; other tests have it in their source."""
    fixtures = getattr(item, "fixturenames", ())
    callspec = getattr(item, "callspec", None)
    chosen = (value for value in callspec.params.values() if isinstance(value, str)) if callspec else ()
    if not FIXTURES.isdisjoint(fixtures) or not PARAMETERS.isdisjoint(chosen):
        item.add_marker(pytest.mark.real)
