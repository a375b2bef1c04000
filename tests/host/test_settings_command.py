"""`ctrlhost settings`: values, defaults, sources and descriptions."""

from __future__ import annotations

import json
import re
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
    settings = {setting.pop("name"): setting for setting in json.loads(result.stdout)}
    assert settings == {
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
    blocks = re.split(r"\n(?=\S)", result.stdout)
    assert " ".join(blocks[1].split()) == f"mode = fast (from {file}) text, default slow. How to call it, and when."
    assert "s3cr3t" not in result.stdout + result.stderr


@pytest.mark.behaviour("operations/OP92")
def test_the_bundled_plugin_and_the_host_have_settings_and_another_plugin_has_none(
    ctrlhost: Any, distributions: Any
) -> None:
    distributions.add("plain", WITHOUT)
    bitcoin = ctrlhost("settings", "bitcoin", "--set=bitcoin.workers=7")
    assert bitcoin.returncode == 0
    assert (
        "\nworkers = 7  (from --set bitcoin.workers)\n    number, default 5. Networks that are reconciled at once.\n"
    ) in bitcoin.stdout
    host = ctrlhost("settings", "host", "--output=json", CTRLHOST_HOST__LOG_LEVEL="debug")
    (level,) = (setting for setting in json.loads(host.stdout) if setting["name"] == "log_level")
    assert (level["value"], level["source"]) == ("debug", "CTRLHOST_HOST__LOG_LEVEL")
    assert level["type"] == "debug or info or warning or error"
    plain = ctrlhost("settings", "plain")
    assert (plain.returncode, plain.stdout) == (0, "the plugin `plain` has no settings\n")
    assert json.loads(ctrlhost("settings", "plain", "--output=json").stdout) == []
    unknown = ctrlhost("settings", "bitcion")
    assert unknown.returncode == 2
    assert "did you mean `bitcoin`?" in unknown.stderr


@pytest.mark.behaviour("findings3/NO6")
@pytest.mark.parametrize("plugin", ["bitcoin", "hostname", "ingress-status", "naming", "host"])
def test_each_setting_of_ours_has_a_description_and_fits_the_terminal(ctrlhost: Any, plugin: str) -> None:
    settings = json.loads(ctrlhost("settings", plugin, "--output=json").stdout)
    assert settings
    assert [setting["name"] for setting in settings if not setting["description"]] == []
    # Durations are not texts, whatever the struct has.
    texts = [setting["name"] for setting in settings if re.fullmatch(r"(\d+(ms|[smh]))+", str(setting["value"]))]
    assert {setting["type"].split(" ")[0] for setting in settings if setting["name"] in texts} <= {"duration"}
    lines = ctrlhost("settings", plugin).stdout.splitlines()
    assert max(map(len, lines)) <= 80


META = """
from typing import Annotated

import ctrlhost
import msgspec

class Settings(msgspec.Struct):
    size: Annotated[int, msgspec.Meta(description="Shops at once.", ge=1)] = 2

@ctrlhost.hookimpl
def ctrlhost_settings():
    return Settings

@ctrlhost.hookimpl
def ctrlhost_setup(plugin):
    pass
"""


@pytest.mark.behaviour("findings3/NO6")
def test_a_description_may_be_in_the_type(ctrlhost: Any, distributions: Any) -> None:
    distributions.add("shops", META)
    assert ctrlhost("settings", "shops").stdout == "size = 2\n    number, default 2. Shops at once.\n"
