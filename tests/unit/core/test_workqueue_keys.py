"""Valid keys, equality of keys, and the lifetime of key objects."""

from __future__ import annotations

import enum
import gc
import queue
import sys
import weakref
from collections import namedtuple
from typing import Any, ClassVar, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrlhost.request import Request
from ctrlhost.workqueue import ItemExponentialFailureRateLimiter, WorkQueue

behaviour = pytest.mark.behaviour

KEYS = [
    "",
    "name",
    "namespace/name",
    "ä",
    "名前",
    "\U0001f600",
    "a\0b",
    "\ud800",
    "x" * 100_000,
    0,
    -1,
    2**63 - 1,
    -(2**63),
    2**63,
    10**50,
    -(10**50),
    (),
    ((),),
    ("name",),
    ("name", ""),
    (1, "1"),
    ("a", ("b", (2**70, "\udfff"))),
    Request("name", "namespace"),
    Request("name"),
    ("x" * 1000, "y" * 1000),
    ("x" * 254, "y" * 255, "z" * 256, *range(300)),
    ("x" * 2**24, "y" * (2**24 - 2), 1),
]


def test_every_kind_of_key_is_returned_unchanged() -> None:
    work_queue = WorkQueue()
    work_queue.add_many(KEYS)
    for key in KEYS:
        work_queue.add(key)
    assert len(work_queue) == len(KEYS)
    for key in KEYS:
        taken = work_queue.get()
        assert taken is key
        work_queue.forget(taken)
        work_queue.done(taken)
    assert work_queue.snapshot() == ([], [], [])


keys = st.recursive(
    st.text(st.characters(codec=None), max_size=5) | st.integers() | st.integers(-2, 2),
    lambda parts: st.lists(parts, max_size=3).map(tuple),
    max_leaves=8,
)


@given(st.lists(keys, max_size=20))
def test_two_keys_are_one_item_only_if_equal(some: list[Any]) -> None:
    work_queue = WorkQueue()
    work_queue.add_many(some)
    expected = list(dict.fromkeys(some))
    assert [work_queue.get() for _ in range(len(work_queue))] == expected
    # Equal keys that are other objects match too.
    for key in expected:
        work_queue.done(eval(repr(key)))
    assert work_queue.snapshot().processing == []


def test_a_named_tuple_is_the_tuple_of_its_fields() -> None:
    work_queue = WorkQueue()
    request = Request("name", "namespace")
    other = namedtuple("other", "a b c")("name", "namespace", "")  # noqa: PYI024
    for key in (request, ("name", "namespace", ""), other):
        work_queue.add(key)
    assert len(work_queue) == 1
    assert work_queue.get() is request
    work_queue.done(("name", "namespace", ""))
    work_queue.add(other)
    assert work_queue.get() is other


def test_get_returns_the_object_added_first_since_the_key_was_idle() -> None:
    first, second, third = (str(10**30) for _ in range(3))
    work_queue = WorkQueue()
    work_queue.add(first)
    work_queue.add(second)
    assert work_queue.get() is first
    work_queue.add(second)
    work_queue.done(third)
    assert work_queue.get() is first
    work_queue.done(third)
    work_queue.add(third)
    assert work_queue.get() is third


class Text(str):
    __slots__ = ()


class Number(int):
    __slots__ = ()


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Strange(tuple):
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        raise AssertionError("a queue compares without Python")

    def __hash__(self) -> int:
        raise AssertionError("a queue hashes without Python")


class Plain(tuple):
    __slots__ = ()


class Odd(NamedTuple):
    part: Any


SUBCLASSES = [Text("x"), Number(1), True, False, Colour.RED, Level.LOW]
NO_KEYS = [
    None,
    1.0,
    float("nan"),
    b"x",
    [],
    {},
    set(),
    frozenset(),
    pytest.param(object(), id="object"),
    object,
    Strange(),
    Odd([]),
    ("a", [1]),
]


@pytest.mark.parametrize("wrong", [*SUBCLASSES, *NO_KEYS, ("a", True), ((1.5,),)], ids=repr)
def test_an_invalid_key_is_refused_before_any_change(wrong: Any) -> None:
    limiter = ItemExponentialFailureRateLimiter(0.001, 1)
    work_queue = WorkQueue(rate_limiter=limiter)
    calls = [work_queue.add, work_queue.add_rate_limited, work_queue.done, work_queue.forget, work_queue.num_requeues]
    calls += [lambda key: work_queue.add_after(key, 1), limiter.when, limiter.forget, limiter.num_requeues]
    for call in calls:
        with pytest.raises(TypeError, match="cannot be a work queue's key"):
            call(wrong)
    for many in (work_queue.add_many, work_queue.done_many):
        with pytest.raises(TypeError, match="cannot be a work queue's key"):
            many(["good", wrong])
    assert work_queue.snapshot() == ([], [], [])


@pytest.mark.parametrize("wrong", SUBCLASSES)
def test_the_message_for_a_subclass_has_a_hint(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"convert it with str\(\) or int\(\) first"):
        WorkQueue().add(wrong)


def test_a_tuple_subclass_with_tuple_equality_is_a_key() -> None:
    work_queue = WorkQueue()
    key = Plain(["a", "b"])
    work_queue.add(key)
    work_queue.add(("a", "b"))
    assert work_queue.get() is key
    with pytest.raises(queue.Empty):
        work_queue.get_nowait()


def test_tuple_nesting_is_limited() -> None:
    key: Any = ()
    for _ in range(99):
        key = (key,)
    work_queue = WorkQueue()
    work_queue.add(key)
    with pytest.raises(TypeError, match="more than 100 levels"):
        work_queue.add((key,))
    for _ in range(10_000):
        key = (key,)
    with pytest.raises(TypeError, match="more than 100 levels"):
        work_queue.add(key)


@pytest.mark.parametrize("wrong", ["abc", Text("abc"), 3, None])
def test_bulk_calls_accept_an_iterable_of_keys(wrong: Any) -> None:
    work_queue = WorkQueue()
    for many in (work_queue.add_many, work_queue.done_many):
        with pytest.raises(TypeError):
            many(wrong)
    assert len(work_queue) == 0


def test_an_exception_of_an_iterable_reaches_the_caller_and_adds_nothing() -> None:
    def keys() -> Any:
        yield "a"
        raise RuntimeError("half way")

    work_queue = WorkQueue()
    with pytest.raises(RuntimeError, match="half way"):
        work_queue.add_many(keys())
    assert len(work_queue) == 0
    work_queue.add_many(key for key in ("a", "b"))
    assert work_queue.get_batch(5) == ["a", "b"]


def test_an_iterable_may_use_the_queue() -> None:
    work_queue = WorkQueue()

    def keys() -> Any:
        work_queue.add("first")
        yield "second"

    work_queue.add_many(keys())
    assert work_queue.get_batch(5) == ["first", "second"]


class Tracked(NamedTuple):
    name: str


class Object(Tracked):
    """A key that reports when it is freed: tuples do not support weak references."""

    freed: ClassVar[list[str]] = []

    def __del__(self) -> None:
        self.freed.append(self.name)


@pytest.fixture(autouse=True)
def nothing_freed() -> None:
    Object.freed.clear()


@behaviour("workqueue/Q13")
def test_an_object_is_freed_when_its_key_is_done() -> None:
    work_queue = WorkQueue()
    key = Object("name")
    work_queue.add(key)
    work_queue.add(("name",))
    taken = work_queue.get()
    assert taken is key
    del key, taken
    assert Object.freed == []
    work_queue.done(("name",))
    assert Object.freed == ["name"]


def test_objects_that_are_not_kept_are_freed_at_once() -> None:
    work_queue = WorkQueue()
    work_queue.add(("name",))
    late = Object("name")
    work_queue.add(late)
    work_queue.add_many([late])
    work_queue.add_after(late, 60)
    work_queue.add_rate_limited(late)
    del late
    assert Object.freed == ["name"]


def test_no_references_leak() -> None:
    work_queue = WorkQueue("leaks")
    key = str(10**30)
    before = sys.getrefcount(key)
    for _ in range(10):
        work_queue.add(key)
        work_queue.add_many([key, key])
        work_queue.get_batch(3)
        work_queue.add_rate_limited(key)
        work_queue.snapshot()
        work_queue.num_requeues(key)
        work_queue.forget(key)
        work_queue.done_many([key])
    work_queue.shut_down()
    assert sys.getrefcount(key) == before
    work_queue = WorkQueue()
    work_queue.add(key)
    work_queue.add_after(key, 60)
    del work_queue
    assert sys.getrefcount(key) == before


def test_a_limiter_holds_no_references_to_keys() -> None:
    limiter = ItemExponentialFailureRateLimiter(0.001, 1)
    key = Object("name")
    limiter.when(key)
    del key
    assert Object.freed == ["name"]
    assert limiter.num_requeues(("name",)) == 1


def test_an_objects_finalizer_may_use_the_queue() -> None:
    work_queue = WorkQueue()

    class Finalized(Tracked):
        def __del__(self) -> None:
            work_queue.add("from the finalizer")

    work_queue.add(Finalized("name"))
    work_queue.get()
    work_queue.done(("name",))
    assert work_queue.get_nowait() == "from the finalizer"


def test_a_queue_in_a_cycle_with_its_fair_by_is_collected() -> None:
    class Controller:
        def __init__(self) -> None:
            self.queue = WorkQueue(fair_by=self.group)

        def group(self, key: Any) -> str:
            return str(key)

    controller = Controller()
    reference = weakref.ref(controller)
    controller.queue.add("key")
    del controller
    gc.collect()
    assert reference() is None


def test_the_type_of_the_keys_is_for_type_checkers_only() -> None:
    queue = WorkQueue[str]("typed")
    queue.add(5)  # type: ignore[arg-type]
    assert (type(queue), queue.name, queue.get()) == (WorkQueue, "typed", 5)
