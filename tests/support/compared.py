"""The answers of the sandbox and of a real kube-apiserver to the same creation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.http_client import Answer, Api

Shown = tuple[int, list[tuple[str, str, str]], list[str]]
"""A status code, the causes as reason, field and message, and the warnings."""
Compare = Callable[[str, Any], Shown]


def shown(answer: Answer) -> Shown:
    details = answer.json().get("details") or {} if answer.status >= 400 else {}
    causes = [(cause["reason"], cause["field"], cause["message"]) for cause in details.get("causes") or ()]
    return answer.status, causes, answer.warnings


def compare(ours: Api, theirs: Api) -> Compare:
    """Return a function that creates an object on both, without storing it, and requires equal answers."""

    def asked(path: str, body: Any) -> Shown:
        found, wanted = (shown(api.post(path, body, dryRun="All")) for api in (ours, theirs))
        assert found == wanted
        return found

    return asked
