"""`ctrlhost dev` with webhooks: they are registered by their address, and mutators are called twice."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

import ctrlhost
from tests.support.host_process import HostProcess
from tests.support.objects import config_map
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.host.conftest import Distributions

SOURCE = """
    import ctrlhost

    plugin = ctrlhost.Plugin()

    @plugin.mutate("v1/ConfigMap", label_selector="counted")
    def count(ctx, new, old):
        data = new.setdefault("data", {})
        data["calls"] = str(int(data.get("calls", 0)) + 1)
        return new

    @plugin.mutate("v1/ConfigMap", label_selector="named")
    def name(ctx, new, old):
        new.setdefault("data", {})["name"] = new["metadata"]["name"]
        return new
"""


@pytest.mark.behaviour("webhooks/WH4")
def test_a_mutator_that_is_not_stable_is_an_error_that_names_the_field(
    tmp_path: Path, distributions: Distributions
) -> None:
    file = tmp_path / "counter.py"
    file.write_text(dedent(SOURCE))
    dev = HostProcess(str(file), command="dev", environment=distributions.environment())
    try:
        client = ctrlhost.Client.load(dev.kubeconfig)
        registered = ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "counter.dev.ctrlhost")
        eventually(lambda: client.find(*registered), 60, "the configuration")
        assert client.create(config_map("ann", labels={"named": ""}))["data"]["name"] == "ann"
        with pytest.raises(ctrlhost.ServerError) as raised:
            client.create(config_map("bob", labels={"counted": ""}))
        assert "count is not stable: called again with its own result, it changes data.calls" in raised.value.message
        assert client.find("v1", "ConfigMap", "bob", "default") is None
        dev.line("count is not stable")
    finally:
        dev.end()
