"""Fixtures of the benches: the Go peers, the stub server, and the record of ratios."""

from __future__ import annotations

import json
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from benches.ratios import PAGE, SCALE_PAGE, Ratios

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PEERS = Path(__file__).parent.parent / "tests" / "go" / "bin" / "peers"
ROUNDS = 3
_ratios = pytest.StashKey[Ratios]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--short`, the run of CI: the headline figures, three times; and `--scale`."""
    parser.addoption("--short", action="store_true", help="the figures of CI; do not rewrite the docs")
    parser.addoption("--scale", action="store_true", help="the benches of `make bench-scale`")


def pytest_configure(config: pytest.Config) -> None:
    """Start the record of this run."""
    config.stash[_ratios] = Ratios(short=config.getoption("--short"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Measure each figure of the run of CI three times, one round after the other: their median counts."""
    if metafunc.config.getoption("--short"):
        metafunc.fixturenames.append("round_of_ci")
        metafunc.parametrize("round_of_ci", range(ROUNDS), scope="session")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run the benches of `make bench-scale` apart from the others, and the headline figures in the run of CI."""

    def chosen(item: pytest.Item) -> bool:
        if config.getoption("--short"):
            return item.get_closest_marker("headline") is not None
        return (item.get_closest_marker("scale") is not None) is config.getoption("--scale")

    left_out = [item for item in items if not chosen(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def ratios(pytestconfig: pytest.Config) -> Ratios:
    """The record that every bench adds its figures to."""
    return pytestconfig.stash[_ratios]


@pytest.fixture(scope="session")
def go_peers(ratios: Ratios) -> Callable[..., dict[str, float]]:
    """Run one of the Go peers and return its figures; if they are not built, add a note and return none."""

    def run(*arguments: str) -> dict[str, float]:
        if not PEERS.exists():
            ratios.note("The Go peers were not built in this run.")
            return {}
        done = subprocess.run([PEERS, *arguments], check=True, stdout=subprocess.PIPE, timeout=600)
        figures: dict[str, float] = json.loads(done.stdout)
        return figures

    return run


@pytest.fixture
def go_queue(go_peers: Callable[..., dict[str, float]]) -> Callable[[str], float]:
    """Measure one figure of client-go's or controller-runtime's queue, seconds per operation; 0 without the peers.

    Each bench runs its peer beside its own measurement, because a machine's speed drifts within a run.
    """

    def run(figure: str) -> float:
        return go_peers("queue", figure).get(figure, 0.0)

    return run


@pytest.fixture(scope="session")
def stub_pods(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., object]:
    """Return a context manager that runs the stub server in Go and returns its URL, or URL and CA file with `tls`.

    Events come at a pace, or as fast as they are read, 64 in one write. Lists come in pages, with `stream` as streams.
    """
    if not PEERS.exists():
        pytest.skip("the Go peers are not built: `make bench` builds them")

    @contextmanager
    def start(
        pods: int, events: int, pace: int = 0, *, batch: int = 0, tls: bool = False, stream: bool = False
    ) -> Iterator[Any]:
        ca = tmp_path_factory.mktemp("stub") / "ca.pem"
        flags = {"pods": pods, "events": events, "pace": pace, "batch": batch or (1 if pace else 64)}
        command = [PEERS, "stub", f"--stream={stream}", *(f"--{name}={value}" for name, value in flags.items())]
        with subprocess.Popen([*command, f"--ca={ca if tls else ''}"], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                url = process.stdout.readline().strip()
                yield (url, str(ca)) if tls else url
            finally:
                process.kill()

    return start


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the table of ratios, and what is over its budget."""
    ratios = config.stash[_ratios]
    if not ratios.figures:
        return
    terminalreporter.section("ratios to the peers, less is better")
    terminalreporter.write_line(ratios.table())
    for line in ratios.over_budget():
        terminalreporter.write_line(f"over budget: {line}", red=True)
    if ratios.short:
        return
    if config.getoption("--scale"):
        SCALE_PAGE.write_text(ratios.page("Benchmarks of scale", "make bench-scale"), encoding="utf-8")
    else:
        PAGE.write_text(ratios.page("Benchmarks", "make bench"), encoding="utf-8")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run whose figures exceed their limits."""
    ratios = session.config.stash[_ratios]
    if ratios.figures and ratios.over_budget():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
