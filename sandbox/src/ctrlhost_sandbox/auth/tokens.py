"""Tokens of service accounts: JSON web tokens signed with a key of this run, valid while their objects exist."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ctrlhost_sandbox.apimachinery import clock
from ctrlhost_sandbox.apimachinery.objects import User
from ctrlhost_sandbox.auth import signing
from ctrlhost_sandbox.auth.signing import SigningKey
from ctrlhost_sandbox.registry import meta

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ctrlhost_sandbox.storage.store import Snapshot, Store

ISSUER = "https://kubernetes.default.svc"
AUDIENCES = (ISSUER,)
"""The audiences of this server."""
_MAX_VERIFIED = 1000
_EXTRA = "authentication.kubernetes.io/"
#: Kinds of objects that a token may be bound to: the member of the claims, and the table.
BOUND = {"pod": "pods", "secret": "secrets", "node": "nodes"}


class ServiceAccountTokens:
    """Issues and verifies tokens. Runs in the server's own thread."""

    def __init__(self, store: Store) -> None:
        """Generate a key; a token becomes invalid with its account or its bound object."""
        self._store = store
        self.key = SigningKey()
        self._verified: dict[str, dict[str, Any]] = {}

    def issue(
        self,
        account: Snapshot,
        seconds: float,
        audiences: Sequence[str] = (),
        bound: tuple[str, Snapshot] | None = None,
    ) -> tuple[str, float]:
        """Issue a token for an account; return it and its expiry in seconds since the epoch."""
        now = int(clock.time())
        own: dict[str, Any] = {
            "namespace": account.namespace,
            "serviceaccount": {"name": account.name, "uid": account.uid},
        }
        if bound is not None:
            own[bound[0]] = {"name": bound[1].name, "uid": bound[1].uid}
        claims = {
            "aud": list(audiences or AUDIENCES),
            "exp": now + int(seconds),
            "iat": now,
            "iss": ISSUER,
            "jti": meta.new_uid(),
            "kubernetes.io": own,
            "nbf": now,
            "sub": f"system:serviceaccount:{account.namespace}:{account.name}",
        }
        header = {"alg": signing.ALGORITHM, "kid": self.key.id}
        head = ".".join(signing.encode(msgspec.json.encode(part)) for part in (header, claims))
        return f"{head}.{self.key.sign(head.encode())}", now + int(seconds)

    def user(self, token: str, audiences: Iterable[str] = AUDIENCES) -> tuple[User, list[str]] | None:
        """Return a token's user and its valid ones of the audiences; None if it is invalid or expired."""
        claims = self._verified.get(token) or self._read(token)
        if claims is None or claims["exp"] <= clock.time():
            return None
        meant = [audience for audience in audiences if audience in claims["aud"]]
        own = claims["kubernetes.io"]
        namespace, account = own["namespace"], own["serviceaccount"]
        if not meant or not self._exists("serviceaccounts", namespace, account):
            return None
        extra = [(f"{_EXTRA}credential-id", (f"JTI={claims['jti']}",))]
        for member, table in BOUND.items():
            if member in own:
                if not self._exists(table, "" if member == "node" else namespace, own[member]):
                    return None
                extra += [(f"{_EXTRA}{member}-{key}", (own[member][key],)) for key in ("name", "uid")]
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
        return User(claims["sub"], groups, account["uid"], tuple(extra)), meant

    def _exists(self, table: str, namespace: str, named: dict[str, str]) -> bool:
        snapshot = self._store.table(table).get(namespace, named["name"])
        return snapshot is not None and snapshot.uid == named["uid"]

    def _read(self, token: str) -> dict[str, Any] | None:
        head, _, signature = token.rpartition(".")
        if not self.key.signed(head.encode(), signature):
            return None
        # A valid signature means that this server encoded the claims.
        claims: dict[str, Any] = msgspec.json.decode(signing.decode(head.partition(".")[2]))
        if len(self._verified) >= _MAX_VERIFIED:
            self._verified.clear()
        self._verified[token] = claims
        return claims
