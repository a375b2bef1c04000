"""A plugin whose reconciles compute a millisecond in Python, again and again; its log says how many it has done."""

from __future__ import annotations

import itertools
import time

import ctrlhost

#: About a millisecond.
STEPS = 20_000
#: Seconds between two lines.
PERIOD = 0.5


class Counted:
    """One plugin's reconciles; several plugins of a process are this module."""

    def __init__(self, plugin: ctrlhost.PluginContext) -> None:
        self._plugin = plugin
        self._numbers = itertools.count(1)
        self._done = 0

    def reconcile(self, _ctx: ctrlhost.Context, _request: ctrlhost.Request) -> ctrlhost.Result:
        value = 0
        for number in range(STEPS):
            value = (value * 31 + number) % 1_000_003
        self._done = next(self._numbers)
        return ctrlhost.Result(requeue_after=0.001)

    def tell(self, *_arguments: object) -> None:
        self._plugin.log.info("done %d at %f", self._done, time.monotonic())


@ctrlhost.hookimpl
def ctrlhost_setup(plugin: ctrlhost.PluginContext) -> None:
    counted = Counted(plugin)
    plugin.add_controller("compute", counted.reconcile, ctrlhost.For("v1", "Pod"))
    plugin.add_task("tell", counted.tell, every=PERIOD)
