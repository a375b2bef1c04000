"""Who asks: bearer tokens, and requests in somebody else's name."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING
from urllib.parse import unquote

from ctrlhost.sandbox.apimachinery.objects import ADMIN, User
from ctrlhost.sandbox.apimachinery.status import Failure, bad_request
from ctrlhost.sandbox.http.messages import Attributes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ctrlhost.sandbox.auth.authorizer import Authorizer
    from ctrlhost.sandbox.auth.tokens import ServiceAccountTokens
    from ctrlhost.sandbox.http.messages import Request

AUTHENTICATED, UNAUTHENTICATED = "system:authenticated", "system:unauthenticated"
ANONYMOUS = User("system:anonymous", (UNAUTHENTICATED,))
_ACCOUNT = "system:serviceaccount:"
_AUTHENTICATION = "authentication.k8s.io"
_EXTRA = "impersonate-extra-"


class Identity:
    """Knows the tokens of one server. Runs in the server's own thread."""

    def __init__(
        self, tokens: Mapping[str, User] | None, accounts: ServiceAccountTokens, authorizer: Authorizer | None
    ) -> None:
        """Accept `tokens` and those of service `accounts`; without `tokens` every client is the administrator."""
        self._tokens = None if tokens is None else dict(tokens)
        self._accounts = accounts
        self._authorizer = authorizer

    def add(self, token: str, user: User) -> None:
        """Take one more token."""
        if self._tokens is not None:
            self._tokens[token] = user

    def identify(self, request: Request) -> User:
        """Tell for whom a request is done, and note it in the request; 401 where that is nobody."""
        user = request.user = self._authenticate(request)
        wanted = _impersonated_user(request)
        if wanted is not None:
            self._check_impersonation(user, wanted)
            request.impersonator = user
            user = request.user = _with_implied_groups(wanted)
        return user

    def of_token(self, token: str, audiences: Iterable[str]) -> tuple[User, list[str]] | None:
        """Tell whose token it is, and for which audiences it is good; None if it is not good."""
        found = None
        for known, owner in (self._tokens or {}).items():
            # All are compared, so that the time that it takes tells nothing.
            if hmac.compare_digest(known.encode(), token.encode()):
                found = owner
        if found is not None:
            return found, list(audiences)
        return self._accounts.user(token, audiences)

    def _authenticate(self, request: Request) -> User:
        if self._tokens is None:
            return ADMIN
        header = request.headers.get("authorization", "")
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer":
            if self._authorizer is not None:
                # Everybody may ask, and the roles say what nobody in particular may do.
                return ANONYMOUS
            raise unauthorized()
        found = self.of_token(token.strip(), self._accounts.audiences)
        if found is None:
            raise unauthorized()
        return found[0]

    def _check_impersonation(self, user: User, wanted: User) -> None:
        """Raise 403 unless the user may speak for everything that makes up the other."""
        authorizer = self._authorizer
        if authorizer is None:
            return
        if wanted.name.startswith(_ACCOUNT) and wanted.name.count(":") == 3:
            namespace, name = wanted.name.split(":")[2:]
            asked = [Attributes("impersonate", resource="serviceaccounts", namespace=namespace, name=name)]
        else:
            asked = [Attributes("impersonate", resource="users", name=wanted.name)]
        asked += [Attributes("impersonate", resource="groups", name=group) for group in wanted.groups]
        if wanted.uid:
            asked.append(Attributes("impersonate", group=_AUTHENTICATION, resource="uids", name=wanted.uid))
        asked += [
            Attributes("impersonate", group=_AUTHENTICATION, resource="userextras", subresource=key, name=value)
            for key, values in wanted.extra
            for value in values
        ]
        for one in asked:
            authorizer.require(user, one)


def unauthorized() -> Failure:
    """401, without a word on what was wrong."""
    return Failure(401, "Unauthorized", "Unauthorized")


def _impersonated_user(request: Request) -> User | None:
    """Read the headers by which a request speaks for another; None where there is none, 400 where they name nobody."""
    headers = request.headers
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
    """Add the groups that go without saying."""
    groups = list(user.groups)
    if not groups and user.name.startswith(_ACCOUNT) and user.name.count(":") == 3:
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{user.name.split(':')[2]}"]
    if AUTHENTICATED not in groups and UNAUTHENTICATED not in groups:
        groups.append(UNAUTHENTICATED if user.name == ANONYMOUS.name else AUTHENTICATED)
    return User(user.name, tuple(groups), user.uid, user.extra)
