"""Random faults of the fault proxy: their seed and their log."""

from __future__ import annotations

from typing import Any

import pytest
from ctrlhost_sandbox import Sandbox

import ctrlhost
from ctrlhost import Client, ServerError
from ctrlhost.testing import Fault, FaultProxy
from tests.unit.testing.proxied import MAPS, list_maps


def outcomes(proxy: FaultProxy, kinds: dict[str, float]) -> list[str]:
    proxy.storm(0.5, seed=42, kinds=kinds)
    client = Client.load(proxy.kubeconfig)
    for _ in range(60):
        try:
            list_maps(client)
        except ctrlhost.CtrlhostError:
            continue
    proxy.calm()
    client.close()
    return [f"{fault.fault} {fault.verb} {fault.path} {fault.nth}" for fault in proxy.log]


def test_a_seed_reproduces_the_same_faults(faults: Any, sandbox: Sandbox) -> None:
    kinds = {"answer": 1.0, "delay": 1.0, "truncate": 1.0}
    first, second = outcomes(faults(sandbox), kinds), outcomes(faults(sandbox), kinds)
    assert len(first) > 20
    assert first == second
    assert {line.partition("kind='")[2].partition("'")[0] for line in first} == set(kinds)


def test_the_log_names_the_seed_and_its_faults(proxy: FaultProxy, client: Client) -> None:
    proxy.next(Fault.answer(500), verb="list")
    with pytest.raises(ServerError):
        list_maps(client)
    assert proxy.storm(1.0, kinds={"answer": 1}) == 1
    with pytest.raises(ctrlhost.ApiError):
        list_maps(client)
    ordered, drawn = proxy.log
    assert str(ordered) == f"#1 answer on list {MAPS} (1. of its kind, ordered)"
    assert str(drawn) == f"#2 answer on list {MAPS} (2. of its kind, seed 1)"
    assert (ordered.seed, drawn.seed) == (None, 1)


def test_the_seed_comes_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, sandbox: Sandbox, faults: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CTRLHOST_SEED", "77")
    assert faults(sandbox).seed == 77
    assert "CTRLHOST_SEED=77" in capsys.readouterr().out


def test_random_faults_of_an_unknown_kind_are_refused(proxy: FaultProxy) -> None:
    with pytest.raises(ValueError, match="unknown kinds of faults: rain"):
        proxy.storm(kinds={"rain": 1})
