"""The completion indexes of Jobs: of their pods, and in the short form of a status."""

from __future__ import annotations

import re
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.controllers import failures
from ctrlhost_sandbox.controllers.tallies import new_condition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ctrlhost_sandbox.apimachinery.objects import Object

INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"
_ENV = "JOB_COMPLETION_INDEX"
_NUMBER = re.compile(r"[0-9]{1,10}", re.ASCII)
_RANGE = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10}))?", re.ASCII)


def index_of(pod: Object) -> int | None:
    """Return a pod's completion index; None without a valid one."""
    text = (pod["metadata"].get("annotations") or {}).get(INDEX, "")
    return int(text) if _NUMBER.fullmatch(text) else None


def count(pod: Object, annotation: str) -> int:
    """Return a count of failures; a malformed one is treated as 0."""
    text = (pod["metadata"].get("annotations") or {}).get(annotation, "")
    return int(text) if _NUMBER.fullmatch(text) else 0


def parse(text: str, limit: int) -> Iterator[range]:
    """Return the indexes below `limit` of a text such as `1,3-5`; malformed parts are ignored."""
    for part in text.split(","):
        if match := _RANGE.fullmatch(part):
            yield range(int(match[1]), min(int(match[2] or match[1]) + 1, limit))


def shorten(indexes: Iterable[int]) -> str:
    """Return the short form: three or more in a row become a range."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs)


class Indexes:
    """The indexes of an Indexed Job: which have succeeded, failed, or need a pod."""

    def __init__(self, job: Object, tracked: list[Object], active: list[Object]) -> None:
        """Read the status, and the pods that are not yet counted."""
        self._job, self._spec = job, job["spec"]
        self._limit: int = self._spec.get("completions") or 0
        self._before = set(chain.from_iterable(parse(job["status"].get("completedIndexes", ""), self._limit)))
        self._active = active
        ended = [(index, pod) for pod in tracked if (index := index_of(pod)) is not None and index < self._limit]
        self.succeeded = self._before | {index for index, pod in ended if pod["status"].get("phase") == "Succeeded"}
        self._per_index: int | None = self._spec.get("backoffLimitPerIndex")
        self._failed = set(chain.from_iterable(parse(job["status"].get("failedIndexes", ""), self._limit)))
        self._delayed: dict[int, Object] = {}
        if self._per_index is not None:
            self._read_failures([(index, pod) for index, pod in ended if failures.has_failed(pod, job)])

    def _read_failures(self, failed: list[tuple[int, Object]]) -> None:
        """Find the failed indexes, and by index the failed pod whose count its successor takes over."""
        for index, pod in failed:
            action = failures.judge(self._job, pod)[0]
            if action == "FailIndex" or (action != "Ignore" and count(pod, FAILURES) >= (self._per_index or 0)):
                self._failed.add(index)
        over = self.succeeded | self._failed | set(map(index_of, self._active))
        for index, pod in failed:
            if index not in over:
                self._delayed[index] = max(self._delayed.get(index, pod), pod, key=_attempts)

    def verdict(self) -> dict[str, Any] | None:
        """Return the condition that the indexes end the Job with, if they do."""
        if len(self._failed) > self._spec.get("maxFailedIndexes", self._limit):
            text = "Job has exceeded the specified maximal number of failed indexes"
            return new_condition("FailureTarget", "MaxFailedIndexesExceeded", text)
        if self._failed and len(self._failed) + len(self.succeeded) >= self._limit:
            return new_condition("FailureTarget", "FailedIndexes", "Job has failed indexes")
        for number, rule in enumerate((self._spec.get("successPolicy") or {}).get("rules") or ()):
            # There may be billions of indexes.
            wanted = list(parse(rule.get("succeededIndexes", f"0-{self._limit}"), self._limit))
            matched = sum(any(index in interval for interval in wanted) for index in self.succeeded)
            if matched and matched >= rule.get("succeededCount", sum(map(len, wanted))):
                return new_condition("SuccessCriteriaMet", "SuccessPolicy", f"Matched rules at index {number}")
        return None

    def pending(self, ending: list[Object], most: int) -> list[int]:
        """Return the first indexes without a success, a failure, and an active or ending pod."""
        taken = self.succeeded | self._failed | set(map(index_of, [*self._active, *ending]))
        return list(islice((index for index in range(self._limit) if index not in taken), most))

    def holds(self, pod: Object) -> bool:
        """Return whether a failed pod stays uncounted until its successor takes over the count."""
        return any(pod is delayed for delayed in self._delayed.values())

    def wait_of(self, index: int) -> float:
        """Return the seconds until an index may have its next pod."""
        pod = self._delayed.get(index)
        return 0.0 if pod is None else failures.Backoff(_attempts(pod)[0] + 1, failures.finished_at(pod)).remaining()

    def counted(self, ended: list[Object]) -> dict[str, Any]:
        """Return the fields of the status, once these pods are counted too."""
        new = {index_of(pod) for pod in ended if pod["status"].get("phase") == "Succeeded"} & self.succeeded
        done = self._before | {index for index in new if index is not None}
        counts: dict[str, Any] = {"succeeded": len(done), "completedIndexes": shorten(done)}
        return counts if self._per_index is None else {**counts, "failedIndexes": shorten(self._failed)}

    def mark(self, pod: Object, index: int) -> None:
        """Set the index of a new pod: name, host name, annotations, label and environment."""
        metadata, job, suffix = pod["metadata"], self._job["metadata"]["name"], f"-{index}-"
        metadata["generateName"] = f"{job[: 58 - len(suffix)]}{suffix}"
        annotations = metadata["annotations"] = {**metadata["annotations"], INDEX: str(index)}
        metadata["labels"][INDEX] = str(index)
        pod["spec"]["hostname"] = f"{job}-{index}"
        variable = {"name": _ENV, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}}
        for container in (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]):
            known: list[Any] = container.setdefault("env", [])
            if all(variable["name"] != _ENV for variable in known):
                known.append(variable)
        if self._per_index is None:
            return
        old = self._delayed.get(index)
        counts = {name: 0 if old is None else count(old, name) for name in (FAILURES, IGNORED)}
        if old is not None:
            counts[FAILURES if failures.counts(self._job, old) else IGNORED] += 1
        annotations |= {name: str(number) for name, number in counts.items() if number or name == FAILURES}


def _attempts(pod: Object) -> tuple[int, float]:
    """Return how many pods of the index failed before this one, and when it ended."""
    return count(pod, FAILURES) + count(pod, IGNORED), failures.finished_at(pod)
