"""Fake bitcoin daemons, for tests and demos of their clients."""

from ctrlhost_bitcoin.testing.daemon import PORT, Call, Fails, FakeDaemon, FakeHttp, Raw, Reply, Silent, Slow
from ctrlhost_bitcoin.testing.servers import FakeDaemons

__all__ = ["PORT", "Call", "Fails", "FakeDaemon", "FakeDaemons", "FakeHttp", "Raw", "Reply", "Silent", "Slow"]
