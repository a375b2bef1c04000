"""The shard map: hash lines cut into ranges, each with its owner and claimant, as text in an annotation of a Lease.

The hash is the API server's, 64-bit FNV-1a. Entries name incarnations of members, so that one that was fenced and came
back owns nothing of what it had before.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ctrlhost.errors import CtrlhostError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

#: The format that this version reads and writes.
VERSION = 1
#: The longest text of a map, in bytes: an annotation has 256 KiB with all others of its object.
LIMIT = 200 * 1024
#: The end of a hash line.
END = 1 << 64
#: What controllers can be sharded by; later versions may know more.
_WAYS = frozenset(("namespace", "name", "uid"))
#: Ranges of a new map for each member.
RANGES_PER_MEMBER = 8


class MalformedMap(CtrlhostError):
    """The text is not a shard map; the message says where."""


class NewerMap(CtrlhostError):
    """A later version of ctrlhost wrote the map; this one must not touch it."""


class UnfitMap(CtrlhostError):
    """The map says that a controller is sharded by something else; the message names it."""


class OversizedMap(CtrlhostError):
    """The change would make the map longer than `LIMIT`."""


class Incarnation(NamedTuple):
    """A member from one taking of its Lease to its release or fence."""

    lease: str
    uid: str
    transitions: int


class ShardRange(NamedTuple):
    """A range of a line, up to the start of the next one."""

    start: int
    owner: Incarnation | None = None
    claimant: Incarnation | None = None
    #: The number of objects in it, as its owner reported.
    weight: int = 0
    #: What later versions add to an entry.
    unknown: tuple[Any, ...] = ()


Line = tuple[ShardRange, ...]


@dataclass(frozen=True, slots=True)
class ShardMap:
    """One version of the map. Each line begins at 0 and has no gap."""

    id: str
    epoch: int = 0
    #: By name: `namespace` and `uid`.
    lines: Mapping[str, Line] = field(default_factory=dict)
    #: What each controller is sharded by.
    shard_by: Mapping[str, str] = field(default_factory=dict)
    #: Fields that later versions add.
    unknown: Mapping[str, Any] = field(default_factory=dict)

    def text(self) -> str:
        """Return the map for the annotation. OversizedMap if it is longer than `LIMIT`."""
        named = {member for line in self.lines.values() for entry in line for member in entry[1:3]} - {None}
        numbers: dict[Incarnation | None, int] = {None: 0}
        numbers |= {member: number for number, member in enumerate(sorted(filter(None, named)), 1)}
        members = {str(number): list(member) for member, number in numbers.items() if member is not None}
        lines = {
            name: [
                [f"{entry.start:016x}", numbers[entry.owner], numbers[entry.claimant], entry.weight, *entry.unknown]
                for entry in line
            ]
            for name, line in sorted(self.lines.items())
        }
        known = {
            "v": VERSION,
            "id": self.id,
            "epoch": self.epoch,
            "members": members,
            "shard_by": dict(sorted(self.shard_by.items())),
            "lines": lines,
        }
        text = msgspec.json.encode({**self.unknown, **known})
        if len(text) > LIMIT:
            raise OversizedMap(f"shard map: {len(text)} bytes are more than the {LIMIT} of a map; it stays as it is")
        return text.decode()

    def next(self, lines: Mapping[str, Line], shard_by: Mapping[str, str] | None = None) -> ShardMap:
        """Return the next version of the map, with these lines, and with these controllers if they are other ones."""
        return replace(
            self, epoch=self.epoch + 1, lines=lines, shard_by=self.shard_by if shard_by is None else shard_by
        )


class _Text(msgspec.Struct):
    v: int
    id: str
    epoch: int
    members: dict[str, tuple[str, str, int]]
    shard_by: dict[str, str]
    lines: dict[str, list[list[Any]]]


def parse(text: str) -> ShardMap:
    """Read the text of a map. NewerMap if a later version wrote it, MalformedMap if it is none."""
    try:
        size = len(text.encode())
        fields = msgspec.json.decode(text, type=dict[str, Any])
        version = fields.get("v")
        if type(version) is int and version > VERSION:
            raise NewerMap(
                f"shard map: version {version} is newer than {VERSION}, the last that this ctrlhost reads "
                "(hint: roll this replica forward)"
            )
        content = msgspec.convert(fields, _Text)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError) as error:
        raise MalformedMap(f"shard map: {error}") from error
    if size > LIMIT:
        raise MalformedMap(f"shard map: {size} bytes are more than the {LIMIT} of a map")
    if content.v != VERSION or not content.id or content.epoch < 0 or "0" in content.members:
        raise MalformedMap("shard map: invalid version, id, epoch or number of a member")
    if missing := lines_of(_WAYS.intersection(content.shard_by.values())) - content.lines.keys():
        raise MalformedMap(f"shard map: line {min(missing)} is missing")
    members = {number: Incarnation(*member) for number, member in content.members.items()}
    lines = {name: _line(name, entries, members) for name, entries in content.lines.items()}
    unknown = {name: value for name, value in fields.items() if name not in _Text.__struct_fields__}
    return ShardMap(content.id, content.epoch, lines, content.shard_by, unknown)


def _line(name: str, entries: list[list[Any]], members: Mapping[str, Incarnation]) -> Line:
    """Read a line. MalformedMap for a gap, an overlap, or an entry that is invalid."""
    line = tuple(
        _entry(f"shard map: line {name}, entry {place}", entry, members) for place, entry in enumerate(entries)
    )
    if not line or line[0].start:
        raise MalformedMap(f"shard map: line {name}: must begin at 0")
    for before, after in pairwise(line):
        if before.start >= after.start:
            raise MalformedMap(f"shard map: line {name}: {after.start:016x} does not follow {before.start:016x}")
    return line


def _entry(where: str, entry: list[Any], members: Mapping[str, Incarnation]) -> ShardRange:
    if [type(item) for item in entry[:4]] != [str, int, int, int] or entry[3] < 0:
        raise MalformedMap(f"{where}: must be start, owner, claimant and weight, got {entry!r:.100}")
    start, owner, claimant, weight, *unknown = entry
    if len(start) != 16 or set(start) - set("0123456789abcdef"):
        raise MalformedMap(f"{where}: start must be 16 hex digits in lower case, got {start!r:.100}")
    for number in (owner, claimant):
        if number and str(number) not in members:
            raise MalformedMap(f"{where}: no member has the number {number}")
    return ShardRange(int(start, 16), members.get(str(owner)), members.get(str(claimant)), weight, tuple(unknown))


def line_of(by: str) -> str:
    """Return the line on which the keys of a controller are, by what it is sharded by: names are with namespaces."""
    return "uid" if by == "uid" else "namespace"


def lines_of(shard_by: Iterable[str]) -> set[str]:
    """Return the lines on which the keys of controllers are, by what these are sharded by."""
    return {line_of(by) for by in shard_by}


def new_map(
    identity: str, shard_by: Mapping[str, str], members: int, hashes: Collection[int], *, epoch: int = 0
) -> ShardMap:
    """Return a map without owners, for that many members, with equally many hashes of namespaces in each range.

    The weight of a range is the number of its namespaces, of equal parts of the uid line 1, until owners report.
    """
    parts = RANGES_PER_MEMBER * max(members, 1)
    ordered = sorted(set(hashes))
    lines: dict[str, Line] = {}
    by = lines_of(shard_by.values())
    if "namespace" in by:
        count = max(min(parts, len(ordered)), 1)
        places = [len(ordered) * part // count for part in range(count + 1)]
        lines["namespace"] = tuple(
            ShardRange(ordered[first] if first else 0, weight=last - first) for first, last in pairwise(places)
        )
    if "uid" in by:
        lines["uid"] = tuple(ShardRange(END * part // parts, weight=1) for part in range(parts))
    return ShardMap(identity, epoch, lines, shard_by)
