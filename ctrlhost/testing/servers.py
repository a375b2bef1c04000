"""Which API server a test runs on: a sandbox, or the one that `--ctrlhost-server` names."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctrlhost.errors import ConfigError
from ctrlhost.sandbox import load_sandbox
from ctrlhost.testing.real_server import Address, RealServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctrlhost_sandbox import Sandbox

#: The address that `--ctrlhost-server` names, None for a sandbox; and whether it may be on another machine.
_chosen: Address | None = None
_anywhere = False


def choose(text: str, *, anywhere: bool) -> None:
    """Run tests on `sandbox`, `kubeconfig:PATH` or `kubeconfig:PATH@CONTEXT`. Sends nothing.

    ConfigError for another text, for an invalid kubeconfig, and for a server on another machine unless `anywhere`.
    """
    global _chosen, _anywhere
    _anywhere = anywhere
    if text == "sandbox":
        _chosen = None
        return
    kind, _, path = text.partition(":")
    if kind != "kubeconfig" or not path:
        raise ConfigError(
            f"--ctrlhost-server={text}: unknown server",
            hint="`sandbox`, `kubeconfig:PATH` or `kubeconfig:PATH@CONTEXT`",
        )
    _chosen = _checked(Address.of(path))


def chosen() -> Address | None:
    """Return the address that `--ctrlhost-server` names; None for a sandbox."""
    return _chosen


@contextmanager
def start_server(server: Any = None, *, rbac: bool = False) -> Iterator[Sandbox | RealServer]:
    """Run a server for one test: a new sandbox, or a namespace of a real server that is empty again afterwards.

    `server` is the path of a kubeconfig, or anything with a `.kubeconfig`, in place of the chosen server; ConfigError
    for one on another machine, unless that is allowed.
    """
    address = _chosen if server is None else _checked(Address(Path(getattr(server, "kubeconfig", server)).expanduser()))
    if address is None:
        with load_sandbox().Sandbox(rbac=rbac) as sandbox:
            yield sandbox
        return
    real = RealServer(address)
    try:
        yield real
    finally:
        real.clean()


def _checked(address: Address) -> Address:
    if not (_anywhere or address.is_loopback()):
        raise ConfigError(
            f"the server of {address.kubeconfig} is not on this machine; plugins under test act on all its objects",
            hint="`--ctrlhost-server-yes` if that is intended",
        )
    return address
