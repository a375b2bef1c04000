"""`ctrlhost run`: run plugins."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TextIO, cast, get_args

import click
from click.core import ParameterSource

from ctrlhost.cli.frameworks import FrameworkCommand, foreign_plugins, framework_options
from ctrlhost.cli.options import (
    CONFIG,
    FILES,
    ISOLATE,
    NAMESPACE,
    PLUGINS,
    SET,
    gather,
    isolate,
    make_sandbox,
    names,
    plugin_files,
    refused,
    sandbox_options,
)
from ctrlhost.cli.progress import CurrentStderr, ListBars, can_draw
from ctrlhost.config.settings import DEFAULT_LOG_LINES, LogLevel
from ctrlhost.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost_sandbox import Sandbox

    from ctrlhost.config.load import Configuration
    from ctrlhost.supervisor.plugin_file import PluginSource


@click.command("run", cls=FrameworkCommand)
@FILES
@framework_options
@PLUGINS
@ISOLATE
@click.option(
    "--kubeconfig", metavar="FILE", help="Kubeconfig (default: $KUBECONFIG, the pod's service account, ~/.kube/config)."
)
@click.option("--context", metavar="NAME", help="Kubeconfig context (default: current).")
@NAMESPACE
@click.option("--sandbox", is_flag=True, default=None, help="Run against an embedded API server in this process.")
@click.option(
    "--install-crds",
    type=click.Choice(["true", "force"]),
    is_flag=False,
    flag_value="true",
    help="Install the plugins' CRDs and objects first; `force` replaces those of newer plugins, CRDs with more fields.",
)
@click.option("--admin", is_flag=True, default=None, help="Let this user act by commands such as `ctrlhost pause`.")
@click.option("--dry-run", is_flag=True, default=None, help="Write nothing; log what would change.")
@click.option("--leader-elect", is_flag=True, default=None, help="Act only while holding a Lease.")
@click.option("--shards", is_flag=True, default=None, help="Share the keys of controllers with all replicas.")
@refused("--manifest", "`ctrlhost run` applies no files; `ctrlhost dev` has --manifest", multiple=True)
@click.option("--listen", metavar="HOST:PORT", help="Address for probes, metrics, status and pages.")
@click.option("-v", "--verbose", is_flag=True, help="Log lines of level debug, too.")
@click.option(
    "--log-level", type=click.Choice(get_args(LogLevel)), help="Minimum severity of log lines (default: info)."
)
@click.option(
    "--log-format",
    type=click.Choice(["auto", "console", "json"]),
    help="Form of log lines; `auto` is `console` on a terminal, else `json`.",
)
@click.option(
    "--webhook-url", metavar="https://HOST:PORT", help="Register webhooks by this URL, which leads to this machine."
)
@CONFIG
@SET
@sandbox_options
def command(
    files: tuple[Path, ...],
    plugins: tuple[str, ...],
    isolated: tuple[str, ...],
    namespaces: tuple[str, ...],
    config: Path | None,
    assignments: tuple[str, ...],
    **chosen: Any,
) -> int:
    """Run plugins until a signal arrives.

    Each FILE.py is a plugin named after it, with `-` for `_`, beside those of --plugins. Its directory is on
    `sys.path`, as `python FILE.py` has it.

    SIGTERM and SIGINT let running reconciles finish within the setting `drain_timeout` and exit with code 0; a second
    one ends the process at once, with code 1. SIGHUP reads the settings again, and takes over what needs no restart;
    if the terminal was closed, it is as SIGTERM. SIGUSR1 writes the stacks of all Python threads to stderr.
    Exit code 2 means an invalid command line or invalid settings.
    """
    from ctrlhost.host.signals import exiting, writing_stacks

    context = click.get_current_context()
    # Until the host runs, and after it.
    context.with_resource(exiting())
    context.with_resource(writing_stacks())
    from ctrlhost.supervisor.loader import check_installed, installed_plugins

    flags = {name: value for name, value in chosen.items() if not name.startswith("sandbox_")}
    if flags.pop("verbose"):
        if flags["log_level"] not in (None, "debug"):
            raise click.UsageError("-v and --log-level are mutually exclusive")
        flags["log_level"] = "debug"
    if flags["install_crds"] == "true":
        flags["install_crds"] = True

    def read() -> Configuration:
        return gather(config, assignments, plugins=names(plugins), namespaces=names(namespaces), **flags)

    configuration = read()
    if flags["dry_run"] and flags["sandbox"]:
        raise click.UsageError("--dry-run and --sandbox are mutually exclusive: nothing there is worth protecting")
    settings = configuration.host
    _check_sandbox(settings.sandbox, flags)
    of_files = plugin_files(files, settings.plugins)
    if not settings.plugins and not of_files:
        known = ", ".join(installed_plugins()) or "none"
        raise click.UsageError(
            f"no plugins selected; select some with `--plugins NAME,NAME` (installed: {known}), or name a file"
        )

    def reread() -> Configuration:
        return isolate(read(), isolated, of_files)

    if foreign_plugins():
        # They have clients of their own, which must not act on another cluster. Some read the variable when they are
        # imported, before the sandbox has started.
        if settings.sandbox and chosen["sandbox_kubeconfig"] is None:
            folder = chosen["sandbox_data"] or context.with_resource(TemporaryDirectory(prefix="ctrlhost-sandbox-"))
            chosen["sandbox_kubeconfig"] = Path(folder) / "kubeconfig"
        kubeconfig = chosen["sandbox_kubeconfig"] if settings.sandbox else settings.kubeconfig
        if kubeconfig is not None:
            os.environ["KUBECONFIG"] = str(kubeconfig)
    configuration = isolate(configuration, isolated, of_files)
    for name in settings.plugins:
        check_installed(name)

    from ctrlhost.host import logs

    bars = can_draw(sys.stderr) and settings.log_format != "json"
    stream = cast("TextIO", CurrentStderr()) if bars else None
    logs.configure(
        settings.log_level,
        settings.log_format,
        stream,
        plugins=[*settings.plugins, *(file.name for file in of_files)],
        log_lines=lambda plugin: _log_lines(configuration, plugin),
        log_levels=settings.log_levels,
    )
    try:
        code, drained = _run(configuration, reread, of_files, make_sandbox(chosen) if settings.sandbox else None)
    finally:
        logs.end()
    if not drained:
        from ctrlhost.host.gil_watch import leave

        # Threads of an executor that hang would keep the interpreter from ending.
        leave(code)
    return code


def _log_lines(configuration: Configuration, plugin: str) -> float:
    """Return the plugin's setting; the default for an invalid one, which the start of the host reports."""
    try:
        return configuration.supervision(plugin).log_lines
    except ConfigError:
        return DEFAULT_LOG_LINES


def _check_sandbox(wanted: bool, flags: dict[str, Any]) -> None:
    """Reject options that would have no effect."""
    if wanted:
        for flag in ("kubeconfig", "context"):
            if flags[flag] is not None:
                reason = "the sandbox writes its own kubeconfig, to the file of --sandbox-kubeconfig"
                raise click.UsageError(f"--{flag} and --sandbox are mutually exclusive: {reason}")
        return
    current = click.get_current_context()
    for name in current.params:
        if name.startswith("sandbox_") and current.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name.replace('_', '-')} has no effect without --sandbox")


def _run(
    configuration: Configuration,
    reread: Callable[[], Configuration],
    files: list[PluginSource],
    sandbox: Sandbox | None,
) -> tuple[int, bool]:
    """Return the exit code, and whether all work has ended."""
    from ctrlhost.host.gil_watch import GilWatch
    from ctrlhost.host.host import Host

    host = Host(
        plugins=[*configuration.host.plugins, *files],
        configuration=configuration,
        sandbox=sandbox,
        gil_watch=GilWatch(stacks=configuration.host.gil_stacks),
        local_socket=True,
        reread=reread,
    )
    with ExitStack() as stack:
        if sandbox is not None:
            from ctrlhost_sandbox.cli.serving import announced

            # Announced only after all checks: the reader of the kubeconfig's path may use it at once.
            try:
                host.prepare()
                stack.enter_context(announced(sandbox))
            except BaseException:
                host.stop(0)
                raise
        if can_draw(sys.stderr):
            bars = ListBars(
                lambda: [informer.status() for informer in host.factory.informers()] if host.factory else []
            )
            bars.start()
            stack.callback(bars.stop)
        code = host.run()
    return code, host.drained
