"""The sandbox: an API server in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import shutil
import tempfile
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

from ctrlhost_sandbox.api.app import App
from ctrlhost_sandbox.apimachinery.objects import ADMIN
from ctrlhost_sandbox.apimachinery.status import Failure
from ctrlhost_sandbox.auth.audit import Audit, AuditRecord
from ctrlhost_sandbox.context import Options, ServerContext, choose_controllers
from ctrlhost_sandbox.errors import SandboxError
from ctrlhost_sandbox.http import tls
from ctrlhost_sandbox.http.channel import Outbox
from ctrlhost_sandbox.http.connections import close, sweep
from ctrlhost_sandbox.http.http import Connection
from ctrlhost_sandbox.http.tls_layer import layered
from ctrlhost_sandbox.server import accounts, seed
from ctrlhost_sandbox.server import kubeconfig as kubeconfig_file
from ctrlhost_sandbox.server.admin import MAX_ADVANCE, Admin
from ctrlhost_sandbox.server.descriptors import DescriptorErrors
from ctrlhost_sandbox.server.exposure import check_exposure, hosts
from ctrlhost_sandbox.storage.persistence import Disk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import TracebackType

    from ctrlhost_sandbox.auth.authorizer import Authorizer
    from ctrlhost_sandbox.verbs.watches import Watch

_log = logging.getLogger("ctrlhost_sandbox.server")
T = TypeVar("T")
_ANSWER_SECONDS = 10.0


class Sandbox:
    """An embedded API server for trials, development and tests.

    `address` must be a loopback address unless `expose` is set. `data_dir` keeps the objects across restarts; else they
    are in memory only. `kubeconfig` is the path of the kubeconfig, by default in a directory that `stop` removes.
    `insecure_http` serves without TLS and without a token. `controllers` names the built-in controllers that run: gc
    and namespace by default; on request deployment, replicaset, statefulset, daemonset, job, cronjob, persistentvolume,
    disruption, scheduler and kubelet (pods start, become ready and end), together called workloads, and endpointslice
    and loadbalancer, together called service.
    `crd_conditions="external"` leaves accepting the names of CRDs to a controller. With `rbac` Roles and bindings
    decide what a client may do; else all may do everything. Every request is appended to the file `audit_log` as an
    audit event. The other options are the fields of `Options`; delays are in seconds.

    Any thread may call the methods. Several sandboxes may run in one process.
    """

    def __init__(
        self,
        *,
        address: str = "127.0.0.1",
        port: int = 0,
        data_dir: Path | str | None = None,
        kubeconfig: Path | str | None = None,
        insecure_http: bool = False,
        expose: bool = False,
        controllers: Iterable[str] | None = None,
        crd_conditions: str | None = None,
        rbac: bool = False,
        audit_log: Path | str | None = None,
        certificates: tls.Certificates | None = None,
        options: Options | None = None,
    ) -> None:
        """Check the arguments; `start` runs the server."""
        base = options or Options()
        crd_conditions = base.crd_conditions if crd_conditions is None else crd_conditions
        if crd_conditions not in ("builtin", "external"):
            raise SandboxError(f"crd_conditions must be builtin or external, got {crd_conditions!r}")
        chosen = choose_controllers(base.controllers if controllers is None else controllers)
        check_exposure(address, expose=expose, insecure_http=insecure_http, rbac=rbac or base.rbac)
        self._options = replace(base, controllers=chosen, crd_conditions=crd_conditions, rbac=rbac or base.rbac)
        self._address, self._port = address, port
        self._data_dir = None if data_dir is None else Path(data_dir)
        self._wanted_kubeconfig = None if kubeconfig is None else Path(kubeconfig)
        self._wanted_audit_log = None if audit_log is None else Path(audit_log)
        self._audit = Audit()
        self._insecure = insecure_http
        self._certificates = certificates
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._context: ServerContext | None = None
        self._authorizer: Authorizer | None = None
        self._stop: asyncio.Event | None = None
        self._started: Future[None] = Future()
        self._directory: Path | None = None
        self.url = ""
        """The server's URL, once started."""
        self.ca = ""
        """The CA certificate as PEM; empty without TLS."""
        self.token = ""
        """The administrator's bearer token; empty without TLS."""
        self.kubeconfig = Path()
        """The path of the kubeconfig."""
        self.context = kubeconfig_file.CONTEXT
        """The kubeconfig's context."""

    def start(self) -> Self:
        """Start serving and return the sandbox once it is ready. Raises OSError if the port is in use."""
        if self._thread is not None:
            raise RuntimeError("the sandbox is already running")
        self._started = Future()
        self._thread = threading.Thread(target=self._run, name="ctrlhost-sandbox", daemon=True)
        self._thread.start()
        failed = self._started.exception()
        if failed is not None:
            self._thread.join()
            self._thread = None
            raise failed
        return self

    def stop(self) -> None:
        """End all streams, stop serving and remove the kubeconfig. Does nothing if it is not running."""
        thread, loop, stop = self._thread, self._loop, self._stop
        if thread is None or loop is None or stop is None:
            return
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        self._thread = None
        if self._data_dir is None:
            self.kubeconfig.unlink(missing_ok=True)
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()

    def revision(self, api_version: str, kind: str) -> int:
        """Return the newest revision written to a resource, 0 if there is none. Cheap, so tests can call it often."""
        context = self._context
        if context is None:
            return 0
        group, _, version = api_version.rpartition("/")
        registered = context.registry.find_kind(group, version, kind)
        return 0 if registered is None else context.store.newest(registered.table)

    @property
    def rbac(self) -> bool:
        """Whether Roles and bindings decide what a client may do."""
        return self._options.rbac

    @property
    def audit(self) -> list[AuditRecord]:
        """The newest writes since the start, oldest first, including refused ones: at most 10,000, or 16 MiB."""
        return self._audit.records()

    @property
    def at_rest(self) -> bool:
        """Whether the server has no pending work that follows from writes; delays do not count."""
        context = self._context
        return context is None or not context.pending_work

    def send_bookmarks(self) -> None:
        """Send bookmarks of the newest revision now, as a real server does about once a minute.

        For tests that wait until informers are current: one with a selector learns of other objects' changes only so.
        Only watches that asked for bookmarks and lack the revision get one; it returns before they are sent.
        """
        self._of_each_watch(lambda watch: watch.catch_up())

    def drop_watches(self) -> None:
        """End every watch now, as at a restart; clients resume from the last version they have seen."""
        self._of_each_watch(lambda watch: watch.end())

    def kubeconfig_for(self, *, user: str = "", groups: Sequence[str] = (), service_account: str = "") -> Path:
        """Write a kubeconfig for a user other than the administrator; `stop` removes it.

        Either `user`, any name, in `groups`; or `service_account`, as `NAMESPACE/NAME`, which must exist:
        LookupError if it does not. With RBAC either may do what bindings allow, else everything.
        """
        namespace, slash, account = service_account.partition("/")
        if bool(user) == bool(slash) or (slash and not account):
            raise ValueError("either `user` or `service_account` (`NAMESPACE/NAME`) is required")
        if self._insecure:
            raise RuntimeError("without TLS there is no user but the administrator")
        if slash:
            token = self._ask(lambda context: accounts.token_of_service_account(context, namespace, account))
        else:
            token = self._ask(lambda context: accounts.token_of_user(context, user, groups))
        path = self._own_directory() / f"kubeconfig-{secrets.token_hex(4)}"
        kubeconfig_file.write(path, url=self.url, ca=self.ca, token=token, namespace=namespace if slash else "default")
        return path

    def rights_used(self, user: str) -> list[tuple[str, str, str]]:
        """Return the rights that a user has used, as (group, resource, verb); RuntimeError without RBAC.

        A service account's user is `system:serviceaccount:NAMESPACE:NAME`. Other granted rights were not needed.
        """
        authorizer = self._authorizer
        if authorizer is None:
            raise RuntimeError("the sandbox has no RBAC, or was not started")
        # A stopped sandbox has no thread and no longer changes.
        return authorizer.used_by(user) if self._context is None else self._ask(lambda _: authorizer.used_by(user))

    def advance(self, seconds: float) -> None:
        """Advance the sandbox's clock: controllers act on it, and objects get its times. It also runs by itself.

        Only delays of controllers and the expiry of tokens follow it, not timeouts of connections. Raises ValueError
        for a negative number, more than 1e9, and beyond the year 9000, RuntimeError if the sandbox is not running.
        """
        if not 0 <= seconds <= MAX_ADVANCE:
            raise ValueError(f"seconds must be 0 to {MAX_ADVANCE:.0f}, got {seconds}")
        self._ask(lambda context: context.timers.advance(seconds))

    def _ask(self, question: Callable[[ServerContext], T]) -> T:
        """Call `question` in the server's own thread; TimeoutError after ten seconds."""
        context, loop = self._context, self._loop
        if context is None or loop is None:
            raise RuntimeError("the sandbox is not running")

        async def answer() -> T:
            return question(context)

        return asyncio.run_coroutine_threadsafe(answer(), loop).result(_ANSWER_SECONDS)

    def _of_each_watch(self, do: Callable[[Watch], None]) -> None:
        context, loop = self._context, self._loop
        if context is None or loop is None or loop.is_closed():
            return

        def visit() -> None:
            for watch in list(context.watches):
                do(watch)

        with contextlib.suppress(RuntimeError):  # The loop may be closed concurrently.
            loop.call_soon_threadsafe(visit)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - it is raised in the starting thread
            if self._started.done():
                _log.exception("sandbox ended unexpectedly")
            else:
                self._started.set_exception(error)

    async def _serve(self) -> None:
        loop = self._loop = asyncio.get_running_loop()
        loop.set_exception_handler(DescriptorErrors())
        # For slow work on requests; more threads would only take more of the interpreter from the loop.
        loop.set_default_executor(ThreadPoolExecutor(1, thread_name_prefix="ctrlhost-sandbox-decode"))
        self._stop = asyncio.Event()
        disk = None if self._data_dir is None else Disk(self._data_dir)
        context = ServerContext(self._options, loop, disk)
        self._authorizer = context.authorizer
        try:
            self._audit = Audit(self._wanted_audit_log)
            if disk is not None:
                disk.load(context.store)
            await self._serve_context(context)
        finally:
            self._audit.close()
            if disk is not None:
                disk.close()

    async def _serve_context(self, context: ServerContext) -> None:
        loop = context.loop
        stop = self._stop
        assert stop is not None
        certificates = None if self._insecure else self._certificates or tls.issue(self._address)
        self.ca = "" if certificates is None else certificates.ca
        self.token = "" if certificates is None else secrets.token_urlsafe(32)
        tokens = None if certificates is None else {self.token: ADMIN}
        admin = Admin(context) if self._options.admin else None
        app = App(context, tokens=tokens, audit=self._audit, admin=admin)
        connections: dict[Connection, None] = {}
        tls_context = None if certificates is None else certificates.server_context()
        plain = partial(Connection, app, connections, Outbox(loop))
        make = plain if tls_context is None else layered(tls_context, plain)
        server = await loop.create_server(make, self._address, self._port, backlog=1024)
        port = server.sockets[0].getsockname()[1]
        context.host, app.allowed_hosts = hosts(self._address, port)
        self.url = f"{'http' if tls_context is None else 'https'}://{context.host}"
        self._write_kubeconfig()
        context.ca = self.ca
        try:
            seed.create_objects(context, port)
        except Failure as failure:
            raise SandboxError(f"cannot create the initial objects: {failure.message}") from failure
        app.ready = True
        self._context = context
        self._started.set_result(None)
        sweeper = loop.create_task(sweep(connections))
        try:
            await stop.wait()
        finally:
            app.ready = False
            sweeper.cancel()
            server.close()
            await close(connections)
            self._context = None

    def _write_kubeconfig(self) -> None:
        if self._wanted_kubeconfig is not None:
            self.kubeconfig = self._wanted_kubeconfig
        else:
            self.kubeconfig = (self._data_dir or self._own_directory()) / "kubeconfig"
        try:
            kubeconfig_file.write(self.kubeconfig, url=self.url, ca=self.ca or None, token=self.token or None)
        except OSError as error:
            raise SandboxError(f"cannot write the kubeconfig {self.kubeconfig}: {error.strerror}") from error

    def _own_directory(self) -> Path:
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="ctrlhost-sandbox-"))
        return self._directory
