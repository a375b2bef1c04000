"""A plugin that changes what all plugins of a process share, in one of many ways, which `EVIL` names."""

import asyncio
import atexit
import io
import logging
import logging.config
import os
import signal
import socket
import sys
import tempfile
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import structlog

import ctrlhost

EVIL = os.environ["EVIL"]
MAPS = ctrlhost.For("v1", "ConfigMap")


def hang(*_args, **_kwargs):
    threading.Event().wait()


@ctrlhost.hookimpl
def ctrlhost_setup(plugin):
    # Not through `sys.stdout`, which some of them take away.
    os.write(1, b"evil\n")
    globals()[EVIL](plugin)


def thread_keeps_the_process(plugin):
    threading.Thread(target=hang).start()


def executor_keeps_the_process(plugin):
    ThreadPoolExecutor().submit(hang)


def atexit_hangs(plugin):
    atexit.register(hang)


def exit_in_thread(plugin):
    threading.Thread(target=sys.exit, args=(5,)).start()


def logging_shut_down(plugin):
    logging.shutdown()


def logging_basic(plugin):
    logging.basicConfig(force=True, level=logging.CRITICAL)


def logging_root_level(plugin):
    logging.getLogger().setLevel(logging.CRITICAL)


def structlog_configured(plugin):
    structlog.configure(processors=[lambda *_: 1 / 0], logger_factory=structlog.PrintLoggerFactory())


def stderr_fd_closed(plugin):
    os.close(2)


def stderr_closed(plugin):
    sys.stderr.close()


def stdout_closed(plugin):
    sys.stdout.close()


class Hanging(io.StringIO):
    def write(self, _):
        hang()

    def flush(self):
        hang()


def streams_hang(plugin):
    sys.stdout = sys.stderr = Hanging()


def stdout_held(plugin):
    os.dup2(os.pipe()[1], 1)
    threading.Thread(target=lambda: [print("x" * 10_000) for _ in range(1000)], daemon=True).start()


def socket_timeout(plugin):
    socket.setdefaulttimeout(0.001)


def warnings_as_errors(plugin):
    warnings.simplefilter("error")


def environ_cleared(plugin):
    os.environ.clear()


def cwd_gone(plugin):
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    Path(folder).rmdir()


def umask_changed(plugin):
    os.umask(0o777)


def recursion_limit(plugin):
    sys.setrecursionlimit(40)


def recursion_deep(plugin):
    def again(n=0):
        return again(n + 1)

    plugin.add_controller("all", lambda _ctx, _request: again(), MAPS)


def memory_error(plugin):
    def run(_ctx, _request):
        return bytearray(1 << 60)

    plugin.add_controller("all", run, MAPS)


def gc_destructor_raises(plugin):
    class Bad:
        def __init__(self):
            self.me = self

        def __del__(self):
            raise SystemExit(3)

    def run(stop):
        while not stop.wait(0.01):
            Bad()

    plugin.add_task("evil", run)


def loop_stopped(plugin):
    async def run(_ctx, _request):
        asyncio.get_running_loop().stop()

    plugin.add_controller("all", run, MAPS)


def loop_closed(plugin):
    async def run(_ctx, _request):
        loop = asyncio.get_running_loop()
        loop.stop()

        def close():
            while loop.is_running():
                time.sleep(0.01)
            loop.close()

        threading.Thread(target=close).start()

    plugin.add_controller("all", run, MAPS)


def loop_page_stops(plugin):
    async def page(_scope, _receive, _send):
        asyncio.get_running_loop().stop()

    plugin.add_page("/", page)


def loop_tasks_cancelled(plugin):
    async def run(_ctx, _request):
        for task in asyncio.all_tasks():
            task.cancel()

    plugin.add_controller("all", run, MAPS)


def loop_exits(plugin):
    async def run(_ctx, _request):
        asyncio.get_running_loop().call_soon(sys.exit, 4)

    plugin.add_controller("all", run, MAPS)


def loop_policy(plugin):
    class Policy(asyncio.DefaultEventLoopPolicy):
        def new_event_loop(self):
            raise RuntimeError("on purpose")

        get_event_loop = new_event_loop

    asyncio.set_event_loop_policy(Policy())


def signal_ignored(plugin):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def signal_masked(plugin):
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})


def fork_returns(plugin):
    done = []

    def run(_ctx, _request):
        if not done:
            done.append(os.fork())

    plugin.add_controller("all", run, MAPS)


def meta_path_hangs(plugin):
    class Finder:
        def find_spec(self, name, path, target=None):
            hang()

    sys.meta_path.insert(0, Finder())


def sys_path_cleared(plugin):
    sys.path.clear()


def excepthook_hangs(plugin):
    threading.excepthook = sys.excepthook = sys.unraisablehook = hang
    threading.Thread(target=lambda: 1 / 0, daemon=True).start()


def client_closed(plugin):
    plugin.client.close()


def informer_stopped(plugin):
    plugin.informer("v1", "ConfigMap").stop()
