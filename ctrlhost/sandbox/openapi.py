"""OpenAPI documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlhost.sandbox.messages import Request, Response

if TYPE_CHECKING:
    from ctrlhost.sandbox.engine import Engine

# An almost empty document in protobuf: swagger "2.0", a title and a version. It lets kubectl validate by its own means.
_V2 = bytes.fromhex("0a03322e3012150a0a4b756265726e65746573120776312e33362e30")
_V2_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


class OpenApi:
    """Answers below /openapi."""

    def __init__(self, engine: Engine) -> None:
        """Describe the kinds of `engine`."""
        self._engine = engine

    def answer(self, request: Request, rest: list[str]) -> Response | None:
        """Answer a path; None if there is nothing there."""
        if rest == ["v2"]:
            return Response(200, _V2, _V2_TYPE)
        return None
