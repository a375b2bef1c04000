from __future__ import annotations

import pytest

from ctrlhost.cache import SharedInformer
from ctrlhost.testing import ManualClock


@pytest.fixture
def informer(clock: ManualClock) -> SharedInformer:
    return SharedInformer("pods", "v1", "Pod", clock=clock)
