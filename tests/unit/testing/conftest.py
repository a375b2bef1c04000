from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ctrlhost import Client
from ctrlhost.testing import FaultProxy


@pytest.fixture
def proxy(faults: Any) -> FaultProxy:
    fault_proxy: FaultProxy = faults(seed=1)
    return fault_proxy


@pytest.fixture
def client(proxy: FaultProxy) -> Iterator[Client]:
    api = Client.load(proxy.kubeconfig)
    yield api
    api.close()
