"""Tokens for those who are not the administrator, so that a test can act as anybody."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from ctrlhost.sandbox.apimachinery.objects import User
from ctrlhost.sandbox.auth.identity import AUTHENTICATED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctrlhost.sandbox.context import ServerContext

#: No test runs longer; whoever wants a token that ends asks for one as a client does.
_SECONDS = 10 * 365 * 86_400


def token_of_user(context: ServerContext, name: str, groups: Sequence[str]) -> str:
    """Make a token for a user of that name in these groups, and in that of all who are known."""
    token = secrets.token_urlsafe(32)
    context.identity.add(token, User(name, tuple(dict.fromkeys((*groups, AUTHENTICATED)))))
    return token


def token_of_service_account(context: ServerContext, namespace: str, name: str) -> str:
    """Make a token for a service account; LookupError if there is none."""
    account = context.store.table("serviceaccounts").get(namespace, name)
    if account is None:
        raise LookupError(f"there is no service account `{namespace}/{name}`")
    return context.tokens.issue(account, _SECONDS)[0]
