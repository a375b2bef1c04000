"""Failing keys are counted by cause; causes are few, whatever the texts of errors, and take few bytes."""

from __future__ import annotations

import itertools
import sys

import pytest

from ctrlhost import Request
from ctrlhost.controller.causes import CAUSES, Causes, masked
from ctrlhost.controller.error_log import ErrorLog
from ctrlhost.controller.history import History
from ctrlhost.controller.metrics import LABELS, ControllerCounts, ReconcileMetrics
from ctrlhost.controller.sentences import cause_line, counted, keys_fail
from ctrlhost.controller.severity import severity
from ctrlhost.controller.traces import TEXT, trace_of
from ctrlhost.testing import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def history(clock: ManualClock) -> History:
    return History("shop/orders", clock, ErrorLog())


def fail(history: History, key: object, error: str = "no price", kind: str = "ValueError", **options: object) -> None:
    history.failed(key, kind, f"{kind}: {error}", "shop.py:12", **({"terminal": False} | options))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no price for a1", "no price for #"),
        ("no price for apples in market", "no price for # in #"),
        ("pods apples-7d9f4 is 14 s old: 10.0.0.1", "pods # is # s old: #"),
        ("uid 5a2f1c1e-0b6d-4c39-9b6e-8f0a3c2d1e00, digest deadbeefcafe", "uid #, digest #"),
        ("the server said no.", "the server said no."),
        ("x" * 10_000, "x" * 200),
    ],
)
def test_what_differs_from_key_to_key_is_masked(text: str, expected: str) -> None:
    assert masked(text, Request("apples", "market")) == expected


def test_keys_have_one_cause_at_a_time(history: History, clock: ManualClock) -> None:
    for number in range(1_200):
        fail(history, Request(f"o{number}", "orders"), f"no price for o{number}")
    clock.advance(30)
    fail(history, Request("o7", "orders"), "gone", kind="KeyError")
    fail(history, Request("o8", "orders"), "no price for o8")
    price, gone = history.causes.worst()
    assert (price.title, price.text, price.keys, price.failures) == (
        "ValueError at shop.py:12",
        "no price for #",
        1_199,
        1_201,
    )
    assert (price.first, price.last, price.key, price.error) == (
        0.0,
        30.0,
        Request("o8", "orders"),
        "ValueError: no price for o8",
    )
    assert (gone.keys, history.causes.failing, history.causes.find(gone.id)) == (1, 2, gone)
    assert history.failing_keys(0, 5, gone.id) == [Request("o7", "orders")]
    # Since its first failure, whatever the cause.
    assert history.failing[Request("o7", "orders")] == (0.0, gone)
    history.succeeded(Request("o7", "orders"))
    assert (gone.keys, history.causes.failing) == (0, 1)
    # The same in each replica, and other than that of another controller.
    ids = [
        Causes(name).failed("k", "ValueError", "shop.py:12", "ValueError: no price for k1", "0-1", None, 0.0).id
        for name in ("shop/orders", "shop/bills")
    ]
    assert ids[0] == price.id != ids[1]


def test_a_rate_is_that_of_the_last_minute(history: History, clock: ManualClock) -> None:
    for _ in range(60):
        fail(history, "a")
        clock.advance(1)
    cause = history.causes.worst()[0]
    assert cause.per_second(clock.now()) == pytest.approx(1.0)
    for _ in range(30):
        fail(history, "a")
        fail(history, "b")
        clock.advance(1)
    assert cause.per_second(clock.now()) == pytest.approx(1.5, abs=0.1)
    clock.advance(120)
    assert cause.per_second(clock.now()) == 0.0


def test_ten_thousand_texts_are_few_causes_and_few_bytes(history: History) -> None:
    letters = itertools.product("abcdefghijklmnopqrstuvwxyz", repeat=4)
    words = ["".join(word) for word, _ in zip(letters, range(10_000), strict=False)]
    for word in words:
        fail(history, word, f"{word} is no {word}ish thing, nor {word[::-1]}")
    assert len(history.causes.worst()) == CAUSES == 200
    assert len(history.failing) == 10_000
    # The oldest make room.
    assert {cause.key for cause in history.causes.worst()} == set(words[-CAUSES:])
    for word in words:
        history.succeeded(word)
    assert history.causes.failing == len(history.failing) == 0


def _recursion(depth: int, text: str) -> None:
    if not depth:
        raise ValueError(text)
    _recursion(depth - 1, text)


def test_a_traceback_of_a_megabyte_is_cut(history: History) -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    try:
        _recursion(5_000, "x" * 1_000_000)
    except ValueError as error:
        error.add_note("y" * 1_000_000)
        trace = trace_of(error)
    finally:
        sys.setrecursionlimit(limit)
    assert trace.size < 20_000
    text = trace.text()
    assert len(text) < TEXT + 100
    assert text.startswith("Traceback (most recent call last):\n")
    assert "  … 4,961 frames\n" in text or "characters\n" in text
    # All that is kept of failing keys is bounded, too.
    for number in range(1_000):
        fail(history, number, f"{'x' * 2_000}{number}", trace=trace)
    kept = sum(failure.size for _, failure in history.failures())
    assert kept <= 2 << 20
    assert len(history.failures()) > 50
    assert history.failure(999) is not None
    assert len(history.failing) == 1_000


def test_a_traceback_has_the_frames_of_the_plugin_and_those_of_ctrlhost_in_one_line() -> None:
    try:
        try:
            masked(None, "key")  # type: ignore[arg-type]
        except TypeError as error:
            raise ValueError("no price") from error
    except ValueError as error:
        lines = trace_of(error).text().splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1].startswith(f'  File "{__file__}", line ')
    assert lines[2] == '    masked(None, "key")  # type: ignore[arg-type]'
    assert lines[3] == "  … 1 frame of ctrlhost"
    assert lines[4].startswith("TypeError: ")
    assert lines[6] == "The above exception was the direct cause of the following exception:"
    assert lines[-2].startswith("    raise ValueError")
    assert lines[-1] == "ValueError: no price"


class _Hostile(Exception):
    """An error whose own methods raise."""

    def __str__(self) -> str:
        raise ValueError("str")

    def __bool__(self) -> bool:
        raise ValueError("bool")

    def __getattr__(self, name: str) -> object:
        raise ValueError(name)


class _Empty(Exception):
    """An error that is false."""

    def __len__(self) -> int:
        return 0


@pytest.mark.parametrize("kind", [_Hostile, _Empty])
def test_the_methods_of_an_error_do_not_matter_for_its_traceback(kind: type[Exception]) -> None:
    error = ValueError("no price")
    error.__cause__ = kind()
    lines = trace_of(error).text().splitlines()
    caused = "The above exception was the direct cause of the following exception:"
    assert lines == [kind.__name__, "", caused, "", "ValueError: no price"]


def test_the_last_runs_of_failing_keys_are_kept(history: History, clock: ManualClock) -> None:
    for number in range(300):
        clock.advance(1)
        fail(history, "poison")
        history.ended(("poison", clock.now(), 0.5, 0, number, "error", "ValueError: no price"))
        if number == 280:
            for other in range(300):
                history.runs.append((f"k{other}", clock.now(), 0.1, 1, other))
    clock.advance(1)
    for other in range(200):
        history.runs.append((f"k{other}", clock.now(), 0.1, 1, 1_000 + other))
    runs = history.runs_of("poison")
    assert [run.number for run in runs] == [299, 298, 297, 296, 295]
    assert runs[0].error == "ValueError: no price"
    failure = history.failure("poison")
    assert failure is not None
    assert (failure.failures, failure.since, failure.at) == (300, 1.0, 300.0)
    history.succeeded("poison")
    assert history.runs_of("poison") == []


@pytest.mark.parametrize(
    ("keys", "failing", "seconds", "in_a_row", "expected"),
    [
        (1_200, 0, 0.0, 0, "ok"),
        (1_200, 600, 1.0, 5, "ok"),
        (1_200, 601, 1.0, 0, "failing"),
        (1_200, 430, 299.0, 19, "ok"),
        (1_200, 430, 300.0, 19, "degraded"),
        (1_200, 430, 0.0, 20, "failing"),
        # A poisoned key that is retried is not the whole controller.
        (1_200, 1, 299.0, 20, "ok"),
        (1_200, 1, 300.0, 20, "degraded"),
        # One of two keys may fail now and then.
        (1, 1, 1.0, 1, "ok"),
        (1, 1, 1.0, 20, "failing"),
        (1, 1, 60.0, 5, "failing"),
    ],
)
def test_keys_count_and_not_runs(keys: int, failing: int, seconds: float, in_a_row: int, expected: str) -> None:
    assert severity(keys, failing, seconds, in_a_row) == expected


def test_a_success_of_another_key_ends_nothing(history: History, clock: ManualClock) -> None:
    for number in range(700):
        fail(history, number)
        history.ended((number, clock.now(), 0.0, 0, number, "error", "ValueError: no price"))
    assert history.outcomes(1_200)[:4] == (1_200, 700, 1, 0.0)
    assert history.outcomes(1_200).severity == "failing"
    history.runs.append(("good", clock.now(), 0.0, 0, 1_000))
    assert history.outcomes(1_200).severity == "failing"
    # Without objects, the keys are those of the last runs.
    assert history.outcomes(0).keys == 701


def test_the_metric_has_few_labels(history: History, clock: ManualClock) -> None:
    metrics = ReconcileMetrics()
    counts = metrics.controller("shop/orders", 1)
    counts.outcomes, counts.causes = lambda: history.outcomes(2_000), history.causes
    for kind in range(100):
        for key in range(kind + 1):
            fail(history, (kind, key), kind=f"Error{kind:03}", error="x")
    clock.advance(40)
    families = {family.name: family.samples for family in metrics.collect()}
    failing = {sample.labels["cause"]: sample.value for sample in families["ctrlhost_failing_keys"]}
    assert len(failing) == LABELS + 1
    assert failing["Error099 at shop.py:12"] == 100
    assert failing["other"] == sum(range(1, 91))
    assert [sample.value for sample in families["ctrlhost_keys"]] == [5_050]
    assert [sample.value for sample in families["ctrlhost_oldest_failure_seconds"]] == [40.0]
    severities = {sample.labels["severity"]: sample.value for sample in families["ctrlhost_controller_severity"]}
    assert severities == {"failing": 1.0, "degraded": 0.0}


def test_without_a_failure_there_is_no_series_of_causes() -> None:
    metrics = ReconcileMetrics()
    assert isinstance(metrics.controller("shop/orders", 1), ControllerCounts)
    families = {family.name: family.samples for family in metrics.collect()}
    assert families["ctrlhost_failing_keys"] == families["ctrlhost_oldest_failure_seconds"] == []


def test_sentences_have_the_right_plurals() -> None:
    assert keys_fail(1_229, 2_000, 2) == "1,229 of 2,000 keys fail, 2 causes"
    assert keys_fail(1, 3, 1) == "1 of 3 keys fails, 1 cause"
    assert keys_fail(1, 1, 1) == "1 of 1 key fails, 1 cause"
    assert keys_fail(0, 3, 0) == ""
    assert cause_line("ValueError at a.py:1", "no price for #", 771) == "771 keys: ValueError at a.py:1: no price for #"
    assert (counted(1, "key"), counted(2, "entry", "entries")) == ("1 key", "2 entries")
