"""One function for each kind of handler that kopf has; quoted in docs/how-to/from-kopf.md."""

import threading
from collections.abc import Iterator

import msgspec

import ctrlhost


class Spec(msgspec.Struct, frozen=True):
    user: str
    size: int = 1
    backup: bool = False


class Status(ctrlhost.ModelStatus):
    address: str | None = None


@ctrlhost.resource("example.com/v1")
class Database(ctrlhost.Model[Spec, Status]):
    """A database with a user."""


plugin = ctrlhost.Plugin()


class Server:
    """A connection, which in earnest would be one to a server of databases."""

    def __init__(self) -> None:
        self.users: set[str] = set()
        self.open = True


@plugin.setup
def connect(host: ctrlhost.PluginContext) -> Iterator[Server]:
    server = Server()
    yield server
    server.open = False


@plugin.health("server")
def is_open(host: ctrlhost.PluginContext) -> None:
    if not host.state.open:
        raise RuntimeError("the connection is closed")


@plugin.index(Database)
def by_user(database: Database) -> list[str]:
    return [database.spec.user]


DATABASES = ctrlhost.For(Database, label_selector="tier!=test")


@plugin.controller(DATABASES, owns=["v1/Secret"], every="1h")
def reconcile(ctx: ctrlhost.Context[Database], database: Database) -> None:
    """Make the user and its Secret, whatever has changed, and once an hour."""
    if database.spec.size > 9:
        ctx.event("TooLarge", "size is 9 at most", warning=True, once=True)
        raise ctrlhost.TerminalError("size is 9 at most")
    if not ctx.state.open:
        raise ctrlhost.RetryAfter("30s")
    others = ctx.cache(Database).by_index(by_user, database.spec.user)
    if any(other.metadata.name < database.metadata.name for other in others):
        ctx.status.condition("Ready", False, "UserTaken")
        return
    ctx.state.users.add(database.spec.user)
    ctx.ensure(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": f"{database.metadata.name}-login"},
            "stringData": {"user": database.spec.user},
        }
    )
    ctx.status.set(address=f"{database.metadata.name}.db.example.com")
    ctx.status.condition("Ready", True, "UserMade")


@plugin.finalizer("example.com/user", of=reconcile)
def drop_user(ctx: ctrlhost.Context[Database], database: Database) -> None:
    ctx.state.users.discard(database.spec.user)


@plugin.finalizer("kopf.zalando.org/KopfFinalizerMarker", of=reconcile, when=lambda database: False)
def of_kopf(ctx: ctrlhost.Context[Database], database: Database) -> None:
    """Never called: the finalizer of the former operator is only taken off."""


def data_changed(old: ctrlhost.Object | None, new: ctrlhost.Object | None) -> bool:
    """Return whether the data has changed, or the object comes or goes."""
    return old is None or new is None or old.get_path("data") != new.get_path("data")


@plugin.controller("v1/ConfigMap", name="watcher", gone=True, predicates=[data_changed])
def watch(ctx: ctrlhost.Context, config_map: ctrlhost.Object | None) -> None:
    """Called for each change of a ConfigMap's data, and with None once it is gone."""
    ctx.log.info("%s %s", ctx.request, "is gone" if config_map is None else "is there")


@plugin.task(every="30s", needs_leader=True)
def count_users(host: ctrlhost.PluginContext, stop: threading.Event) -> None:
    host.log.info("%d users", len(host.state.users))
