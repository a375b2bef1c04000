"""The text of a shard map: what is read, what is refused, what is kept."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrlhost.coordination.shard_map import (
    END,
    LIMIT,
    Incarnation,
    MalformedMap,
    NewerMap,
    OversizedMap,
    ShardMap,
    ShardRange,
    parse,
)

A, B = Incarnation("fleet-member-a", "uid-a", 0), Incarnation("fleet-member-b", "uid-b", 3)
LINE = (ShardRange(0, A, None, 7), ShardRange(1 << 63, A, B, 5), ShardRange((1 << 64) - 1))
MAP = ShardMap("8f3a", 58, {"namespace": LINE}, {"plugin/controller": "namespace"})


def test_the_text_of_a_map():
    assert json.loads(MAP.text()) == {
        "v": 1,
        "id": "8f3a",
        "epoch": 58,
        "members": {"1": ["fleet-member-a", "uid-a", 0], "2": ["fleet-member-b", "uid-b", 3]},
        "shard_by": {"plugin/controller": "namespace"},
        "lines": {
            "namespace": [
                ["0000000000000000", 1, 0, 7],
                ["8000000000000000", 1, 2, 5],
                ["ffffffffffffffff", 0, 0, 0],
            ]
        },
    }
    assert parse(MAP.text()) == MAP


TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=5)
MEMBERS = st.tuples(TEXT, TEXT, st.integers(0, 2**31 - 1)).map(lambda fields: Incarnation(*fields))
ENTRIES = st.tuples(st.integers(1, END - 1), st.none() | MEMBERS, st.none() | MEMBERS, st.integers(0, 2**40))
LINES = st.lists(ENTRIES, unique_by=lambda entry: entry[0], max_size=10).map(
    lambda entries: (ShardRange(0), *(ShardRange(*entry) for entry in sorted(entries, key=lambda entry: entry[0])))
)


@given(st.fixed_dictionaries({"uid": LINES}, optional={"namespace": LINES}), st.integers(0, 2**53), TEXT)
def test_each_map_is_read_as_it_was_written(lines, epoch, identity):
    shards = ShardMap(identity, epoch, lines, {"plugin/controller": "uid"})
    assert parse(shards.text()) == shards


def changed(**fields: object) -> str:
    return json.dumps({**json.loads(MAP.text()), **fields})


def line(*entries: object) -> str:
    return changed(lines={"namespace": list(entries)})


FIRST = ["0000000000000000", 1, 0, 7]
HALF = ["8000000000000000", 1, 0, 7]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "shard map: "),
        ("{", "shard map: "),
        ("[]", "shard map: "),
        ("null", "shard map: "),
        ("\ud800", "shard map: "),
        ("{}", "shard map: "),
        (changed(v=0), "invalid version"),
        (changed(v=True), "shard map: "),
        (changed(v="2"), "shard map: "),
        (changed(id=""), "invalid version, id"),
        (changed(epoch=-1), "epoch"),
        (changed(epoch=1.5), "shard map: "),
        (changed(members={"1": ["a", "b"]}), "shard map: "),
        (changed(members={"0": ["a", "b", 0], "1": ["a", "b", 0], "2": ["a", "b", 0]}), "number of a member"),
        (changed(shard_by={"a": 1}), "shard map: "),
        (changed(lines={"namespace": [1]}), "shard map: "),
        (line(), "line namespace: must begin at 0"),
        (line(HALF), "line namespace: must begin at 0"),
        (line(FIRST, HALF, HALF), "8000000000000000 does not follow 8000000000000000"),
        (line(FIRST, HALF, ["4000000000000000", 1, 0, 7]), "4000000000000000 does not follow"),
        (line(["0000000000000000", 9, 0, 7]), "entry 0: no member has the number 9"),
        (line(["0000000000000000", 1, 9, 7]), "entry 0: no member has the number 9"),
        (line(FIRST, ["8000000000000000", 1, 0]), "entry 1: must be start, owner, claimant and weight"),
        (line(["0000000000000000", 1, 0, -7]), "entry 0: must be"),
        (line(["0000000000000000", "1", 0, 7]), "entry 0: must be"),
        (line(["0000000000000000", True, 0, 7]), "entry 0: must be"),
        (line(FIRST, ["8000", 1, 0, 7]), "entry 1: start must be 16 hex digits"),
        (line(FIRST, ["800000000000000A", 1, 0, 7]), "entry 1: start must be 16 hex digits"),
        (line(FIRST, ["0x80000000000000", 1, 0, 7]), "entry 1: start must be 16 hex digits"),
    ],
)
def test_what_is_no_map(text, message):
    with pytest.raises(MalformedMap) as raised:
        parse(text)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_map_of_a_later_version_is_not_taken_for_garbage():
    with pytest.raises(NewerMap, match="version 2 is newer than 1"):
        parse(json.dumps({"v": 2, "lines": "in another form"}))


def test_what_later_versions_add_is_kept():
    text = changed(zone="b", lines={"namespace": [[*FIRST, {"zone": 1}], HALF]})
    shards = parse(text)
    assert shards.lines["namespace"][0].unknown == ({"zone": 1},)
    later = json.loads(shards.next(shards.lines).text())
    assert later["zone"] == "b"
    assert later["epoch"] == 59
    assert later["lines"]["namespace"] == [[*FIRST, {"zone": 1}], HALF]


def test_a_map_that_is_too_long_is_not_written():
    line = tuple(ShardRange(place * 1000, A) for place in range(10_000))
    with pytest.raises(OversizedMap, match=f"are more than the {LIMIT} of a map; it stays as it is"):
        ShardMap("id", 1, {"uid": line}).text()
