"""What admission webhooks say to the writes of a test: warnings and denials."""

from __future__ import annotations

import re
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ctrlhost.cache import Object
from ctrlhost.errors import ApiError, Denied
from ctrlhost.transport.steps import Send
from ctrlhost.transport.wrapped import WrappedTransport

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ctrlhost.client import Client
    from ctrlhost.transport.interface import HttpRequest, Response, Transport
    from ctrlhost.transport.steps import Steps

#: The header `Warning`: code, agent, and the text in quotes.
_WARNING = re.compile(r'\d{3} \S+ "((?:[^"\\]|\\.)*)"')
_CONFIGURATIONS = "admissionregistration.k8s.io/v1"
#: The label of what the kit's own webhooks refuse.
_MARKER = "marker.ctrlhost.dev/called"
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
        # The server writes UTF-8; transports read headers as Latin-1.
        header = response.headers.get("warning", "").encode("latin-1", "replace").decode("utf-8", "replace")
        texts = _WARNING.findall(header)
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


def wait_until_called(client: Client, timeout: float) -> None:
    """Wait until a real server calls the webhooks that were registered so far; TimeoutError after so many seconds.

    It learns of configurations in their order, so it calls these once it calls others that were registered later. No
    plugin can have a webhook on Leases.
    """
    deadline, name = time.monotonic() + timeout, f"{client.namespace}-marker"
    trying = client.derive(transport=AdmissionTransport(client.transport, without_effect=True))
    for sort in ("Mutating", "Validating"):
        labels = {_MARKER: f"{name}-{sort}"}
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": client.namespace, "labels": labels},
        }
        kind = f"{sort}WebhookConfiguration"
        client.apply(_marker(kind, name, labels))
        try:
            while not _is_refused(trying, lease):
                if time.monotonic() >= deadline:
                    raise TimeoutError(f"the server does not call webhooks {timeout:g} s after their registration")
                time.sleep(0.02)
        finally:
            client.delete(_CONFIGURATIONS, kind, name)


def _is_refused(client: Client, obj: dict[str, Any]) -> bool:
    try:
        client.create(obj)
    except ApiError:
        return True
    return False


def _marker(kind: str, name: str, labels: dict[str, str]) -> dict[str, Any]:
    """Return the configuration of a webhook that nobody answers for."""
    webhook = {
        "name": "marker.kit.ctrlhost.dev",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [
            {
                "apiGroups": ["coordination.k8s.io"],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["leases"],
            }
        ],
        "objectSelector": {"matchLabels": labels},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "timeoutSeconds": 1,
        "admissionReviewVersions": ["v1"],
    }
    return {"apiVersion": _CONFIGURATIONS, "kind": kind, "metadata": {"name": name}, "webhooks": [webhook]}
