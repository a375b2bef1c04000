"""What admission webhooks say to the writes of a test: warnings and denials."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ctrlhost.cache import Object
from ctrlhost.errors import ApiError, Denied
from ctrlhost.transport.steps import Send
from ctrlhost.transport.wrapped import WrappedTransport

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ctrlhost.transport.interface import HttpRequest, Response, Transport
    from ctrlhost.transport.steps import Steps

#: The header `Warning`: code, agent, and the text in quotes.
_WARNING = re.compile(r'\d{3} \S+ "((?:[^"\\]|\\.)*)"')
_DENIAL = re.compile(r'admission webhook "[^"]*" denied the request: ')


class Applied(list[Object]):
    """The objects as the server has them, in the order in which they were given, with its `warnings`."""

    def __init__(self, objects: Iterable[Object], warnings: Iterable[str] = ()) -> None:
        """Set the objects and the texts."""
        super().__init__(objects)
        self.warnings = tuple(warnings)


class AdmissionTransport(WrappedTransport):
    """Keeps the warnings of the answers; if wanted, nothing that it sends has an effect."""

    def __init__(self, transport: Transport, *, without_effect: bool) -> None:
        """Send through `transport`."""
        super().__init__(transport)
        self._without_effect = without_effect
        #: The texts so far.
        self.warnings: list[str] = []

    def steps(self, request: HttpRequest) -> Steps[Response]:
        """Return the response."""
        if self._without_effect and request.method != "GET":
            request = replace(request, query={**(request.query or {}), "dryRun": "All"})
        response: Response = yield Send(self.transport, request)
        texts = _WARNING.findall(response.headers.get("warning", ""))
        self.warnings += [re.sub(r"\\(.)", r"\1", text) for text in texts]
        return response


@contextmanager
def denials() -> Iterator[None]:
    """Raise the answer of a webhook that has refused a request as the `Denied` of its function."""
    try:
        yield
    except ApiError as error:
        match = _DENIAL.search(error.message)
        if match is None:
            raise
        field = next((cause["field"] for cause in error.causes if cause.get("field")), "")
        message = error.message[match.end() :].removeprefix(f"{field}: " if field else "")
        raise Denied(message, field=field, code=max(error.status, 400)) from error
