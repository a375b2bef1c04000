"""Tokens that another program renews in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctrlhost.errors import ConfigError
from ctrlhost.kubeconfig import credentials
from ctrlhost.kubeconfig.credentials import TokenFile

pytestmark = pytest.mark.behaviour("scale/SC50")


@pytest.fixture(autouse=True)
def check_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "_CHECK_INTERVAL", 0.0)


def test_a_changed_token_is_sent_before_the_old_one_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    token = TokenFile(file)
    assert token.authorization(1) == "Bearer first"
    file.write_text("second, longer")
    assert token.authorization(1) == "Bearer second, longer"
    assert not token.refresh("Bearer second, longer", 1)
    assert token.refresh("Bearer first", 1), "it was replaced meanwhile"


def test_a_token_replaced_the_way_the_kubelet_does_is_found(tmp_path: Path) -> None:
    # A symlink to a folder is replaced by another: size and name of the file may stay the same.
    for version, text in (("1", "aaaa"), ("2", "bbbb")):
        (tmp_path / version).mkdir()
        (tmp_path / version / "token").write_text(text)
    link = tmp_path / "data"
    link.symlink_to(tmp_path / "1")
    token = TokenFile(link / "token")
    assert token.authorization(1) == "Bearer aaaa"
    (tmp_path / "new").symlink_to(tmp_path / "2")
    (tmp_path / "new").rename(link)
    assert token.authorization(1) == "Bearer bbbb"


def test_the_last_token_is_used_while_the_file_is_missing_or_empty(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first")
    token = TokenFile(file)
    file.write_text("")
    assert token.authorization(1) == "Bearer first"
    file.unlink()
    assert token.authorization(1) == "Bearer first"
    assert not token.refresh("Bearer first", 1)
    file.write_text("second")
    assert token.refresh("Bearer first", 1)
    assert token.authorization(1) == "Bearer second"


def test_a_missing_token_is_an_error_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="token file"):
        TokenFile(tmp_path / "none")
    (tmp_path / "empty").write_text(" \n")
    with pytest.raises(ConfigError, match="is empty"):
        TokenFile(tmp_path / "empty")
