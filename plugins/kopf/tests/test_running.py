"""Operators that are run as they are, in processes of their own: what they import, and how they run themselves."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ctrlhost import Client
from plugins.kopf.tests.operators import API_VERSION, KIND, PLURAL, Calls, crd, example, install, operator
from tests.support.host_process import HostProcess
from tests.support.waiting import eventually

behaviour = pytest.mark.behaviour
Run = Callable[..., HostProcess]


@pytest.fixture
def calls(tmp_path: Path) -> Calls:
    return Calls(tmp_path)


@pytest.fixture
def client(sandbox: Any) -> Iterator[Client]:
    client = Client.load(sandbox.kubeconfig)
    install(client)
    yield client
    client.close()


@pytest.fixture
def run(sandbox: Any, client: Client) -> Iterator[Run]:
    with ExitStack() as stack:

        def start(*arguments: str, **environment: str) -> HostProcess:
            kept = {key: value for key, value in os.environ.items() if not key.startswith(("CTRLHOST_", "KUBECONFIG"))}
            options = [f"--kubeconfig={sandbox.kubeconfig}", "--set=host.log_format=json"]
            return stack.enter_context(HostProcess(*arguments, *options, environment=kept | environment))

        yield start


def ctrlhost(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ctrlhost", *words]
    return subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=False, timeout=60
    )


def status(client: Client, name: str, handler: str) -> Any:
    """Wait for the result of a handler, and return it."""
    return eventually(
        lambda: (client.get(API_VERSION, KIND, name, "default").get("status") or {}).get(handler), pause=0.02
    )


HELPED = """
    import kopf
    import helper
    from kopf import on

    @on.startup()
    def configure(settings, **_):
        # As kopf: operators of one kind need annotations of their own.
        settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix="{name}.example.com")
        settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix="{name}.example.com")

    @on.create("kopfexamples")
    def {name}(**_):
        import late
        return {{"helper": helper.NAME, "late": late.NAME, "pid": os.getpid(), "kopf": kopf.__version__}}
"""


@behaviour("kopf/KO9")
@pytest.mark.parametrize("installed", [True, False], ids=["kopf is installed", "kopf is not installed"])
def test_unchanged_files_run_side_by_side(
    run: Run, client: Client, calls: Calls, tmp_path: Path, *, installed: bool
) -> None:
    files = []
    for name in ("first", "second"):
        # Two operators of one name, but for their folders, would be one plugin.
        files.append(operator(tmp_path / name, name, HELPED.format(name=name), calls))
        for module in ("helper", "late"):
            (tmp_path / name / f"{module}.py").write_text(f"NAME = {name + ' ' + module!r}\n")
    packages = tmp_path / "packages"
    (packages / "kopf").mkdir(parents=True)
    if installed:
        (packages / "kopf" / "__init__.py").write_text("raise RuntimeError('the kopf that is installed')\n")
    host = run("--kopf", *map(str, files), PYTHONPATH=str(packages) if installed else "")
    client.create(example("a"))
    first, second = (status(client, "a", name) for name in ("first", "second"))
    assert first["helper"] == "first helper"
    assert second["helper"] == "second helper"
    assert (first["late"], second["late"]) == ("first late", "second late")
    assert first["kopf"] == second["kopf"] == "1.45"
    assert len({first["pid"], second["pid"], host.pid}) == 3
    assert host.stop() == 0


@pytest.mark.parametrize("module", ["handlers", "__main__"])
def test_a_module_is_an_operator_and_a_helper_of_its_package_is_imported(
    run: Run, client: Client, calls: Calls, tmp_path: Path, module: str
) -> None:
    operator(tmp_path / "package", module, "import kopf\nfrom package import names\n" + MODULE, calls)
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "names.py").write_text("PLURAL = 'kopfexamples'\n")
    host = run("--kopf", "-m", f"package.{module}", PYTHONPATH=str(tmp_path))
    host.line(f"plugin {'package-handlers' if module == 'handlers' else 'package'} running")
    client.create(example("a"))
    assert status(client, "a", "created") == "yes"


MODULE = """
@kopf.on.create(names.PLURAL)
async def created(**_):
    return "yes"
"""

#: Each runs its operator itself, in another way.
EMBEDDED = {
    "run": """
        import kopf

        @kopf.on.create("kopfexamples")
        def created(memo, **_):
            return dict(memo)

        if __name__ == "__main__":
            record("begins")
            kopf.run(standalone=True, clusterwide=True, memo=kopf.Memo(known="yes"))
            record("ends")
    """,
    "a thread": """
        import kopf, signal

        def body(ready):
            asyncio.run(kopf.operator(ready_flag=ready, namespaces=["default"], memo=kopf.Memo(known="yes")))
            record("ends")

        @kopf.on.create("kopfexamples")
        def created(memo, **_):
            return dict(memo)

        if __name__ == "__main__":
            previous = signal.getsignal(signal.SIGTERM)
            assert signal.signal(signal.SIGTERM, lambda *_: record("signal")) == previous
            ready = threading.Event()
            thread = threading.Thread(target=body, args=(ready,))
            thread.start()
            ready.wait()
            record("begins")
            thread.join()
    """,
    "tasks": """
        import kopf, signal

        async def main():
            registry = kopf.OperatorRegistry()
            kopf.on.create("kopfexamples", registry=registry)(created)
            ready = asyncio.Event()
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, record, "signal")
            tasks = await kopf.spawn_tasks(registry=registry, ready_flag=ready, memo=kopf.Memo(known="yes"))
            await ready.wait()
            record("begins")
            await kopf.run_tasks(tasks)
            record("ends")

        def created(memo, **_):
            return dict(memo)

        if __name__ == "__main__":
            asyncio.run(main())
    """,
}


@behaviour("kopf/KO11")
@pytest.mark.parametrize("way", EMBEDDED)
def test_a_file_that_runs_its_operator_itself_is_one(
    run: Run, client: Client, calls: Calls, tmp_path: Path, way: str
) -> None:
    host = run("--kopf", str(operator(tmp_path, "embedded", EMBEDDED[way], calls)))
    client.create(example("a"))
    assert status(client, "a", "created") == {"known": "yes"}
    calls.wait("begins")
    assert not calls.of("ends")
    if way != "run":
        host.line("no effect of the handler of SIGTERM")
    assert host.stop() == 0
    calls.wait("ends")
    assert not calls.of("signal")


SETTINGS = """
    import kopf, signal

    signal.signal(signal.SIGUSR2, lambda *_: record("signal"))

    @kopf.on.login()
    def login(**_):
        record("login")
        return kopf.login_via_client(**_)

    @kopf.on.startup()
    async def configure(settings, memo, **_):
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, record, "signal")
        settings.peering.name = "mine"
        settings.peering.mandatory = True
        settings.watching.server_timeout = 10
        settings.queueing.worker_limit = 5
        settings.posting.unknown = 1
        settings.admission.managed = "auto.kopf.dev"
        settings.queueing.error_delays = [1]
        settings.execution.max_workers = 3
        memo.started = True

    @kopf.on.cleanup()
    def cleanup(memo, **_):
        record("cleanup", memo.started)

    @kopf.on.probe(id="load")
    def probe(**_):
        if pathlib.Path(__file__).with_name("ill").exists():
            raise kopf.PermanentError("overloaded")
        return 1

    @kopf.on.create("kopfexamples")
    def created(memo, **_):
        return {"started": memo.started}

    kopf.configure(verbose=True)
"""


@behaviour("kopf/KO11")
def test_what_has_no_effect_is_said_in_one_line_each(run: Run, client: Client, calls: Calls, tmp_path: Path) -> None:
    host = run("--kopf", str(operator(tmp_path, "configured", SETTINGS, calls)))
    host.line("no effect of the handler of SIGUSR2: the host ends the operator")
    host.line("no effect of the handler of SIGTERM: the host ends the operator")
    host.line("kopf.on.login has no effect: the credentials of the host count")
    host.line("no effect of settings.peering: name, mandatory", "`ctrlhost run --leader-elect` elects a leader")
    host.line("no effect of settings.watching: server_timeout")
    host.line("no effect of settings.queueing: worker_limit: the host")
    host.line("no effect of settings.posting: unknown")
    host.line("no effect of settings.admission: managed")
    host.line("no effect of kopf.configure: the host writes the log")
    assert "settings.execution" not in host.text
    client.create(example("a"))
    assert status(client, "a", "created") == {"started": True}

    # The probe is a check of the host's health.
    host.eventually(lambda: host.get("/healthz")[0] == 200, "health")
    (tmp_path / "ill").touch()
    host.eventually(lambda: "overloaded" in host.get("/healthz?verbose")[1], "the error of the probe")
    assert host.stop() == 0
    assert calls.of("cleanup") == [["cleanup", True]]
    assert not calls.of("login")
    assert not calls.of("signal")


INSTALLS = """
    import kopf
    import ctrlhost

    CRD = {crd!r}

    @kopf.on.startup()
    def install(memo, **_):
        record("startup")
        client = ctrlhost.Client.load()
        client.apply(CRD)
        client.close()
        memo.installed = True

    @kopf.on.cleanup()
    def cleanup(memo, **_):
        record("cleanup", memo.installed)

    @kopf.on.create("installs")
    def created(memo, **_):
        return {{"installed": memo.installed}}
"""


@behaviour("kopf/KO23")
def test_startup_may_install_the_kinds_of_the_operator(run: Run, client: Client, calls: Calls, tmp_path: Path) -> None:
    definition = crd("installs", "Install")
    host = run("--kopf", str(operator(tmp_path, "installer", INSTALLS.format(crd=definition), calls)))
    host.line("the server does not serve installs; waiting for a CustomResourceDefinition")
    calls.wait("startup")
    # Until the kind is served.
    install(client, definition)
    client.create(example("a") | {"kind": "Install"})
    created = eventually(lambda: client.get(API_VERSION, "Install", "a", "default").get("status"), pause=0.02)
    assert created["created"] == {"installed": True}
    assert host.stop() == 0
    assert calls.all == [["startup"], ["cleanup", True]]


LATER = """
    import kopf

    @kopf.on.startup()
    def startup(**_):
        record("startup")

    @kopf.on.create("kopfexamples")
    @kopf.on.create("kopf.dev", "v1", "gadgets")
    def created(body, name, **_):
        record("created", body["kind"], name)

    @kopf.on.event(category="things")
    def seen(body, name, **_):
        record("seen", body["kind"], name)

    @kopf.timer("gadgets", interval=600)
    def ticks(name, **_):
        record("ticks", name)
"""


@behaviour("kopf/KO25")
def test_kinds_that_are_installed_later_are_served(run: Run, client: Client, calls: Calls, tmp_path: Path) -> None:
    run("--kopf", str(operator(tmp_path, "later", LATER, calls)))
    client.create(example("a"))
    calls.wait("created", KIND, "a")
    gadgets = crd("gadgets", "Gadget")
    gadgets["spec"]["names"]["categories"] = ["things"]
    install(client, gadgets)
    client.create(example("b") | {"kind": "Gadget"})
    calls.wait("created", "Gadget", "b")
    calls.wait("seen", "Gadget", "b")
    calls.wait("ticks", "b")
    client.create(example("c"))
    calls.wait("created", KIND, "c")
    assert len(calls.of("startup")) == 1


@behaviour("kopf/KO23")
@pytest.mark.parametrize("error", ["PermanentError", "TemporaryError"])
def test_cleanup_is_not_called_if_startup_has_failed(
    run: Run, client: Client, calls: Calls, tmp_path: Path, error: str
) -> None:
    source = """
        import kopf

        @kopf.on.startup()
        def fail(retry, **_):
            record("startup", retry)
            raise kopf.ERROR("no database")

        @kopf.on.cleanup()
        def cleanup(**_):
            record("cleanup")

        @kopf.on.create("kopfexamples")
        def created(**_):
            record("created")
    """
    host = run("--kopf", str(operator(tmp_path, "unstarted", source.replace("ERROR", error), calls)))
    client.create(example("a"))
    host.line("Activity 'fail' failed", "no database")
    if error == "PermanentError":
        # Begun anew after a pause, and said by the health check meanwhile.
        host.eventually(lambda: "on.startup: no database" in host.get("/healthz?verbose")[1], "the error")
        calls.wait("startup", 0, count=2)
    # Also while it waits for the next attempt.
    assert host.stop() == 0
    assert not calls.of("cleanup")
    assert not calls.of("created")


@behaviour("kopf/KO12")
@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("import kopf\nfrom kopf._core.engines import loggers\n", "the module `kopf._core"),
        ("import kopf\nimport kopf.structs\n", "the module `kopf.structs`"),
        ("import kopf\n@kopf.on.create('pods', fork=1)\ndef f(**_): ...\n", "the argument `fork` of kopf.on.create"),
        ("from kopf import of_a_fork\n", "cannot import name 'of_a_fork' from 'kopf'"),
        ("import kopf\nkopf.run(fork=1)\n", "the argument `fork` of kopf.run"),
    ],
    ids=["a private module", "a module of an old kopf", "an argument of a fork", "a name of a fork", "kopf.run"],
)
def test_what_is_not_supported_is_refused_at_import(tmp_path: Path, sandbox: Any, source: str, what: str) -> None:
    path = tmp_path / "fork.py"
    path.write_text(source)
    checked = ctrlhost("check", "--offline", "--kopf", str(path))
    assert checked.returncode == 2
    line = next(line for line in checked.stdout.splitlines() if line.startswith("error fork load: "))
    assert f"{path}:" in line
    assert what in line
    assert "is not supported" in line
    assert "docs/how-to/from-kopf.md#" in checked.stderr
    # Neither does the host start.
    ended = ctrlhost("run", "--listen=", f"--kubeconfig={sandbox.kubeconfig}", "--kopf", str(path))
    assert ended.returncode == 2
    assert what in ended.stderr


@behaviour("kopf/KO23")
def test_a_file_that_can_be_imported_is_checked(tmp_path: Path, calls: Calls) -> None:
    path = operator(tmp_path, "fine", "import kopf\n@kopf.on.create('kopfexamples')\ndef f(**_): ...\n", calls)
    checked = ctrlhost("check", "--offline", "--kopf", str(path))
    assert checked.returncode == 0, checked.stdout
    assert "ok fine: " in checked.stdout
    broken = operator(tmp_path, "broken", "import kopf\n1 / 0\n", calls)
    checked = ctrlhost("check", "--offline", "--kopf", str(path), str(broken))
    assert checked.returncode == 1
    assert f"{broken}:" in checked.stdout
    assert "ZeroDivisionError" in checked.stdout
    idle = operator(tmp_path, "idle", "import kopf\n", calls)
    checked = ctrlhost("check", "--offline", "--kopf", str(idle))
    assert checked.returncode == 2
    assert f"{idle} registers no handlers" in checked.stdout
    invalid = operator(tmp_path, "invalid", "import kopf\ndef f(:\n", calls)
    checked = ctrlhost("check", "--offline", "--kopf", str(invalid))
    assert f"{invalid}:" in checked.stdout
    assert "SyntaxError" in checked.stdout


def test_without_the_package_one_line_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    from ctrlhost.cli import execute
    from ctrlhost.supervisor import foreign

    monkeypatch.setattr(foreign, "frameworks", dict)
    assert execute(["run", "--kopf", "operator.py"]) == 2
    assert capsys.readouterr().err.strip() == "error: --kopf needs another package: `pip install ctrlhost-kopf`"


@behaviour("kopf/KO10")
def test_operators_that_import_this_package_share_a_process_and_a_watch(
    run: Run, client: Client, calls: Calls, tmp_path: Path
) -> None:
    files = [operator(tmp_path / name, name, SHARED.replace("NAME", name), calls) for name in ("one", "two", "three")]
    files.append(operator(tmp_path / "four", "four", FAILING, calls))
    host = run("--kopf", *map(str, files))
    client.create(example("a"))
    results = [status(client, "a", name) for name in ("one", "two", "three")]
    assert {result["pid"] for result in results} == {host.pid}
    assert [result["memo"] for result in results] == ["one", "two", "three"]
    # Each has its own handlers: those of the others are not called by it. One that fails does so alone.
    assert sorted(call[1] for call in calls.of("startup")) == ["one", "three", "two"]
    host.line("task four/startup failed", "on.startup: no database")
    assert len(calls.of("created")) == 3
    shown = host.get("/metrics")[1].splitlines()
    informers = [line for line in shown if line.startswith("ctrlhost_informer_objects{") and PLURAL in line]
    assert len(informers) == 1, informers

    # A handler of one fails, those of the others go on.
    client.create(example("b", spec={"crash": "two"}))
    calls.wait("created", "one", "b")
    calls.wait("created", "three", "b")
    assert status(client, "b", "one")["memo"] == "one"
    assert "crashed" not in client.get(API_VERSION, KIND, "b", "default").get("status", {})
    assert host.stop() == 0


SHARED = """
    import ctrlhost_kopf as kopf

    @kopf.on.startup()
    def startup(memo, settings, **_):
        settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix="NAME.example.com")
        settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix="NAME.example.com")
        memo.name = "NAME"
        record("startup", "NAME")

    @kopf.on.create("kopfexamples", id="NAME")
    def created(memo, name, spec, **_):
        record("created", memo.name, name)
        if spec.get("crash") == "NAME":
            raise SystemError("crashed")
        return {"pid": os.getpid(), "memo": memo.name}
"""

FAILING = """
    import ctrlhost_kopf as kopf

    @kopf.on.startup()
    def startup(**_):
        raise kopf.PermanentError("no database")

    @kopf.on.create("kopfexamples")
    def created(**_):
        record("created", "four")
"""

KILLED = """
    import threading

    import kopf

    @kopf.on.create("kopfexamples", timeout=600)
    def created(name, retry, **_):
        record("begin", name, os.environ["REPLICA"], retry, time.monotonic())
        if name == "slow" and not pathlib.Path(__file__).with_name("go").exists():
            threading.Event().wait()
        record("end", name, os.environ["REPLICA"], retry, time.monotonic())
        return os.environ["REPLICA"]
"""


@behaviour("kopf/KO20")
def test_after_a_kill_the_other_replica_calls_the_handler_again(
    run: Run, client: Client, calls: Calls, tmp_path: Path
) -> None:
    path = operator(tmp_path, "killed", KILLED, calls)
    times = ["lease_duration=3s", "renew_deadline=2s", "retry_period=0.5s"]
    options = ["--leader-elect", *(f"--set=host.leader_elect_{time}" for time in times), "--kopf", str(path)]
    first = run(*options, REPLICA="first")
    client.create(example("fast"))
    client.create(example("slow"))
    (begun,) = calls.wait("begin", "slow")
    assert begun[2] == "first"
    second = run(*options, REPLICA="second")
    calls.wait("end", "fast", "first")
    # The standby calls nothing.
    assert not calls.of("begin", "fast", "second")
    (tmp_path / "go").touch()
    first.end()
    ((_, _, replica, *_),) = calls.wait("end", "slow")
    assert replica == "second"
    assert status(client, "slow", "created") == "second"
    # Handled before the kill, it is not handled again.
    assert [call[2] for call in calls.of("end", "fast")] == ["first"]
    assert second.stop() == 0


def test_two_crds_of_one_operator(run: Run, client: Client, calls: Calls, tmp_path: Path) -> None:
    install(client, crd("widgets", "Widget"))
    source = """
        import kopf

        @kopf.on.create("kopfexamples")
        @kopf.on.create("widgets")
        def created(body, **_):
            return body["kind"]
    """
    run("--kopf", str(operator(tmp_path, "both", source, calls)))
    client.create(example("a"))
    client.create(example("a") | {"kind": "Widget"})
    assert status(client, "a", "created") == KIND
    assert eventually(lambda: client.get(API_VERSION, "Widget", "a", "default").get("status"))["created"] == "Widget"
