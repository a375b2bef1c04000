from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ctrlhost import Client
from ctrlhost.testing import FaultProxy


@pytest.fixture
def proxy(faults: Any) -> FaultProxy:
    made: FaultProxy = faults(seed=1)
    return made


@pytest.fixture
def client(proxy: FaultProxy) -> Iterator[Client]:
    made = Client.load(proxy.kubeconfig)
    yield made
    made.close()
