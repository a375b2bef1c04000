"""The text of a metric is that of prometheus-client, in each format and for each kind of series."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.core import (
    CounterMetricFamily,
    Exemplar,
    GaugeHistogramMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
    StateSetMetricFamily,
    SummaryMetricFamily,
    UnknownMetricFamily,
)
from prometheus_client.exposition import choose_encoder

from ctrlhost.plugin.metric_text import metric_text

ACCEPTED = [
    "",
    "text/plain; version=1.0.0; escaping=allow-utf-8",
    "application/openmetrics-text; version=1.0.0",
    "application/openmetrics-text; version=1.0.0; escaping=allow-utf-8",
    "application/openmetrics-text; version=1.0.0; escaping=values",
    "application/openmetrics-text; version=1.0.0; escaping=dots",
]
NUMBERS = [
    0, -0.0, 1, -1, 7, True, 0.1, 1 / 3, 1e-7, -1e-7, 999_999, 999_999.5, 1e6, 1_234_567, -1e6, -1e9, 1e15, 1e16, 1e17,
    1e300, 5e-324, 2**63, math.inf, -math.inf, math.nan,
]  # fmt: skip
TEXTS = ["", "a", "naming/names", 'a "quoted" name', "a\\b", "a\nb", '\\"\n', "{},=", "ü€\u2028\U0001f600", "\x1b[31m"]


def gauge(**options: Any) -> GaugeMetricFamily:
    return GaugeMetricFamily("things", "Things", **options)


def families() -> dict[str, Metric]:
    numbers, texts = gauge(labels=("of", "a_b")), gauge(labels=("z", "a"))
    for place, number in enumerate(NUMBERS):
        numbers.add_metric((str(place), "x"), number)
    for text in TEXTS:
        texts.add_metric((text, "1"), 1)
        texts.add_metric(("1", text), 1)
    counter = CounterMetricFamily("made", "Made\nwith \\", labels=("code",))
    counter.add_metric(("200",), 3)
    created = CounterMetricFamily("made", "Made")
    created.add_metric((), 3, created=1_700_000_000.5)
    histogram = HistogramMetricFamily("took_seconds", "Seconds", labels=("of",), unit="seconds")
    histogram.add_metric(("a",), [("0.1", 1), ("1", 2), ("+Inf", 3)], 2.5)
    in_time, exemplar, dotted, colon = gauge(labels=("of",)), Metric("made", "Made", "counter"), gauge(), gauge()
    in_time.add_metric(("a",), 1, timestamp=0)
    in_time.add_metric(("b",), 1, timestamp=1_700_000_000.123)
    exemplar.add_sample("made_total", {"a": "b"}, 1, exemplar=Exemplar({"trace": "1"}, 1))
    dotted.add_sample("things", {"a.b": "1"}, 1)
    dotted.add_sample("things.of", {}, 1)
    colon.add_sample("things:sum", {"_": "1"}, 1)
    return {
        "numbers": numbers, "texts": texts, "counter": counter, "created": created, "histogram": histogram,
        "time": in_time, "exemplar": exemplar, "names": dotted, "colon": colon, "empty": gauge(),
        "plain": gauge(value=2),
        "info": InfoMetricFamily("build", "Build", value={"version": "1"}),
        "states": StateSetMetricFamily("state", "State", value={"a": True, "b": False}),
        "summary": SummaryMetricFamily("took", "Took", count_value=3, sum_value=4.5),
        "unknown": UnknownMetricFamily("what", "What", value=1),
        "gauge-histogram": GaugeHistogramMetricFamily("sizes", "Sizes", buckets=[("1", 1), ("+Inf", 2)], gsum_value=3),
    }  # fmt: skip


@pytest.mark.parametrize("accept", ACCEPTED)
@pytest.mark.parametrize("name", families())
def test_the_text_is_that_of_prometheus_client(name: str, accept: str) -> None:
    metric = families()[name]
    encode, _ = choose_encoder(accept)
    whole: Any = SimpleNamespace(collect=lambda: [metric])
    assert metric_text(metric, accept) == encode(whole).removesuffix(b"# EOF\n")
