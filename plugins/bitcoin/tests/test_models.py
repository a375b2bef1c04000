"""The typed models in use."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from ctrlhost_bitcoin.models import BitcoinNetwork

from ctrlhost.cache import Object
from plugins.bitcoin.tests.cluster import NAME, NET


@pytest.mark.behaviour("bitcoin/U27")
@pytest.mark.behaviour("bitcoin/U28")
def test_networks_are_listed_as_typed_models(cluster: Any) -> None:
    cluster.start()
    cluster.net(2)
    cluster.idle()
    found = [msgspec.convert(one, BitcoinNetwork) for one in cluster.client.list(*NET, "test")]
    assert [(one.metadata.name, one.spec.nodes) for one in found] == [(NAME, 2)]
    decoded = Object(cluster.client.get(*NET, NAME, "test")).decode(BitcoinNetwork)
    assert decoded.status is not None
    assert decoded.status.observedGeneration == 1
