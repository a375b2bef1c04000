"""Tokens for users other than the administrator, so that tests can act as any user."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from ctrlhost_sandbox.apimachinery.objects import User
from ctrlhost_sandbox.auth.identity import AUTHENTICATED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctrlhost_sandbox.context import ServerContext

#: Longer than any test; a token that expires can be requested like a client does.
_SECONDS = 10 * 365 * 86_400


def token_of_user(context: ServerContext, name: str, groups: Sequence[str]) -> str:
    """Create a token for a user in these groups and `system:authenticated`."""
    token = secrets.token_urlsafe(32)
    context.identity.add(token, User(name, tuple(dict.fromkeys((*groups, AUTHENTICATED)))))
    return token


def token_of_service_account(context: ServerContext, namespace: str, name: str) -> str:
    """Issue a token for a service account; LookupError if it is missing."""
    account = context.store.table("serviceaccounts").get(namespace, name)
    if account is None:
        raise LookupError(f"service account `{namespace}/{name}` not found")
    return context.tokens.issue(account, _SECONDS)[0]
