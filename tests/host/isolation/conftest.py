"""A host process with a plugin `good`, and a plugin `bad` in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from ctrlhost_sandbox import Sandbox

from ctrlhost.client import Client
from tests.host.conftest import Distributions, StartHost, distributions, start_host
from tests.support.isolated import BAD, GOOD, IsolatedHost

__all__ = ["distributions", "start_host"]


@pytest.fixture
def client(sandbox: Sandbox) -> Iterator[Client]:
    client = Client.load(sandbox.kubeconfig)
    yield client
    client.close()


@pytest.fixture
def isolated(sandbox: Sandbox, start_host: StartHost, distributions: Distributions) -> Callable[..., IsolatedHost]:
    """Start a host with `good` and the isolated `bad`, with these settings of `bad`."""

    def start(*arguments: str, bad: str = BAD, **supervision: str) -> IsolatedHost:
        distributions.add("good", GOOD)
        distributions.add("bad", bad)
        set_ = [f"--set=supervision.bad.{name}={value}" for name, value in supervision.items()]
        own = f"--kubeconfig={sandbox.kubeconfig}"
        process = start_host(own, "--isolate=bad", *set_, *arguments, plugins="good,bad", RUST_BACKTRACE="0")
        return IsolatedHost(process, sandbox)

    return start
