"""`ctrlhost dev`: run plugins on a sandbox, anew after each change of their sources."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ctrlhost.authoring.sources import Sources, changes
from ctrlhost.cli.dev_process import DRAIN_SECONDS, DevProcess
from ctrlhost.cli.frameworks import FrameworkCommand, foreign_plugins, framework_options
from ctrlhost.cli.messages import USAGE
from ctrlhost.cli.options import (
    CONFIG,
    FILES,
    NAMESPACE,
    PLUGINS,
    SET,
    gather,
    make_sandbox,
    names,
    plugin_files,
    refused,
    sandbox_options,
)

if TYPE_CHECKING:
    from ctrlhost.authoring.sources import Snapshot
    from ctrlhost.authoring.start_objects import StartObjects

#: Seconds between two looks at the sources.
_POLL = 0.1
#: Seconds without a further change until the host is replaced.
_QUIET = 0.2


@click.command("dev", cls=FrameworkCommand)
@FILES
@framework_options
@PLUGINS
@click.option("--kubeconfig", metavar="FILE", help="Kubeconfig of another cluster than a new sandbox.")
@click.option("--context", metavar="NAME", help="Its context (default: current).")
@NAMESPACE
@click.option(
    "--install-crds",
    is_flag=True,
    help="Install and replace the plugins' CRDs on the cluster of --kubeconfig, as on the sandbox.",
)
@click.option(
    "--manifest",
    "manifests",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Objects to apply at the start, once their kinds are served.",
)
@refused("--sandbox", "`ctrlhost dev` runs on a sandbox anyway; leave --sandbox out", is_flag=True)
@click.option("--listen", metavar="HOST:PORT", help="Address for probes, metrics, status and pages.")
@click.option("--webhook-url", metavar="https://HOST:PORT", help="Register webhooks by this URL on that cluster.")
@CONFIG
@SET
@sandbox_options
def command(
    files: tuple[Path, ...],
    plugins: tuple[str, ...],
    namespaces: tuple[str, ...],
    install_crds: bool,
    manifests: tuple[Path, ...],
    config: Path | None,
    assignments: tuple[str, ...],
    **chosen: Any,
) -> int:
    """Run plugins on a sandbox, in a process that is replaced when their sources change.

    The sandbox and its objects stay. The log has the plugins' lines of level debug, and tracebacks of what fails; a
    host that fails waits for the next change. Exit code 2 means that the first host found an invalid command line or
    invalid settings. Sources are Python and YAML files: the packages of installed plugins, the
    directories of files with the packages in them, and the file of --config.
    """
    from ctrlhost.authoring.start_objects import StartObjects
    from ctrlhost.errors import ConfigError
    from ctrlhost.host import logs
    from ctrlhost.supervisor.loader import check_installed, installed_plugins

    kubeconfig, context = chosen["kubeconfig"], chosen["context"]
    if context is not None and kubeconfig is None:
        raise click.UsageError("--context has no effect without --kubeconfig")
    if chosen["webhook_url"] is not None and kubeconfig is None:
        raise click.UsageError(
            "--webhook-url has no effect without --kubeconfig: the sandbox calls this machine anyway"
        )
    if install_crds and kubeconfig is None:
        raise click.UsageError("--install-crds has no effect without --kubeconfig: the sandbox gets the CRDs anyway")
    configuration = gather(config, assignments, plugins=names(plugins), context=context)
    installed, context = configuration.host.plugins, configuration.host.context
    of_files = plugin_files(files, installed)
    if not installed and not of_files:
        raise click.UsageError("no plugins selected; name a file, or select some with `--plugins NAME,NAME`")
    for name in installed:
        check_installed(name)
    selected = (*installed, *(file.name for file in of_files))
    for name in selected:
        if kubeconfig is None and configuration.supervision(name).kubeconfig is not None:
            raise ConfigError(
                f"supervision.{name}.kubeconfig: the plugin would act on another cluster than the sandbox",
                hint="leave the setting out, or name that cluster by `--kubeconfig FILE`",
            )
    modules = [plugin.target.partition(":")[0] for name in installed for plugin in installed_plugins()[name]]
    modules += [str(file) for file in of_files if file.path is None]
    paths = [file.path for file in of_files if file.path is not None]
    sources = Sources.of(paths, modules, [config] if config is not None else [])
    objects = StartObjects.read(manifests)

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())
    logs.configure()
    try:
        with ExitStack() as stack:
            url, listen = chosen["webhook_url"], "" if chosen["webhook_url"] is None else None
            if kubeconfig is None:
                sandbox = make_sandbox(chosen)
                url, listen = "https://127.0.0.1:0", "127.0.0.1:0"

                from ctrlhost_sandbox.cli.serving import announced

                stack.enter_context(announced(sandbox))
                kubeconfig, context, install_crds = sandbox.kubeconfig, sandbox.context, True
            # Operators of other frameworks have clients of their own, which must not act on another cluster.
            if foreign_plugins():
                os.environ["KUBECONFIG"] = str(kubeconfig)
            arguments = [
                # Not where links lead to: a plugin has the name of the file.
                *(str(file.absolute()) for file in files),
                *(f"--{plugin.framework}={plugin.source}" for plugin in foreign_plugins()),
                f"--kubeconfig={kubeconfig}",
                # The assignments of the command line come later, so they win.
                f"--set=host.drain_timeout={DRAIN_SECONDS:g}s",
                # Another cluster could not reach them.
                *([] if listen is None else [f"--set=host.webhook_listen={listen}"]),
                "--set=host.check_mutators=true",
                *(f"--set=host.log_levels.{name}=debug" for name in selected),
                *_passed_on(plugins=plugins, namespace=namespaces, set=assignments),
                *_passed_on(context=context, listen=chosen["listen"], config=config, webhook_url=url),
                # Whatever the settings say, which may be those of a deployment.
                "--set=host.sandbox=false",
                *(["--install-crds=force"] if install_crds else []),
            ]
            objects.open(str(kubeconfig), context)
            stack.callback(objects.close)
            return _replace_until(stop, arguments, sources, objects)
    finally:
        logs.end()


def _passed_on(**options: Any) -> list[str]:
    """Return options of this command as those of the same name of `ctrlhost run`."""
    listed = {name: value if isinstance(value, tuple) else (value,) for name, value in options.items()}
    flags = {f"--{name.replace('_', '-')}": values for name, values in listed.items()}
    return [f"{flag}={value}" for flag, values in flags.items() for value in values if value is not None]


def _replace_until(stop: threading.Event, arguments: list[str], sources: Sources, objects: StartObjects) -> int:
    """Run hosts, one after the other, until `stop` is set; return the exit code.

    If the first one ends with the code of invalid usage, such as a port in use, no change of a source helps.
    """
    # From before the host reads them.
    seen, first = sources.snapshot(), True
    while not stop.is_set():
        process = DevProcess(arguments)
        try:
            seen = _wait_for_change(stop, process, sources, seen, objects, usage_ends=first)
            if first and process.exit_code() == USAGE:
                return USAGE
        finally:
            process.stop()
        first = False
    return 0


def _wait_for_change(
    stop: threading.Event,
    process: DevProcess,
    sources: Sources,
    seen: Snapshot,
    objects: StartObjects,
    *,
    usage_ends: bool,
) -> Snapshot:
    """Wait until the sources have changed and are quiet, or `stop` is set; return their state.

    With `usage_ends` also until the host has ended with the code of invalid usage.
    """
    ended = False
    while not stop.wait(_POLL):
        now = sources.snapshot()
        if changed := changes(seen, now):
            now = _settled(stop, sources, now)
            _say(f"{', '.join(_short(path) for path in changed[:3])} changed; starting anew")
            return now
        if not ended and (code := process.exit_code()) is not None:
            ended = True
            if usage_ends and code == USAGE:
                break
            _say(f"the host ended with exit code {code}; waiting for a change")
        if not ended:
            for line in objects.apply():
                _say(line)
    return seen


def _settled(stop: threading.Event, sources: Sources, seen: Snapshot) -> Snapshot:
    """Return the state of the sources after it has stayed the same for a while."""
    while not stop.wait(_QUIET):
        if (now := sources.snapshot()) == seen:
            break
        seen = now
    return seen


def _short(path: str) -> str:
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


def _say(text: str) -> None:
    click.echo(f"dev: {text}", err=True)
