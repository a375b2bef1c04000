"""A host with a kopf operator on the sandbox, and what its handlers were called with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ctrlhost_kopf as kopf
import pytest
from ctrlhost_kopf.plugin import Operator

from ctrlhost.testing import ManualClock
from plugins.kopf.tests.examples import CRD, KIND, example


@pytest.fixture
def ctrlhost_least_privilege() -> bool:
    """Return False: without a server, an operator does not know the groups of kinds that it names by their plurals."""
    return False


@pytest.fixture
def registry() -> kopf.OperatorRegistry:
    """The registry of a test's handlers."""
    return kopf.OperatorRegistry()


@pytest.fixture
def on(registry: kopf.OperatorRegistry) -> Any:
    """The decorators of `kopf.on` for that registry and the example kind."""

    class On:
        def __getattr__(self, name: str) -> Callable[..., Any]:
            def decorate(*args: Any, **options: Any) -> Any:
                kinds = () if name in ("startup", "cleanup", "probe") else args or ("kopfexamples",)
                return getattr(kopf.on, name)(*kinds, registry=registry, **options)

            return decorate

    return On()


class Running:
    """An operator in a host."""

    def __init__(self, host: Any, operator: Operator) -> None:
        self.host, self.operator, self.client = host, operator, host.client

    def create(self, name: str = "ex", **fields: Any) -> dict[str, Any]:
        """Create an object and wait until it is handled."""
        created: dict[str, Any] = self.client.create(example(name, **fields))
        self.host.run_until_idle()
        return created

    def patch(self, name: str = "ex", **fields: Any) -> None:
        """Change an object and wait until that is handled."""
        subresource = "status" if set(fields) == {"status"} else None
        self.client.patch(*KIND, name, "default", fields, subresource=subresource)
        self.host.run_until_idle()

    def label(self, name: str = "ex", **labels: Any) -> None:
        """Change labels of an object and wait until that is handled."""
        self.patch(name, metadata={"labels": labels})

    def delete(self, name: str = "ex") -> None:
        """Delete an object and wait until that is handled."""
        self.client.delete(*KIND, name, "default")
        self.host.run_until_idle()

    def get(self, name: str = "ex") -> dict[str, Any]:
        """Return an object."""
        obj: dict[str, Any] = self.client.get(*KIND, name, "default")
        return obj

    def find(self, name: str = "ex") -> dict[str, Any] | None:
        """Return an object; None if it is gone."""
        obj: dict[str, Any] | None = self.client.find(*KIND, name, "default")
        return obj

    def finalizers(self, name: str = "ex") -> list[str]:
        """Return the finalizers of an object."""
        return list(self.get(name)["metadata"].get("finalizers", ()))

    def progress(self, name: str = "ex") -> dict[str, str]:
        """Return the annotations of an object that keep the progress of handlers."""
        annotations = self.get(name)["metadata"].get("annotations", {})
        ours = "kopf.zalando.org/"
        return {
            key.removeprefix(ours): value
            for key, value in annotations.items()
            if key.startswith(ours) and key != f"{ours}last-handled-configuration"
        }

    def advance(self, seconds: float) -> None:
        """Move the clock and wait until what is due is handled."""
        self.host.clock.advance(seconds)
        self.host.run_until_idle()

    def writes(self, name: str = "ex") -> list[str]:
        """Return the writes of the operator to an object, as verb and subresource."""
        writes = [write for write in self.host.writes() if write.name == name and write.resource.startswith("kopfex")]
        return [f"{write.verb} {write.resource.partition('/')[2]}".strip() for write in writes]


@pytest.fixture
def start(ctrlhost_host: Any, manual_clock: ManualClock, registry: kopf.OperatorRegistry) -> Callable[..., Running]:
    """Start an operator with the test's handlers, by default on a server of its own with the example kind."""

    def start_operator(*objects: dict[str, Any], sandbox: Any = None, **attributes: Any) -> Running:
        operator = Operator(registry, "operator")
        for name, value in attributes.items():
            setattr(operator, name, value)
        host = ctrlhost_host(operator, clock=manual_clock, start=False, **({"sandbox": sandbox} if sandbox else {}))
        host.apply(CRD, *objects)
        host.start(check=True)
        host.run_until_idle()
        return Running(host, operator)

    return start_operator
