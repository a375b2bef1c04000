"""Route requests to verb handlers."""

from __future__ import annotations

import logging
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote

import msgspec

from ctrlhost_sandbox.admission import webhooks
from ctrlhost_sandbox.api import openapi, resources
from ctrlhost_sandbox.api.discovery import Discovery
from ctrlhost_sandbox.api.metrics import Metrics
from ctrlhost_sandbox.api.responses import document, in_lines, is_pretty, json_answer, warnings
from ctrlhost_sandbox.apimachinery import status
from ctrlhost_sandbox.apimachinery.status import Failure, Raced
from ctrlhost_sandbox.auth.authorizer import refusal
from ctrlhost_sandbox.auth.identity import Identity
from ctrlhost_sandbox.auth.signing import ALGORITHM
from ctrlhost_sandbox.auth.tokens import ISSUER
from ctrlhost_sandbox.encoding import negotiation
from ctrlhost_sandbox.http.messages import NotYet, Request, Response, Stream, derive_attributes
from ctrlhost_sandbox.registry import meta

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ctrlhost_sandbox.apimachinery.objects import User
    from ctrlhost_sandbox.auth.audit import Audit
    from ctrlhost_sandbox.auth.authorizer import Authorizer
    from ctrlhost_sandbox.context import ServerContext
    from ctrlhost_sandbox.http.messages import Attributes

_log = logging.getLogger("ctrlhost_sandbox.app")
_KEYS, _ISSUER = "/openid/v1/jwks", "/.well-known/openid-configuration"
_PATHS = [
    *(_ISSUER, "/api", "/api/v1", "/apis", "/healthz", "/livez", "/metrics"),
    *("/openapi/v2", "/openapi/v3", _KEYS, "/readyz", "/version"),
]
_MOST_MISSING, _LONGEST_NAME = 1000, 300
_MOST_RACES = 4
"""How often a request begins again; kube-apiserver tries patches five times in all."""
_OPEN_PATHS = frozenset({"version", "healthz", "livez", "readyz"})


class TestEndpoints(Protocol):
    """The endpoints under /sandbox/, for tests only."""

    def answer(self, request: Request, parts: list[str], /) -> Response | None:
        """Handle a request under /sandbox/; None for an unknown path."""

    def raise_fault(self, attributes: Attributes, /) -> None:
        """Raise the injected fault for such a request, if any."""


class App:
    """The handler of one server. Runs in the server's own thread."""

    def __init__(
        self, context: ServerContext, *, tokens: Mapping[str, User] | None, audit: Audit, admin: TestEndpoints | None
    ) -> None:
        """Serve `context`; without `tokens` no client needs one."""
        self.context = context
        self.audit = audit
        self.identity = context.identity = Identity(tokens, context.tokens, context.authorizer)
        self.discovery = Discovery(context)
        self.openapi = openapi.OpenApi(context)
        self._metrics = Metrics(context)
        self.allowed_hosts: frozenset[str] = frozenset()
        self.admin = admin
        self.ready = False
        self._missing: set[tuple[str, str]] = set()

    def preparation(self, request: Request) -> Callable[[], None] | None:
        """Return the decoding of a large YAML body, if the client may send one."""
        if not negotiation.is_slow(request.headers.get("content-type", ""), request.body):
            return None
        try:
            self.identity.identify(request)
        except Failure:
            return None

        def decode() -> None:
            request.body = negotiation.DecodedYaml.of(request.body)

        return decode

    def handle(self, request: Request) -> Response | Stream:
        """Handle a request; failures become a Status."""
        try:
            answer = self._answered(request)
        except Failure as failure:
            answer = self.refuse(failure, request)
        except NotYet:
            raise
        except RecursionError:
            answer = self.refuse(status.bad_request("the request is nested too deeply"), request)
        except Exception as error:  # noqa: BLE001 - one request must not end the server
            _log.exception("request failed: %s %s", request.method, request.path)
            answer = self.refuse(status.internal(type(error).__name__), request)
        audit_id = meta.new_uid()
        answer.headers.append(("Audit-Id", audit_id))
        self.audit.add(request, answer, audit_id)
        self._metrics.count(request, answer.status if isinstance(answer, Response) else 200)
        if isinstance(answer, Response) and is_pretty(request) and not request.path.startswith("/openapi/"):
            in_lines(answer)
        if not any(name == "Cache-Control" for name, _ in answer.headers):
            answer.headers.append(("Cache-Control", "no-cache, private"))
        return answer

    def may_wait(self, request: Request) -> bool:
        """Return whether a request may have to wait for webhooks."""
        return webhooks.may_wait(self.context, writes=request.method != "GET")

    def _answered(self, request: Request) -> Response | Stream:
        """Answer a request; begin again if another one wrote its object while webhooks were called."""
        for _ in range(_MOST_RACES):
            with suppress(Raced):
                return self._route(request)
        return self._route(request)

    def refuse(self, failure: Failure, request: Request | None = None) -> Response:
        """Return the response for a failure, in JSON if the request could not be read."""
        headers = [("Retry-After", str(failure.retry_after))] if failure.code == 429 else []
        if failure.code == 401:
            headers.append(("WWW-Authenticate", "Bearer"))
        headers += warnings(failure.warnings)
        if request is None or failure.code == 406:
            answer = json_answer(failure.code, failure.as_dict())
        else:
            answer = document(request, failure.as_dict(), failure.code)
        if failure.code == 406:
            # No encoding was agreed on.
            in_lines(answer)
        answer.headers += headers
        return answer

    def _route(self, request: Request) -> Response | Stream:
        self._check_origin(request)
        parts = [unquote(part) for part in request.path.removeprefix("/").split("/")]
        if len(parts) > 1 and not parts[-1]:
            parts.pop()
        request.attributes = derive_attributes(request.method, parts, request.query)
        head = parts[0]
        if head in _OPEN_PATHS and request.method == "GET":
            return self._answer_open(head, request)
        user = self.identity.identify(request)
        if self.context.authorizer is not None:
            self._authorize(self.context.authorizer, request, user)
        if self.admin is not None:
            self.admin.raise_fault(request.attributes)
        if (head == "api" and len(parts) > 1) or (head == "apis" and len(parts) > 2):
            return self._resource(request, parts, user)
        if head == "sandbox" and self.admin is not None:
            return self.admin.answer(request, parts[1:]) or unknown_path()
        if request.method != "GET":
            raise status.no_such_method()
        answer: Response | None = None
        if head == "api":
            answer = self.discovery.root(request, core=True)
        elif head == "apis":
            answer = (
                self.discovery.root(request, core=False) if len(parts) == 1 else self.discovery.group(request, parts[1])
            )
        elif head == "openapi":
            answer = self.openapi.answer(request, parts[1:])
        elif parts == ["metrics"]:
            answer = self._metrics.answer()
        elif request.attributes.path in (_KEYS, _ISSUER):
            answer = self._issuer(request.attributes.path)
        elif parts == [""]:
            answer = json_answer(200, {"paths": _PATHS})
            in_lines(answer)
        return answer or unknown_path()

    def _authorize(self, authorizer: Authorizer, request: Request, user: User) -> None:
        assert request.attributes is not None
        decision = authorizer.authorize(user, request.attributes)
        request.annotations["authorization.k8s.io/decision"] = "allow" if decision.allowed else "forbid"
        request.annotations["authorization.k8s.io/reason"] = decision.reason
        if not decision.allowed:
            raise refusal(user, request.attributes, decision.reason)
        authorizer.note_use(user, request.attributes)

    def _resource(self, request: Request, parts: list[str], user: User) -> Response | Stream:
        if parts[0] == "api":
            group, version, rest = "", parts[1], parts[2:]
        else:
            group, version, rest = parts[1], parts[2], parts[3:]
        if not rest:
            described = self.discovery.group_version(request, group, version) if request.method == "GET" else None
            return described or unknown_path()
        answer = resources.answer(self.context, request, group, version, rest, user)
        return answer or self._unknown(group, version, rest)

    def _unknown(self, group: str, version: str, rest: list[str]) -> Response:
        """Return a 404 for an unknown resource; under a built-in group version it is a Status."""
        registry = self.context.registry
        plural = rest[2] if rest[0] == "namespaces" and len(rest) > 2 else rest[0]
        self._name_missing(group, version, plural)
        if any(registry.is_builtin(kind) for kind in registry if (kind.group, kind.version) == (group, version)):
            raise Failure(404, "NotFound", "the server could not find the requested resource")
        return unknown_path()

    def _name_missing(self, group: str, version: str, plural: str) -> None:
        """Log a resource that is not served, once."""
        name = status.qualified(plural, group)[:_LONGEST_NAME]
        if self.context.registry.find(group, version, plural) is None and len(self._missing) < _MOST_MISSING:
            if (name, version) not in self._missing:
                _log.warning("kind not served: %s in version %s; create its CRD first", name, version)
            self._missing.add((name, version))

    def _answer_open(self, head: str, request: Request) -> Response:
        if head == "version":
            answer = json_answer(200, version_info(self.context.options.version))
            in_lines(answer)
            return answer
        good = self.ready or head == "livez"
        text = "ok"
        if request.query.flag("verbose") or not good:
            mark = "[+]ready ok" if good else "[-]ready failed"
            if self.context.options.crd_conditions == "builtin":
                # As kube-apiserver shows that it accepts the names of CRDs itself.
                mark += "\n[+]poststarthook/start-apiextensions-controllers ok"
            text = f"{mark}\n{head} check {'passed' if good else 'failed'}\n"
        return Response(200 if good else 500, text.encode(), "text/plain; charset=utf-8")

    def _issuer(self, path: str) -> Response:
        """Return what another service needs to verify the tokens of service accounts."""
        if path == _KEYS:
            keys = {"keys": [self.context.tokens.key.public()]}
            answer = Response(200, msgspec.json.encode(keys), "application/jwk-set+json")
        else:
            document = {
                "issuer": ISSUER,
                "jwks_uri": f"https://{self.context.host}{_KEYS}",
                "response_types_supported": ["id_token"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": [ALGORITHM],
            }
            answer = Response(200, msgspec.json.encode(document))
        answer.headers.append(("Cache-Control", "public, max-age=3600"))
        return answer

    def _check_origin(self, request: Request) -> None:
        """Raise 403 for requests with a foreign host or from a browser."""
        # A tunnel has a port of its own.
        address = request.headers.get("host", "").lower()
        host = re.sub(r":[0-9]*$", "", address)
        # Clients send the server's own address as the origin of a WebSocket; a page of another server has another one.
        origin = request.headers.get("origin", "").lower()
        foreign = "origin" in request.headers and origin not in (f"https://{address}", f"http://{address}")
        if foreign or (self.allowed_hosts and host not in self.allowed_hosts):
            raise Failure(403, "Forbidden", "forbidden: the sandbox serves only its own address, and no browsers")


def unknown_path() -> Response:
    """Return a 404 for an unknown path."""
    return Response(404, b"404 page not found\n", "text/plain; charset=utf-8")


def version_info(version: str) -> dict[str, str]:
    """Return what `/version` answers."""
    major, minor, *_ = version.split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{version}+ctrlhost",
        "gitCommit": "0000000000000000000000000000000000000000",
        "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z",
        "goVersion": "go1.26",
        "compiler": "gc",
        "platform": "linux/amd64",
    }
