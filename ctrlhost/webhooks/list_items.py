"""Which items of a list are those of the list that a function was shown."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Places = dict[int, int]

#: Above it, items without a key are matched by their order alone.
_MOST_PAIRS = 10_000


def key_of(item: Any, keys: Sequence[str]) -> tuple[Any, ...] | None:
    """Return what identifies an item of a list map; None if it has nothing of it."""
    if not isinstance(item, dict) or not any(name in item for name in keys):
        return None
    return tuple(item.get(name) for name in keys)


def matched(before: Sequence[Any], after: Sequence[Any], keys: Sequence[str]) -> Places:
    """Return the places in `before` of those items of `after`, objects or lists, that were there.

    Equal items belong together, then those of one key. What has no key and was changed stands behind the same
    neighbour; if their numbers differ, the items with the most equal members belong together.
    """
    places: Places = {}
    _match(places, before, after, _text)
    _match(places, before, after, lambda item: None if (key := key_of(item, keys)) is None else _text(key))
    _match_between(places, before, after, keys)
    return places


def _match(
    places: Places, before: Sequence[Any], after: Sequence[Any], identify: Callable[[Any], bytes | None]
) -> None:
    """Add the items that are identified by the same text, in their order."""
    taken = set(places.values())
    free: defaultdict[bytes, deque[int]] = defaultdict(deque)
    for place, item in enumerate(before):
        if place not in taken and (identity := identify(item)) is not None:
            free[identity].append(place)
    for place, item in enumerate(after):
        if place in places or not isinstance(item, (dict, list)):
            continue
        if (identity := identify(item)) is not None and free[identity]:
            places[place] = free[identity].popleft()


def _match_between(places: Places, before: Sequence[Any], after: Sequence[Any], keys: Sequence[str]) -> None:
    """Add items without a key that stand behind the same neighbour."""
    taken = {old: old for old in places.values()}
    left, changed = _behind(before, taken, keys), _behind(after, places, keys)
    for neighbour, new in changed.items():
        old = left.get(neighbour, [])
        if len(old) == len(new) or len(old) * len(new) > _MOST_PAIRS:
            places.update(zip(new, old, strict=False))
            continue
        pairs = [
            (_shared(before[one], after[other]), -abs(m - n), other, one)
            for m, one in enumerate(old)
            for n, other in enumerate(new)
        ]
        used: set[int] = set()
        for shared, _, other, one in sorted(pairs, key=lambda pair: pair[:2], reverse=True):
            if shared and other not in places and one not in used:
                places[other] = one
                used.add(one)


def _behind(items: Sequence[Any], known: Places, keys: Sequence[str]) -> defaultdict[int, list[int]]:
    """Return the places of changed items without a key, by the place in the first list of what stands before them."""
    places: defaultdict[int, list[int]] = defaultdict(list)
    neighbour = -1
    for place, item in enumerate(items):
        if place in known:
            neighbour = known[place]
        elif isinstance(item, (dict, list)) and key_of(item, keys) is None:
            places[neighbour].append(place)
    return places


def _shared(one: Any, other: Any) -> int:
    """Return how many members two items have in common."""
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return 0
    return sum(name in other and _text(value) == _text(other[name]) for name, value in one.items())


def _text(item: Any) -> bytes:
    return msgspec.json.encode(item, order="sorted")
