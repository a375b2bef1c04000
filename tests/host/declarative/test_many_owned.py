"""Many owned objects: a resync that finds them unchanged sends nothing."""

from __future__ import annotations

from typing import Any

import pytest
from ctrlhost_sandbox import Sandbox

import ctrlhost
from ctrlhost.declarative.desired import desired_of
from ctrlhost.testing import ManualClock
from tests.support.operators import ANNOTATION, Requests, controlled, errors, mine, operator
from tests.support.plugin_modules import config_map

OWNERS, CHILDREN, PERIOD = 10, 1_000, 600.0
NAMES = [f"owner-{owner}" for owner in range(OWNERS)]


def children(owner: str) -> list[dict[str, Any]]:
    return [config_map(f"{owner}-{number}", n=str(number)) for number in range(CHILDREN)]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.behaviour("authoring/AC21")
def test_a_resync_of_unchanged_objects_sends_no_request(ctrlhost_host, manual_clock: ManualClock) -> None:
    ensured: list[int] = []

    def reconcile(ctx: ctrlhost.Context, obj: ctrlhost.Object) -> None:
        ensured.append(sum(bool(ctx.ensure(child).uid) for child in children(obj.name)))

    with Sandbox(controllers=()) as sandbox:
        plugin = operator(reconcile, "v1/ConfigMap", every=PERIOD)
        host = ctrlhost_host(plugin, sandbox=sandbox, clock=manual_clock, start=False)
        for name in NAMES:
            owner = host.client.create(mine(name))
            for child in children(name):
                applied = controlled(child, owner)
                applied["metadata"]["annotations"] = {ANNOTATION: desired_of(child).digest}
                host.client.create(applied)
        requests = Requests(host)
        host.start().run_until_idle(120)
        first = len(ensured)
        assert first >= OWNERS
        # A period, and the jitter of each object.
        manual_clock.advance(1.1 * PERIOD)
        host.run_until_idle(120)
        assert len(ensured) == first + OWNERS
        assert set(ensured) == {CHILDREN}
        assert requests.new() == []
        assert errors(host) == 0
