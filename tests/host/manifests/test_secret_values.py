"""Manifests show no value of a secret, wherever in the settings it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.manifests import SERVER, Printed, container

behaviour = pytest.mark.behaviour

#: Has secrets in each kind of setting that can hold some.
STORE = """
    import msgspec

    import ctrlhost

    class Database(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
        user: str = ""
        pass_word: ctrlhost.Secret | None = None
        standby: "Database | None" = None

    class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
        db: Database = Database()
        others: list[Database] = []
        named: dict[str, ctrlhost.Secret] = {}
        tokens: list[ctrlhost.Secret] = []

    @ctrlhost.hookimpl
    def ctrlhost_settings():
        return Settings

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        pass
"""


@pytest.fixture(autouse=True)
def plugins(distributions: Any) -> None:
    distributions.add("server", SERVER)
    distributions.add("store", STORE)


def refusal(result: Any) -> list[str]:
    """Return the error and the hint of a run that shows nothing of the secret."""
    assert result.returncode == 2, result.stderr
    assert "hunter2" not in result.stdout + result.stderr
    return [line for line in result.stderr.splitlines() if line.startswith(("error:", "hint:"))]


@behaviour("operations/OP151")
@pytest.mark.parametrize(
    ("file", "assignment", "setting", "mounted"),
    [
        ("[plugins.store.db]\npass_word = 'hunter2'", "store.db.pass-word=hunter2", "store.db.pass-word", True),
        (
            "[plugins.store.db.standby]\npass-word = 'hunter2'",
            "store.db.standby.pass-word=hunter2",
            "store.db.standby.pass-word",
            False,
        ),
        ("[plugins.store.named]\nmain = 'hunter2'", "store.named.main=hunter2", "store.named.main", False),
        ("[plugins.store]\ntokens = ['hunter2']", "store.tokens=hunter2", "store.tokens", False),
        (
            "[[plugins.store.others]]\npass-word = 'hunter2'",
            "store.others=[{pass-word='hunter2'}]",
            "store.others",
            False,
        ),
    ],
)
def test_secrets_inside_other_settings_are_refused(
    ctrlhost: Any, settings_file: Callable[[str], str], file: str, assignment: str, setting: str, mounted: bool
) -> None:
    hint = f"hint: leave it out, and write `--secret {setting}=SECRET/KEY`"
    expected = [
        f"error: plugins.{setting}: the manifests would show the secret",
        hint + (", or `--secret-file` for a file" if mounted else ""),
    ]
    for option in (settings_file(file), f"--set={assignment}"):
        assert refusal(ctrlhost("manifests", "--plugins=store", option)) == expected


@behaviour("operations/OP151")
def test_secrets_inside_other_settings_may_be_references(printed: Printed, settings_file: Callable[[str], str]) -> None:
    harmless = settings_file("[plugins.store]\ndb = {user = 'me'}\nothers = [{user = 'you'}]\n")
    manifests = printed("--plugins=store", harmless, "--secret-file=store.db.pass-word=logins/password")
    variables = {variable["name"]: variable for variable in container(manifests)["env"]}
    assert variables["CTRLHOST_PLUGINS__STORE__DB__PASS_WORD_FILE"]["value"].endswith("/logins/password")


@behaviour("operations/OP151")
def test_a_value_that_another_source_overrides_is_refused(ctrlhost: Any, settings_file: Callable[[str], str]) -> None:
    file = settings_file("[plugins.server]\ntoken = 'hunter2'\n")
    expected = "error: plugins.server.token: the manifests would show the secret"
    from_environment = ctrlhost("manifests", "--plugins=server", file, CTRLHOST_PLUGINS__SERVER__TOKEN="other")
    assert refusal(from_environment)[0] == expected
    path = "--set=server.token.file=/dev/null"
    for option in (file, "--set=server.token=hunter2"):
        assert refusal(ctrlhost("manifests", "--plugins=server", option, path))[0] == expected


@behaviour("operations/OP151")
def test_settings_of_plugins_that_are_not_deployed_are_refused(
    ctrlhost: Any, settings_file: Callable[[str], str]
) -> None:
    file = settings_file("[plugins.store.db]\npass-word = 'hunter2'\n")
    error = "error: plugins.store: the manifests would show these settings, but they deploy no plugin `store`"
    left_out = f"hint: leave the table out of {file.removeprefix('--config=')}"
    assert refusal(ctrlhost("manifests", "--plugins=server", file)) == [error, left_out]
    option = "--set=store.named.main=hunter2"
    assert refusal(ctrlhost("manifests", "--plugins=server", option)) == [error, "hint: leave out its `--set`"]
    # Those in the environment are not shown.
    passed = ctrlhost("manifests", "--plugins=server", "--image=host:1", CTRLHOST_PLUGINS__STORE__NAMED__MAIN="hunter2")
    assert passed.returncode == 0
    assert "hunter2" not in passed.stdout + passed.stderr
