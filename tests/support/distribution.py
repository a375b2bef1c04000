"""The distribution of tests over processes: their groups, and their order."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    import pytest

#: Slow tests start early, so that no process runs alone at the end.
ORDER = (
    "tests/convergence/",
    "sandbox/tests/clients/",
    "tests/e2e/test_bitcoin",
    "tests/browser/",
    "plugins/",
    "tests/e2e/",
    "tests/host/",
    "tests/differential/",
    "examples/",
    "tests/docs/",
    "sandbox/tests/",
    "tests/unit/",
)


def together(nodeid: str) -> str:
    """Return the group of a test. One process runs a whole group, whose tests share servers or results."""
    path, _, test = nodeid.partition("::")
    parts = PurePosixPath(path).parts
    match parts:
        case ("tests", "convergence", *_):
            return nodeid
        case ("sandbox", "tests", "clients", *_):
            return "sandbox/tests/clients"
        case ("tests", "e2e", name) if name.startswith(("test_bitcoin", "test_toy_kubelet")):
            return "tests/e2e/bitcoin"
        case ("plugins", "test_rights.py"):
            return f"plugins/{test.partition('[')[2].rstrip(']')}"
        case ("plugins" | "examples", name, *_):
            return f"{parts[0]}/{name}"
    return path


def place(nodeid: str) -> int:
    """Return the position of a test's part in the order."""
    return next((place for place, part in enumerate(ORDER) if nodeid.startswith(part)), len(ORDER))


class Groups(LoadScopeScheduling):
    """A scheduler that assigns whole groups, in the order of the collection."""

    def __init__(self, config: pytest.Config, log: object = None) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)  # type: ignore[arg-type]  # a Producer of py, which is only passed on

    def _split_scope(self, nodeid: str) -> str:
        return together(nodeid)
