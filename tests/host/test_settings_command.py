"""`ctrlhost settings`: values, defaults, sources and descriptions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

SERVICE = """
import ctrlhost
import msgspec

class Settings(msgspec.Struct):
    token: ctrlhost.Secret = ctrlhost.Secret("default s3cr3t")
    \"\"\"Password of the service.\"\"\"

    mode: str = "slow"
    \"\"\"How to call it,
    and when.\"\"\"

    every: ctrlhost.Duration = ctrlhost.Duration("30s")
    peers: tuple[str, ...] = ()
    workers: int = 2

@ctrlhost.hookimpl
def ctrlhost_settings():
    return Settings

@ctrlhost.hookimpl
def ctrlhost_setup(plugin):
    pass
"""
WITHOUT = "import ctrlhost\n\n@ctrlhost.hookimpl\ndef ctrlhost_setup(plugin):\n    pass\n"


@pytest.mark.behaviour("operations/OP92")
def test_each_setting_is_shown_with_its_source(ctrlhost: Any, distributions: Any, tmp_path: Path) -> None:
    distributions.add("service", SERVICE)
    file = tmp_path / "ctrlhost.toml"
    file.write_text('[plugins.service]\nmode = "fast"\nworkers = 3\n')
    environment = {"CTRLHOST_PLUGINS__SERVICE__TOKEN": "s3cr3t", "CTRLHOST_PLUGINS__SERVICE__PEERS": "a,b"}
    arguments = ("settings", "service", f"--config={file}", "--set=service.workers=4")
    result = ctrlhost(*arguments, "--output=json", **environment)
    assert result.returncode == 0, result.stderr
    found = {one.pop("name"): one for one in json.loads(result.stdout)}
    assert found == {
        "token": {
            "type": "secret",
            "value": "***",
            "default": "***",
            "source": "CTRLHOST_PLUGINS__SERVICE__TOKEN",
            "description": "Password of the service.",
        },
        "mode": {
            "type": "text",
            "value": "fast",
            "default": "slow",
            "source": str(file),
            "description": "How to call it, and when.",
        },
        "every": {"type": "duration", "value": "30s", "default": "30s", "source": "default", "description": ""},
        "peers": {
            "type": "list",
            "value": ["a", "b"],
            "default": [],
            "source": "CTRLHOST_PLUGINS__SERVICE__PEERS",
            "description": "",
        },
        "workers": {
            "type": "number",
            "value": 4,
            "default": 2,
            "source": "--set service.workers",
            "description": "",
        },
    }
    result = ctrlhost(*arguments, **environment)
    assert result.returncode == 0
    rows = [line.split(None, 5) for line in result.stdout.splitlines()]
    assert rows[0] == ["NAME", "TYPE", "VALUE", "DEFAULT", "SOURCE", "DESCRIPTION"]
    assert rows[2] == ["mode", "text", "fast", "slow", str(file), "How to call it, and when."]
    assert "s3cr3t" not in result.stdout + result.stderr


@pytest.mark.behaviour("operations/OP92")
def test_the_bundled_plugin_and_the_host_have_settings_and_another_plugin_has_none(
    ctrlhost: Any, distributions: Any
) -> None:
    distributions.add("plain", WITHOUT)
    bitcoin = ctrlhost("settings", "bitcoin", "--set=bitcoin.workers=7")
    assert bitcoin.returncode == 0
    (row,) = (line for line in bitcoin.stdout.splitlines() if line.startswith("workers "))
    assert row.split(None, 6)[1:] == [
        "number",
        "7",
        "5",
        "--set",
        "bitcoin.workers",
        "Networks that are reconciled at once.",
    ]
    host = ctrlhost("settings", "host", "--output=json", CTRLHOST_HOST__LOG_LEVEL="debug")
    (level,) = (one for one in json.loads(host.stdout) if one["name"] == "log_level")
    assert (level["value"], level["source"]) == ("debug", "CTRLHOST_HOST__LOG_LEVEL")
    assert level["type"] == "debug or info or warning or error"
    plain = ctrlhost("settings", "plain")
    assert (plain.returncode, plain.stdout) == (0, "the plugin `plain` has no settings\n")
    assert json.loads(ctrlhost("settings", "plain", "--output=json").stdout) == []
    unknown = ctrlhost("settings", "bitcion")
    assert unknown.returncode == 2
    assert "did you mean `bitcoin`?" in unknown.stderr
