"""The text of one metric in an exposition.

prometheus-client checks and escapes each name of each label of each series anew, which is most of the time of a scrape
with many controllers. Here the lines of plain series are written with names that are checked once.
"""

from __future__ import annotations

import math
import re
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.utils import floatToGoString

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.samples import Sample

_END = b"# EOF\n"
#: Names of series and labels that are the same in all escapings but these; colons of a series are escaped, too.
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_OTHER_ESCAPINGS = ("escaping=dots", "escaping=values")
#: The text format has the series with these endings as metrics of their own.
_APART = ("_created", "_gsum", "_gcount")
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
#: Of a series without timestamp, exemplar and native histogram.
_NOTHING_MORE = (None,) * 3
#: From here on, Go writes numbers with an exponent.
_EXPONENT = 1e6


def metric_text(metric: Metric, accept: str) -> bytes:
    """Return the lines of a metric in the format for an `Accept` header, without the end mark of an exposition."""
    encode, content_type = choose_encoder(accept)
    if content_type.endswith(_OTHER_ESCAPINGS) or not _is_plain(metric.samples):
        return _encoded(encode, metric)
    head = _encoded(encode, Metric(metric.name, metric.documentation, metric.type, metric.unit))
    return head + "".join(map(_line, metric.samples)).encode()


def _encoded(encode: Any, metric: Metric) -> bytes:
    """Return the text of a metric as prometheus-client writes it."""
    text: bytes = encode(SimpleNamespace(collect=lambda: [metric]))
    return text.removesuffix(_END)


def _is_plain(samples: Iterable[Sample]) -> bool:
    """Return whether the lines have no more than a valid name, labels and a value."""
    names, labels = set[str](), set[str]()
    for sample in samples:
        if sample[3:] != _NOTHING_MORE:
            return False
        names.add(sample.name)
        labels.update(sample.labels)
    return all(map(_NAME.fullmatch, names | labels)) and not any(name.endswith(_APART) for name in names)


def _line(sample: Sample) -> str:
    name, labels, value = sample[:3]
    if not labels:
        return f"{name} {_number(value)}\n"
    items = sorted(labels.items())
    text = ",".join([f'{label}="{content}"' for label, content in items])
    if "\\" in text or "\n" in text or text.count('"') != 2 * len(items):
        text = ",".join([f'{label}="{content.translate(_ESCAPES)}"' for label, content in items])
    return f"{name}{{{text}}} {_number(value)}\n"


def _number(value: float) -> str:
    value = float(value)
    return repr(value) if -math.inf < value < _EXPONENT else str(floatToGoString(value))  # type: ignore[no-untyped-call]
