"""Fixtures of pytest: an API server for each test, for any client in any framework."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from ctrlhost_sandbox.server.server import Sandbox


class Hooks:
    """The hook of this plugin, which a conftest.py or another plugin may implement."""

    @pytest.hookspec(firstresult=True)
    def pytest_sandbox_arguments(self, request: pytest.FixtureRequest) -> Mapping[str, Any] | None:
        """Return the arguments of `Sandbox` for the fixture `sandbox` of a test."""


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Register the hook."""
    pluginmanager.add_hookspecs(Hooks)


@pytest.fixture
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A new, empty API server for the test; the hook `pytest_sandbox_arguments` chooses its arguments."""
    from ctrlhost_sandbox.server.server import Sandbox

    arguments = request.config.hook.pytest_sandbox_arguments(request=request)
    with Sandbox(**(arguments or {})) as server:
        yield server


@pytest.fixture
def kubeconfig(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of the kubeconfig of the test's `sandbox`; `KUBECONFIG` names it during the test."""
    monkeypatch.setenv("KUBECONFIG", str(sandbox.kubeconfig))
    return sandbox.kubeconfig
