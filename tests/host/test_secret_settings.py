"""A secret setting of a plugin, from each source, reaches the plugin and shows nowhere."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from ctrlhost import Client
from tests.support.host_process import LIMIT
from tests.support.waiting import eventually

PLUGIN = """
import pickle

import ctrlhost
import msgspec
from starlette.responses import PlainTextResponse

class Settings(msgspec.Struct):
    token: ctrlhost.Secret

@ctrlhost.hookimpl
def ctrlhost_settings():
    return Settings

@ctrlhost.hookimpl
def ctrlhost_setup(plugin):
    settings = plugin.settings
    plugin.log.warning("%s %r %s", settings, settings.token, settings.token, extra={"token": settings.token})
    plugin.log.warning("pickled: %s", settings.token.value.encode() in pickle.dumps(settings.token))
    plugin.add_page("/", PlainTextResponse(f"{settings} {settings.token}"))
    plugin.add_task("write", lambda stop: write(plugin))

def write(plugin):
    data = {"token": plugin.settings.token.value}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "copy", "namespace": "default"}}
    plugin.client.create({**secret, "stringData": data})
    plugin.log.error("wrote %s", plugin.settings)
"""
VALUE = "s3cr3t-value"


@pytest.mark.behaviour("operations/OP114")
@pytest.mark.parametrize("source", ["environment", "file in the environment", "file in TOML", "--set"])
def test_a_secret_reaches_its_plugin_and_shows_nowhere(
    start_host: Any, distributions: Any, tmp_path: Path, source: str
) -> None:
    distributions.add("service", PLUGIN)
    kept, toml = tmp_path / "token", tmp_path / "ctrlhost.toml"
    kept.write_text(f"{VALUE}\n")
    toml.write_text(f'[plugins.service.token]\nfile = "{kept}"\n')
    environment = {
        "environment": {"CTRLHOST_PLUGINS__SERVICE__TOKEN": VALUE},
        "file in the environment": {"CTRLHOST_PLUGINS__SERVICE__TOKEN_FILE": str(kept)},
    }.get(source, {})
    flags = {"file in TOML": [f"--config={toml}"], "--set": [f"--set=service.token={VALUE}"]}.get(source, [])
    host = start_host("--sandbox", "--set=host.log_level=debug", *flags, plugins="service", **environment)
    client = Client.load(host.kubeconfig)
    copy = eventually(lambda: client.find("v1", "Secret", "copy", "default"), LIMIT, "copy of the secret")
    assert base64.b64decode(copy["data"]["token"]).decode() == VALUE
    host.line("pickled: False")
    assert host.line("Settings(token=Secret('***')) Secret('***') ***")["token"] == "***"
    bodies = [
        host.get(path)[1] for path in ("/service/", "/readyz?verbose", "/metrics", "/debug/stacks", "/debug/queues")
    ]
    assert bodies[0] == "Settings(token=Secret('***')) ***"
    # A diff of what the plugin would write.
    client.delete("v1", "Secret", "copy", "default")
    dry = start_host(f"--kubeconfig={host.kubeconfig}", "--dry-run", *flags, plugins="service", **environment)
    dry.line("dry run: would create Secret default/copy: stringData.token: ***")
    assert dry.stop() == 0
    assert host.stop() == 0
    texts = [*bodies, *(str(line) for process in (host, dry) for line in process.lines)]
    for form in (VALUE, base64.b64encode(VALUE.encode()).decode()):
        assert not [text for text in texts if form in text]
    warned = [line["msg"] for line in host.lines if "`ps` shows" in line["msg"]]
    assert bool(warned) == (source == "--set")


@pytest.mark.behaviour("findings3/NA14")
@pytest.mark.parametrize(
    "command", [("run", "--sandbox", "--listen="), ("check", "--offline"), ("manifests", "--image=i")]
)
def test_a_missing_secret_is_refused_with_the_ways_to_give_it(
    ctrlhost: Any, distributions: Any, command: tuple[str, ...]
) -> None:
    distributions.add("to-keep", PLUGIN)
    result = ctrlhost(command[0], "--plugins=to-keep", *command[1:])
    assert result.returncode == (1 if command[0] == "check" else 2)
    text = result.stdout + result.stderr
    assert "plugins.to-keep: object missing required field `token`" in text
    variable = "CTRLHOST_PLUGINS__TO_KEEP__TOKEN"
    assert f"the environment variable {variable}, or the path of its file as {variable}_FILE" in text
    assert "`ctrlhost manifests --secret to-keep.token=SECRET/KEY`" in text
    # These are ways to give it.
    printed = ctrlhost("settings", "to-keep", **{variable: "hunter2"})
    assert (printed.returncode, "hunter2" in printed.stdout) == (0, False)
    reference = ctrlhost("manifests", "--plugins=to-keep", "--image=i", "--secret=to-keep.token=logins/token")
    assert reference.returncode == 0
