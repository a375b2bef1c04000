"""Databases in two versions: a rule about other objects, a default of the user, and conversions."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

import ctrlhost
import msgspec
from msgspec.structs import replace

GROUP = "databases.example.com"
#: The annotation with the users that v1alpha1 has no field for, and that of a namespace with the limit of all sizes.
OTHERS, QUOTA = f"{GROUP}/other-users", f"{GROUP}/quota"
User = Annotated[str, msgspec.Meta(min_length=1)]
Size = Annotated[int, msgspec.Meta(ge=1, le=1000)]


class Spec(msgspec.Struct, frozen=True):
    users: list[User] = []
    size: Size = 1


class OldSpec(msgspec.Struct, frozen=True):
    user: str = ""
    size: Size = 1


@ctrlhost.resource(f"{GROUP}/v1", storage=True)
class Database(ctrlhost.Model[Spec, None]):
    """A database."""


@ctrlhost.resource(f"{GROUP}/v1alpha1", kind="Database", deprecated=True)
class OldDatabase(ctrlhost.Model[OldSpec, None]):
    """A database of one user."""


plugin = ctrlhost.Plugin()


@plugin.controller(Database, owns=["v1/ConfigMap"])
def reconcile(ctx: ctrlhost.Context[Database], database: Database) -> None:
    data = {"users": "\n".join(database.spec.users)}
    ctx.ensure({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": database.metadata.name}, "data": data})


@plugin.mutate(Database, ["CREATE"])
def add_creator(ctx: ctrlhost.Admission[Database], new: Database, old: Database | None) -> Database | None:
    if new.spec.users:
        return None
    return replace(new, spec=replace(new.spec, users=[ctx.request.user]))


@plugin.validate(Database, reads=["v1/Namespace"])
def check_quota(ctx: ctrlhost.Admission[Database], new: Database | None, old: Database | None) -> None:
    namespace = ctx.cache("v1/Namespace").get(ctx.request.namespace)
    limit = namespace and namespace.annotations.get(QUOTA)
    if new is None or limit is None or (old is not None and new.spec.size <= old.spec.size):
        return
    sizes = {database.metadata.name: database.spec.size for database in ctx.cache(Database).list()}
    if (total := sum({**sizes, new.metadata.name: new.spec.size}.values())) > int(limit):
        raise ctrlhost.Denied(f"all databases of the namespace would have {total}, above {limit}", field="spec.size")


@plugin.convert(Database, source=OldDatabase, target=Database)
def upgrade(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata, spec = obj["metadata"], obj["spec"]
    annotations = dict(metadata.get("annotations") or {})
    users = [*filter(None, [spec.get("user")]), *json.loads(annotations.pop(OTHERS, "[]"))]
    return {"metadata": {**metadata, "annotations": annotations}, "spec": {"users": users, "size": spec["size"]}}


@plugin.convert(Database, source=Database, target=OldDatabase)
def downgrade(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata, spec = obj["metadata"], obj["spec"]
    user, *others = spec.get("users") or [""]
    annotations = {**(metadata.get("annotations") or {}), **({OTHERS: json.dumps(others)} if others else {})}
    return {"metadata": {**metadata, "annotations": annotations}, "spec": {"user": user, "size": spec["size"]}}
