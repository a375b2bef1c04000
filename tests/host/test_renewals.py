"""Renewals of a lease wait for no request of a plugin, and for no credentials while those at hand are good."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from ctrlhost import TransportError
from ctrlhost.testing.fault_proxy import Fault
from tests.support.elections import LIMIT, lease, written
from tests.support.exec_program import ExecProgram
from tests.support.plugin_modules import config_map, plugin_of
from tests.support.waiting import eventually
from tests.support.workqueue_threads import Background

behaviour = pytest.mark.behaviour


@pytest.fixture
def program(tmp_path: Path) -> Iterator[ExecProgram]:
    with closing(ExecProgram(tmp_path)) as program:
        # Each run gives another credential, which the server accepts.
        program.set("expires", "2199-01-01T00:00:0{number}Z")
        yield program


def with_program(source: Path, program: ExecProgram) -> Path:
    """Return a copy of a kubeconfig whose token comes from a program."""
    config = yaml.safe_load(source.read_text(encoding="utf-8"))
    program.set("token", config["users"][0]["user"]["token"])
    config["users"][0]["user"] = program.user
    path = program.folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


@behaviour("supervision/LD18")
@behaviour("supervision/CR6")
def test_renewals_are_in_time_while_requests_and_the_exec_program_hang(
    sandbox, faults, ctrlhost_host, program: ExecProgram
) -> None:
    proxy = faults(sandbox)
    captured: list[Any] = []
    host = ctrlhost_host(
        plugin_of(captured.append, "bad"),
        sandbox=sandbox,
        through=SimpleNamespace(kubeconfig=with_program(proxy.kubeconfig, program)),
        leader_elect=True,
        leader_elect_lease_duration="5s",
        leader_elect_renew_deadline="4s",
        leader_elect_retry_period="100ms",
    )
    (plugin,) = captured
    eventually(lambda: plugin.term == 1, LIMIT)
    host.client.create(config_map("x"))
    program.hold()
    # The server answers none of these.
    proxy.next(Fault.stall(), verb="get", resource="secrets", times=32)
    hanging = [Background(plugin.client.find, "v1", "Secret", "none", "default") for _ in range(32)]
    eventually(lambda: proxy.left() == 0, LIMIT)
    # It rejects the token of these, and the program does not answer: some give up, the others wait.
    proxy.next(Fault.answer(401), verb="get", resource="configmaps", times=20)
    get = functools.partial(plugin.client.get, "v1", "ConfigMap", "x", "default")
    hurried = [Background(functools.partial(get, timeout=0.2)) for _ in range(5)]
    patient = [Background(functools.partial(get, timeout=LIMIT)) for _ in range(15)]
    eventually(lambda: proxy.left() == 0 and program.runs == 2, LIMIT)
    for request in hurried:
        with pytest.raises(TransportError):
            request.result()
    renewals = len(written(host, "leases"))
    # Twice as long as the lease lasts.
    eventually(lambda: len(written(host, "leases")) >= renewals + 100, LIMIT)
    assert plugin.term == 1, "never lost"
    assert lease(host.client)["leaseTransitions"] == 0
    assert all(request.waits for request in (*hanging, *patient))
    program.release()
    for request in patient:
        assert request.result()["metadata"]["name"] == "x"
    assert program.runs == 2
    # Let the requests that hang fail.
    proxy.drop()
    for request in hanging:
        with contextlib.suppress(TransportError):
            assert request.result() is None
