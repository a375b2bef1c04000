"""Caches that cannot be read: a token that is not accepted, a server that does not answer."""

from __future__ import annotations

import base64
import json
import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

import ctrlhost
from ctrlhost.host.outages import AFTER, AGAIN
from ctrlhost.testing import ManualClock
from tests.host.supervision.test_probes import fetch
from tests.support.plugin_modules import plugin_of
from tests.support.waiting import eventually

pytestmark = pytest.mark.behaviour("findings3/NO9")

LIMIT = 60.0


def setup(plugin: ctrlhost.PluginContext) -> None:
    plugin.add_controller("maps", lambda _ctx, _request: None, ctrlhost.For("v1", "ConfigMap"))


def expired_token() -> str:
    """Return a token in the form of Kubernetes', which no server accepts."""
    claims = base64.urlsafe_b64encode(json.dumps({"exp": 1_600_000_000}).encode()).decode().rstrip("=")
    return f"e30.{claims}.c2ln"


def kubeconfig(sandbox: Any, folder: Path, cause: str) -> Path:
    """Return a kubeconfig with a token that has expired, or with a server that does not exist."""
    config = yaml.safe_load(Path(sandbox.kubeconfig).read_text())
    if cause == "expired":
        config["users"][0]["user"] = {"token": expired_token()}
    else:
        config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:9"
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return file


@pytest.mark.parametrize("cause", ["expired", "dead"])
def test_one_error_names_the_account_and_what_to_do(
    cause: str, sandbox: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from ctrlhost.config.settings import HostSettings
    from ctrlhost.host.host import Host

    caplog.set_level(logging.INFO, "ctrlhost.host")
    file = kubeconfig(sandbox, tmp_path, cause)
    settings = HostSettings(kubeconfig=file, listen="127.0.0.1:0")
    clock = ManualClock()
    host = Host(settings, [plugin_of(setup, "maps")], clock=clock)
    host.start()

    def errors() -> list[str]:
        return [record.getMessage() for record in caplog.records if "cannot read the API server" in record.getMessage()]

    try:
        eventually(lambda: host.factory.informers()[0].status().reason, LIMIT)
        clock.advance(AFTER)
        (message,) = eventually(errors, LIMIT)
        name = yaml.safe_load(file.read_text())["users"][0]["name"]
        context = yaml.safe_load(file.read_text())["current-context"]
        assert f"context `{context}` of {file}" in message
        assert f"user `{name}`" in message
        moment = datetime.fromtimestamp(1_600_000_000, UTC)
        assert ("whose token expired at " + moment.strftime("%FT%TZ") in message) == (cause == "expired")
        hint = "give this user new credentials" if cause == "expired" else "check the address, the network"
        assert f"hint: {hint}" in message
        assert "e30." not in caplog.text

        line = "[-]informer/ConfigMap.v1 failed: listing"
        eventually(lambda: line in fetch(None, "/readyz?verbose", address=host.address or "")[1], LIMIT)
        clock.advance(AGAIN)
        eventually(lambda: len(errors()) == 2, LIMIT)
    finally:
        host.stop(0)
