"""Watches that break while objects change, so that only the next list shows the changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ctrlhost

if TYPE_CHECKING:
    from ctrlhost.testing import HostUnderTest


def cut_watches(host: HostUnderTest, *resources: str) -> None:
    """End all watches, and leave those of these resources closed until the test advances the host's clock.

    Their next request is answered with 410, so the host lists again and misses every event until then.
    """
    asleep = host.clock.waiters()
    for resource in resources:
        host.faults.next("watch", ctrlhost.TransportError("cut"), resource=resource)
    host.sandbox.drop_watches()
    host.wait_for(lambda: host.faults.left() == 0 and host.clock.waiters() >= asleep + len(resources))
    for resource in resources:
        host.faults.next("watch", ctrlhost.Expired("too old"), resource=resource)
