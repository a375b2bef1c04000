"""The user of a request: client certificates, bearer tokens and impersonation."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from ctrlhost_sandbox.apimachinery.objects import ADMIN, User
from ctrlhost_sandbox.apimachinery.status import Failure, bad_request
from ctrlhost_sandbox.auth.tokens import AUDIENCES
from ctrlhost_sandbox.http.messages import Attributes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ctrlhost_sandbox.auth.authorizer import Authorizer
    from ctrlhost_sandbox.auth.tokens import ServiceAccountTokens
    from ctrlhost_sandbox.http.messages import Request

AUTHENTICATED, UNAUTHENTICATED = "system:authenticated", "system:unauthenticated"
ANONYMOUS = User("system:anonymous", (UNAUTHENTICATED,))
_ACCOUNT = "system:serviceaccount:"
_AUTHENTICATION = "authentication.k8s.io"
_EXTRA = "impersonate-extra-"


class Identity:
    """Authenticates the requests of one server. Runs in the server's own thread."""

    def __init__(
        self, tokens: Mapping[str, User] | None, accounts: ServiceAccountTokens, authorizer: Authorizer | None
    ) -> None:
        """Accept `tokens` and those of service `accounts`; without `tokens` every client is the administrator."""
        self._tokens = None if tokens is None else dict(tokens)
        self._accounts = accounts
        self._authorizer = authorizer

    def add(self, token: str, user: User) -> None:
        """Accept another token."""
        if self._tokens is not None:
            self._tokens[token] = user

    def identify(self, request: Request) -> User:
        """Return the effective user of a request, and set it there; 401 if there is none."""
        user = request.user = self._authenticate(request)
        wanted = _impersonated_user(request)
        if wanted is not None:
            self._check_impersonation(user, wanted)
            request.impersonator = user
            user = request.user = _with_implied_groups(wanted)
        return user

    def authenticate_token(self, token: str, audiences: Iterable[str] = AUDIENCES) -> tuple[User, list[str]] | None:
        """Return a token's user and the audiences it is valid for; None if it is invalid."""
        user = None
        for known, owner in (self._tokens or {}).items():
            # Compare with all tokens, so that the time reveals nothing.
            if hmac.compare_digest(known.encode(), token.encode()):
                user = owner
        if user is not None:
            return user, list(audiences)
        return self._accounts.user(token, audiences)

    def _authenticate(self, request: Request) -> User:
        if self._tokens is None:
            return ADMIN
        if request.certificate:
            return _certified_user(request.certificate)
        header = request.headers.get("authorization", "")
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer":
            if self._authorizer is not None:
                # Roles decide what anonymous users may do.
                return ANONYMOUS
            raise unauthorized()
        owner = self.authenticate_token(token.strip())
        if owner is None:
            raise unauthorized()
        return owner[0]

    def _check_impersonation(self, user: User, wanted: User) -> None:
        """Raise 403 unless the user may impersonate every attribute of the other."""
        authorizer = self._authorizer
        if authorizer is None:
            return
        if wanted.name.startswith(_ACCOUNT) and wanted.name.count(":") == 3:
            namespace, name = wanted.name.split(":")[2:]
            checks = [Attributes("impersonate", resource="serviceaccounts", namespace=namespace, name=name)]
        else:
            checks = [Attributes("impersonate", resource="users", name=wanted.name)]
        checks += [Attributes("impersonate", resource="groups", name=group) for group in wanted.groups]
        if wanted.uid:
            checks.append(Attributes("impersonate", group=_AUTHENTICATION, resource="uids", name=wanted.uid))
        checks += [
            Attributes("impersonate", group=_AUTHENTICATION, resource="userextras", subresource=key, name=value)
            for key, values in wanted.extra
            for value in values
        ]
        for attributes in checks:
            authorizer.require(user, attributes)


def unauthorized() -> Failure:
    """Return a 401 that does not tell what was wrong."""
    return Failure(401, "Unauthorized", "Unauthorized")


def _certified_user(certificate: Mapping[str, Any]) -> User:
    """Return the user whom a client's certificate names: the common name, in the organisations as groups."""
    names = [pair for part in certificate["subject"] for pair in part]
    groups = [value for key, value in names if key == "organizationName"]
    user = next((value for key, value in names if key == "commonName"), "")
    if not user:
        raise unauthorized()
    return User(user, tuple(dict.fromkeys((*groups, AUTHENTICATED))))


def _impersonated_user(request: Request) -> User | None:
    """Read the impersonation headers; None without any, 400 if they lack a user name."""
    # Header values are bytes, which the real server reads as UTF-8.
    headers = {
        key: value.encode("latin-1").decode("utf-8", "replace")
        for key, value in request.headers.items()
        if key.startswith("impersonate-")
    }
    name = headers.get("impersonate-user", "")
    groups = tuple(part.strip() for part in headers.get("impersonate-group", "").split(",") if part.strip())
    uid = headers.get("impersonate-uid", "")
    extra = tuple(
        (unquote(key.removeprefix(_EXTRA)), tuple(part.strip() for part in value.split(",")))
        for key, value in headers.items()
        if key.startswith(_EXTRA)
    )
    if name:
        return User(name, groups, uid, extra)
    if groups or uid or extra:
        raise bad_request("groups, uid or extra were requested without impersonating a user name")
    return None


def _with_implied_groups(user: User) -> User:
    """Add the implied groups."""
    groups = list(user.groups)
    if not groups and user.name.startswith(_ACCOUNT) and user.name.count(":") == 3:
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{user.name.split(':')[2]}"]
    if AUTHENTICATED not in groups and UNAUTHENTICATED not in groups:
        groups.append(UNAUTHENTICATED if user.name == ANONYMOUS.name else AUTHENTICATED)
    return User(user.name, tuple(groups), user.uid, user.extra)
