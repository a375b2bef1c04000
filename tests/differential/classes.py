"""Classes of differences, and the ones that are known."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from tests.differential.servers import Outcome, Request

KNOWN = Path(__file__).with_name("known_differences.toml")


@dataclass(frozen=True, slots=True)
class DifferenceClass:
    """What differs: the codes, or the fields that only one server names."""

    verb: str
    kind: str
    left: str
    right: str
    only_left: tuple[str, ...]
    only_right: tuple[str, ...]

    def __str__(self) -> str:
        fields = [f"-{name}" for name in self.only_left] + [f"+{name}" for name in self.only_right]
        return f"{self.verb} {self.kind}: {self.left} | {self.right}  {' '.join(fields)}".rstrip()


def difference(request: Request, left: Outcome, right: Outcome) -> DifferenceClass | None:
    """Return the class of a difference; None if the answers are equal."""
    if left == right:
        return None
    only_left, only_right = (
        tuple(sorted(fields)) for fields in (left.fields - right.fields, right.fields - left.fields)
    )
    return DifferenceClass(request.verb, request.kind, str(left), str(right), only_left, only_right)


@dataclass(frozen=True, slots=True)
class Known:
    """A difference that stays, with its reason, and requests of which the last one shows it. `*` matches anything."""

    where: str
    left: str
    right: str
    fields: tuple[str, ...]
    why: str
    requests: tuple[Request, ...]

    def covers(self, result: DifferenceClass) -> bool:
        """Return whether a class is this difference."""
        return (
            fnmatchcase(f"{result.verb} {result.kind}", self.where)
            and fnmatchcase(result.left, self.left)
            and fnmatchcase(result.right, self.right)
            and all(
                any(fnmatchcase(name, escaped(field)) for field in self.fields)
                for name in (*result.only_left, *result.only_right)
            )
        )


def escaped(field: str) -> str:
    """Return a pattern in which `[*]` stands for itself."""
    return field.replace("[*]", "[[][*]]")


def known(path: Path = KNOWN) -> list[Known]:
    """Return the differences of a file."""
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    return [
        Known(
            entry["where"],
            entry["left"],
            entry["right"],
            tuple(entry.get("fields", ())),
            entry["why"],
            tuple(Request.read(line) for line in entry.get("requests", ())),
        )
        for entry in document.get("difference", ())
    ]
