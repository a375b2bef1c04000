"""The answers of the sandbox and of a real kube-apiserver to the same creation."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.support.http_client import Answer, Api

Shown = tuple[int, list[tuple[str, str, str]], list[str]]
"""A status code, the causes as reason, field and message, and the warnings."""
Compare = Callable[[str, Any], Shown]


def outcome_of(answer: Answer) -> Shown:
    details = answer.json().get("details") or {} if answer.status >= 400 else {}
    causes = [(cause["reason"], cause["field"], cause["message"]) for cause in details.get("causes") or ()]
    return answer.status, causes, answer.warnings


def compare(ours: Api, theirs: Api) -> Compare:
    """Return a function that creates an object on both, without storing it, and requires equal answers."""

    def ask(path: str, body: Any) -> Shown:
        mine, wanted = (outcome_of(api.post(path, body, dryRun="All")) for api in (ours, theirs))
        assert mine == wanted, f"the sandbox: {mine}\nkube-apiserver: {wanted}"
        return mine

    return ask


@dataclass(frozen=True)
class Pair:
    """The sandbox and a real kube-apiserver, with a namespace of the same name on each."""

    ours: Api
    theirs: Api
    namespace: str

    def done(self, method: str, path: str, body: Any = None, **more: Any) -> tuple[Any, Any]:
        """Send a request that must succeed to both; return what they answer, the sandbox's first."""
        answers = [api.request(method, path, body, **more) for api in (self.ours, self.theirs)]
        return answers[0].expect(200, 201), answers[1].expect(200, 201)

    def ask(self, method: str, path: str, body: Any = None, **more: Any) -> tuple[int, dict[str, Any]]:
        """Send a request to both; require equal codes and failures, and return the sandbox's."""
        ours, wanted = (told(api.request(method, path, body, **more)) for api in (self.ours, self.theirs))
        assert ours == wanted, f"the sandbox: {ours}\nkube-apiserver: {wanted}"
        return ours


def told(answer: Answer) -> tuple[int, dict[str, Any]]:
    """Return the code, and for a failure its reason, message and causes, whose order is free, as that of lines is."""
    if answer.status < 400:
        return answer.status, {}
    body = answer.json()
    causes = (body.get("details") or {}).get("causes") or []
    ordered = sorted(causes, key=lambda cause: (cause.get("field", ""), cause.get("message", "")))
    message = "\n".join(sorted(body["message"].splitlines())) if len(causes) < 2 else ""
    message = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID", message)
    return answer.status, {"reason": body.get("reason", ""), "message": message, "causes": ordered}
