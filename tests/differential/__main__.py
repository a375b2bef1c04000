"""`python -m tests.differential`: send the same random requests to two servers, and print where they differ."""

from __future__ import annotations

import random
import tempfile
from contextlib import ExitStack
from pathlib import Path

import click

from ctrlhost.sandbox import Sandbox
from tests.differential.classes import KNOWN, known
from tests.differential.requests import targets
from tests.differential.run import Report, Run, prepare
from tests.differential.servers import Servers
from tests.support.control_plane import KubeApiserver
from tests.support.http_client import Api
from tests.support.rbac_rig import api_of


@click.command()
@click.option("--left", default="sandbox", help="URL or kubeconfig of a server; `sandbox` starts one.")
@click.option("--right", default="kube-apiserver", help="The same; `kube-apiserver` starts tests/go/bin/controlplane.")
@click.option("--seconds", default=60.0, help="How long to send requests.")
@click.option("--seed", default=None, type=int, help="Repeats a run; random if it is missing.")
@click.option("--kind", "kinds", multiple=True, help="Only this kind; may be repeated.")
@click.option("--keep", type=click.Path(path_type=Path), help="File for an example request of each class.")
@click.option("--known", "listed", type=click.Path(path_type=Path), default=KNOWN, help="File of known differences.")
def main(
    left: str, right: str, seconds: float, seed: int | None, kinds: tuple[str, ...], keep: Path | None, listed: Path
) -> None:
    """Send the same random requests to two servers, and print the classes of differences.

    Exits with 1 if a class is not among the known differences.
    """
    seed = random.randrange(2**32) if seed is None else seed
    with ExitStack() as stack:
        apis = [stack.enter_context(_api(where, stack)) for where in (left, right)]
        for api in apis:
            prepare(api)
        servers = Servers(*apis)
        stack.callback(servers.close)
        run = Run(servers, targets(apis[0], kinds), seed)
        try:
            run.seconds(seconds)
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
    report = run.report
    click.echo(report)
    if keep:
        _keep(report, keep)
    unknown = [found for found in report.classes if not any(one.covers(found) for one in known(listed))]
    click.echo(f"{len(report.classes)} classes, {len(unknown)} of them unknown")
    raise SystemExit(bool(unknown))


def _keep(report: Report, path: Path) -> None:
    lines = [f"# {report.classes[found]} {found}\n{request.text()}" for found, request in report.examples.items()]
    path.write_text(f"# seed {report.seed}\n" + "\n".join(lines) + "\n")


def _api(where: str, stack: ExitStack) -> Api:
    if where == "sandbox":
        sandbox = stack.enter_context(Sandbox(controllers=()))
        return Api(sandbox.url, sandbox.ca, sandbox.token)
    if where == "kube-apiserver":
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        return api_of(stack.enter_context(KubeApiserver(directory)).kubeconfig)
    return Api(where) if where.startswith("http") else api_of(Path(where))


if __name__ == "__main__":
    main()
