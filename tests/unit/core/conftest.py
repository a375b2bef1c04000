from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from ctrlhost.cache import SharedInformer
from ctrlhost.testing import ManualClock


@pytest.fixture
def informer(clock: ManualClock) -> SharedInformer:
    return SharedInformer("pods", "v1", "Pod", clock=clock)


@pytest.fixture
def patient() -> Iterator[None]:
    """Set a switch interval so long that a thread keeps the interpreter until it releases it by itself."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(20.0)
    yield
    sys.setswitchinterval(before)
