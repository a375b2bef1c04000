"""The table of differences in docs/sandbox.md has no obsolete rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sandbox.tests.clients.comparison import Comparison, Difference, Server
from sandbox.tests.clients.conftest import FAILED


def test_every_difference_has_its_reason(differences: list[Difference]) -> None:
    assert differences
    assert [row for row in differences if not row.why or not (row.real or row.sandbox)] == []


@pytest.mark.parametrize(
    ("listed", "refused"),
    [
        ([], True),
        ([Difference("a test: a step", "size: 1", "size: 2", "why")], False),
        ([Difference("a test: a step", "size: 1", "", "why")], True),
        ([Difference("a test: another step", "size: *", "size: *", "why")], True),
        ([Difference("a test: a *", "*", "*", "why")], False),
    ],
)
def test_an_unlisted_difference_fails_the_comparison(
    sandbox_server: Server, real_server: Server, listed: list[Difference], refused: bool
) -> None:
    servers = [replace(server, steps=[], unexpected=[]) for server in (sandbox_server, real_server)]
    compare = Comparison(*servers, listed, set())

    def steps(server: Server) -> None:
        server.note("a step", {"kept": "the same", "size": 2 if server.kind == "sandbox" else 1})

    if refused:
        with pytest.raises(AssertionError, match="size: "):
            compare("a test", steps)
    else:
        compare("a test", steps)


def test_a_step_on_only_one_server_fails_the_comparison(sandbox_server: Server, real_server: Server) -> None:
    servers = [replace(server, steps=[], unexpected=[]) for server in (sandbox_server, real_server)]
    compare = Comparison(*servers, [Difference("*", "*", "*", "why")], set())
    with pytest.raises(AssertionError):
        compare("a test", lambda server: server.note(f"a step of {server.kind}", 1))


@pytest.mark.real
def test_every_listed_difference_occurs(
    request: pytest.FixtureRequest, differences: list[Difference], used_differences: set[Difference]
) -> None:
    chosen = {item.path for item in request.session.items}
    if not set(request.path.parent.glob("test_*.py")) <= chosen or request.config.getoption("-k"):
        pytest.skip("only a run of the whole directory uses every difference")
    if failed := request.config.stash.get(FAILED, []):
        pytest.skip(f"a test beside this one failed, after which not every difference is used: {', '.join(failed)}")
    assert [row for row in differences if row not in used_differences] == []
