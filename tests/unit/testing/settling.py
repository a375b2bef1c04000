"""Plugins with one controller of some ConfigMaps, and why their hosts do not settle."""

from __future__ import annotations

from typing import Any

import pytest

from ctrlhost import For
from ctrlhost.testing import NotSettled
from tests.support.plugin_modules import config_map, plugin_of

MINE = For("v1", "ConfigMap", label_selector="mine")
ANN = config_map("ann", labels={"mine": "1"})


def reconciling(reconcile: Any, *sources: Any, **options: Any) -> Any:
    return plugin_of(lambda plugin: plugin.add_controller("c", reconcile, *(sources or (MINE,)), **options))


def not_settled(host: Any, **options: Any) -> str:
    """Return why a host does not settle."""
    with pytest.raises(NotSettled) as caught:
        host.settle(**options)
    assert isinstance(caught.value, AssertionError)
    return str(caught.value)
