"""Secrets in settings: where they come from, and where they do not show."""

from __future__ import annotations

import copy
import json
import logging
import pickle
from pathlib import Path

import msgspec
import pytest

from ctrlhost import ConfigError, Secret
from ctrlhost.config.load import Configuration


class Settings(msgspec.Struct, rename="kebab"):
    api_token: Secret = Secret()
    other: Secret | None = None
    plain_file: str = ""


def read(file: Path | None = None, assignments: tuple[str, ...] = (), **environment: str) -> Settings:
    variables = {f"CTRLHOST_PLUGINS__X__{name}": value for name, value in environment.items()}
    settings = Configuration.gather(file, variables, assignments).plugin("x", Settings)
    assert settings is not None
    return settings


def test_a_secret_comes_from_each_source(tmp_path: Path) -> None:
    kept, toml = tmp_path / "token", tmp_path / "ctrlhost.toml"
    kept.write_text("from a file\n")
    assert read(API_TOKEN="123").api_token.value == "123"
    assert read(API_TOKEN_FILE=str(kept)).api_token.value == "from a file"
    assert read(None, (f"x.api-token.file={kept}",)).api_token.value == "from a file"
    assert read(None, ("x.other=[a,b]",)).other == Secret("[a,b]")
    toml.write_text(f'[plugins.x]\napi-token = {{file = "{kept}"}}\nother = "inline"\nplain-file = "a name"\n')
    settings = read(toml)
    assert (settings.api_token.value, settings.other, settings.plain_file) == (
        "from a file",
        Secret("inline"),
        "a name",
    )


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ('api-token = {file = "/nowhere"}', "plugins.x.api-token: cannot read `/nowhere`: No such file or directory"),
        ("api-token = 5", "plugins.x.api-token: a secret must be a text, got int"),
        ('api-token = {path = "s3cr3t"}', 'plugins.x.api-token: expected a text, or `{file = "/path"}`'),
    ],
)
def test_an_unusable_secret_is_refused_without_its_value(tmp_path: Path, table: str, why: str) -> None:
    toml = tmp_path / "ctrlhost.toml"
    toml.write_text(f"[plugins.x]\n{table}\n")
    with pytest.raises(ConfigError) as caught:
        read(toml)
    assert str(caught.value).startswith(why)
    assert "s3cr3t" not in str(caught.value)


def test_a_secret_given_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"plugins\.x\.api-token: given twice, as a text and as a file"):
        read(API_TOKEN="a", API_TOKEN_FILE="/b")


def test_only_the_value_shows_a_secret() -> None:
    secret = Secret("s3cr3t")
    text = f"{secret} {secret!r} {secret:>9} {[secret]} {secret!s}" + repr(msgspec.structs.asdict(Settings(secret)))
    assert "s3cr3t" not in text
    assert str(secret) == "***"
    assert b"s3cr3t" not in pickle.dumps(secret)
    assert pickle.loads(pickle.dumps(secret)).value == "***"
    assert "s3cr3t" not in json.dumps(secret, default=str)
    configuration = Configuration.gather(None, {"CTRLHOST_PLUGINS__X__API_TOKEN": "s3cr3t"})
    assert "s3cr3t" not in repr(configuration) + repr(configuration.tree)
    assert (secret == Secret("s3cr3t"), secret == Secret("other"), secret == "s3cr3t") == (True, False, False)
    assert hash(secret) == hash(Secret("s3cr3t"))
    assert (bool(secret), bool(Secret())) == (True, False)
    assert copy.copy(secret).value == copy.deepcopy([secret])[0].value == "s3cr3t"
    with pytest.raises(TypeError, match="a secret must be a text, got bytes"):
        Secret(b"s3cr3t")  # type: ignore[arg-type]


def test_a_secret_on_the_command_line_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "ctrlhost.config")
    read(API_TOKEN="a")
    assert not caplog.messages
    read(None, ("x.api-token=s3cr3t",))
    (line,) = caplog.messages
    assert "plugins.x.api-token is a secret, and `ps` shows" in line
    assert "s3cr3t" not in line
