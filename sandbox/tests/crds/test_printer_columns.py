"""The paths of printer columns, on the sandbox and on a real kube-apiserver."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from sandbox.tests.conftest import Crd, crd_body
from tests.support.http_client import TABLE, Api

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CELLS = {
    r".metadata.labels.karpenter\.sh/nodepool": "pool",
    r".metadata.labels['karpenter\.sh/nodepool']": "pool",
    ".metadata.labels['karpenter.sh/nodepool']": None,
    ".a[].b": "1",
    ".a[*].b": "1",
    ".a[-1:]": '{"b":3}',
    ".a[0:2].b": "1",
    ".a[0:7].b": None,
    ".a[:-1].b": "1",
    ".a[1:].b": "2",
    ".a[0:3:2].b": "1",
    ".a[-1].b": "3",
    ".a[7].b": None,
    ".a[1,2].b": "2",
    ".a[?(@.c)].b": "1",
    ".a[?(@.b>1)].c": "y",
    ".a[?( @.c == 'y' )].b": "2",
    '.a[?(@.c!="x")].b': "2",
    ".spec..x": "deep",
    "..x": "deep",
    ".spec.*": '{"x":"deep"}',
    ".a b": None,
    ".none.x": None,
}


@pytest.mark.behaviour("findings/FS6")
def test_printer_columns_have_the_paths_of_a_real_server(
    each_api: Api, namespace: str, each_crd: Callable[..., Crd]
) -> None:
    columns = [{"name": f"c{n}", "type": "string", "jsonPath": path} for n, path in enumerate(CELLS)]
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    crd = each_crd(schema=schema, additionalPrinterColumns=columns)
    body = crd.obj(y={"x": "deep"})
    body["metadata"]["labels"] = {"karpenter.sh/nodepool": "pool"}
    body["a"] = [{"b": 1, "c": "x"}, {"b": 2, "c": "y"}, {"b": 3}]
    each_api.post(crd.path(namespace), body).expect(201)
    [row] = each_api.get(crd.path(namespace), TABLE).expect(200)["rows"]
    assert dict(zip(CELLS, row["cells"][1:], strict=True)) == CELLS


@pytest.mark.behaviour("findings/FS6")
def test_an_invalid_path_ends_the_printer_columns(each_api: Api, namespace: str, each_crd: Callable[..., Crd]) -> None:
    columns = [{"name": path, "type": "string", "jsonPath": path} for path in (".spec", ".a[x]", ".status")]
    crd = each_crd(additionalPrinterColumns=columns)
    table = each_api.get(crd.path(namespace), TABLE).expect(200)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", ".spec"]


@pytest.mark.behaviour("findings/FS6")
@pytest.mark.parametrize("path", ["{.spec.x}", "spec.x", "$.spec.x", " .spec.x"])
def test_a_path_of_a_printer_column_begins_with_a_dot(each_api: Api, group: str, path: str) -> None:
    bad, good = ({"name": "x", "type": "string", "jsonPath": text} for text in (path, ".x"))
    body = crd_body(group, additionalPrinterColumns=[bad])
    message = f"Invalid value: {json.dumps(path)}: must be a simple json path starting with ."
    for columns, field in (([bad], "spec"), ([good], "spec.versions[0]")):
        body["spec"]["versions"][1:] = [
            {**body["spec"]["versions"][0], "name": "v2", "storage": False, "additionalPrinterColumns": columns}
        ]
        [cause] = each_api.post(CRDS, body).fails(422, "Invalid")["details"]["causes"]
        assert (cause["field"], cause["message"]) == (f"{field}.additionalPrinterColumns[0].JSONPath", message)
