"""The differential fuzz of the sandbox and a real kube-apiserver, for a short time; `make soak` runs it longer."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
import yaml
from ctrlhost_sandbox import Sandbox

from tests.differential.classes import Known, difference, known
from tests.differential.requests import targets
from tests.differential.run import Run, forget, prepare, replayed
from tests.differential.servers import Outcome, Request, Servers
from tests.support.control_plane import KubeApiserver, require_kube_apiserver
from tests.support.http_client import Api
from tests.support.rbac_rig import api_of

pytestmark = pytest.mark.real

EQUAL = yaml.safe_load(Path(__file__).with_name("equal_answers.yaml").read_text(encoding="utf-8"))
PAGE = Path(__file__).parents[2] / "docs" / "sandbox.md"
HEADING = "## Differences that the fuzz finds"
LEAST_CODES, LEAST_FIELDS = 0.995, 0.98
MOST_UNLISTED = 0.0005
SEED = 20260102
REQUESTS = 2500
#: `make soak` sets it.
SECONDS = float(os.environ.get("CTRLHOST_DIFFERENTIAL_SECONDS", "0"))


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Start a sandbox and a kube-apiserver, both without controllers."""
    require_kube_apiserver()
    with (
        Sandbox(controllers=()) as sandbox,
        KubeApiserver(tmp_path_factory.mktemp("differential")) as server,
        Api(sandbox.url, sandbox.ca, sandbox.token) as ours,
        api_of(server.kubeconfig) as theirs,
    ):
        for api in (ours, theirs):
            prepare(api)
        pair = Servers(ours, theirs)
        yield pair
        pair.close()


@pytest.mark.slow
@pytest.mark.behaviour("findings/FS27")
@pytest.mark.timeout(SECONDS + 300)
def test_random_requests_get_the_answers_of_a_real_server(servers: Servers) -> None:
    run = Run(servers, targets(servers.apis[0]), random.randrange(2**32) if SECONDS else SEED)
    report = run.seconds(SECONDS) if SECONDS else run.requests(REQUESTS)
    unlisted = report.unlisted(known())
    examples = "\n".join(map(report.example, unlisted))
    if SECONDS:
        print(report, f"{len(report.classes)} classes, {len(unlisted)} of them unlisted", examples, sep="\n")
    assert report.codes.keys() >= {200, 201, 400, 404, 409, 422}, report
    assert report.equal_codes >= LEAST_CODES, report
    assert report.equal_fields >= LEAST_FIELDS, report
    # A long run finds what occurs once in many thousand requests.
    assert unlisted.total() <= MOST_UNLISTED * report.requests * bool(SECONDS), f"seed {report.seed}\n{examples}"


@pytest.mark.behaviour("findings/FS27")
@pytest.mark.parametrize(
    "listed", known(), ids=lambda entry: re.sub(r"\W+", "-", f"{entry.where} {entry.left} {entry.right}")
)
def test_each_known_difference_occurs(servers: Servers, listed: Known) -> None:
    *before, last = listed.requests
    for request in listed.requests:
        forget(servers, request)
    for request in before:
        ours, theirs = servers.outcomes(request)
        assert (ours, ours.code < 400) == (theirs, True), request.text()
    result = difference(last, *servers.outcomes(last))
    for request in listed.requests:
        forget(servers, request)
    assert result is not None, "both servers answer alike: remove the difference"
    assert listed.covers(result), result


@pytest.mark.behaviour("findings/FS27")
def test_kept_requests_can_be_replayed(servers: Servers) -> None:
    report = Run(servers, [], SEED).report
    requests = next(entry.requests for entry in known() if entry.right == "415 UnsupportedMediaType")
    result = difference(requests[-1], Outcome(200, "", frozenset()), Outcome(422, "Invalid", frozenset()))
    assert result is not None
    report.classes[result], report.examples[result] = 1, requests
    comment, *answers = replayed(servers, report.example(result))
    assert comment == f"# 1 {result}"
    codes = [answer[4:7] for answer in answers]
    assert codes == ["201", "201", "422", "415"]


@pytest.mark.behaviour("findings/FS27")
@pytest.mark.parametrize("name", EQUAL)
def test_answers_that_differed_are_equal(servers: Servers, name: str) -> None:
    *before, last = map(_request, EQUAL[name])
    for request in (*before, last):
        forget(servers, request)
    for request in before:
        ours, theirs = servers.outcomes(request)
        assert (ours, ours.code < 400) == (theirs, True), request.text()
    ours, theirs = servers.outcomes(last)
    for request in (*before, last):
        forget(servers, request)
    assert ours == theirs
    assert " ".join([str(theirs.code), *sorted(theirs.fields)]) == str(EQUAL[name][-1][4])


def _request(entry: list[Any]) -> Request:
    method, url, media, body = entry[:4]
    path, _, query = url.partition("?")
    return Request("", "", method, path, dict(parse_qsl(query)), f"application/{media}" if media else "", body)


def test_the_docs_list_exactly_the_known_differences() -> None:
    text = PAGE.read_text(encoding="utf-8").partition(HEADING)[2].partition("\n## ")[0]
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert rows == [row(entry) for entry in known()]


def row(entry: Known) -> str:
    """Return the row of the docs for a difference."""
    fields = ", ".join(f"`{field}`" for field in entry.fields) or "-"
    return f"| `{entry.where}` | `{entry.left}` | `{entry.right}` | {fields} | {entry.why} |"
