"""Invalid and unusual requests, reproducible from a seed."""

from __future__ import annotations

import copy
import gzip
import json
import random
import re
import struct
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, unquote_to_bytes

from sandbox.tests.conftest import crd_body
from tests.support.objects import apps, config_map, core, deployment, lease, pod, service, stateful_set

NAMESPACE, GROUP = "fuzz", "fuzz.t.example.org"
CUSTOM = f"/apis/{GROUP}/v1/namespaces/{NAMESPACE}/widgets"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MAGIC = b"k8s\x00"
# The one valid request that affects more than the fuzz's own objects.
REMOVES_EVERY_CRD = re.compile(rb"\s*DELETE\s[^?\s]*/customresourcedefinitions/*(\?|\s|$)", re.IGNORECASE)
METHODS = [
    "GET", "POST", "PUT", "PATCH", "DELETE", "GET", "POST", "PATCH", "HEAD", "OPTIONS", "TRACE", "CONNECT", "PURGE",
    "get",
]  # fmt: skip
TYPES = [
    "application/json", "application/yaml", "application/vnd.kubernetes.protobuf",
    "application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json",
    "application/apply-patch+yaml", "application/apply-patch+cbor", "text/plain", "application/json; charset=utf-16",
    "", "\xff/;;=",
]  # fmt: skip
ODD_VALUES: list[Any] = [
    None, True, 0, -1, 2**63, 2**64, -(2**70), 1e308, 0.1, "", "a" * 300,
    "\x00", "\ud800", "é", "../..", "%2e%2e", [], {}, [[]], [None], {"": ""}, {"a": None}, {"$patch": "delete"},
    {"$patch": "replace"}, {"$retainKeys": ["x"]}, {"$setElementOrder/containers": [{"name": "zz"}]},
    {"$deleteFromPrimitiveList/finalizers": ["a"]}, "1Ei", "-1m", "5e99", "2026-01-01T00:00:00Z",
    "2026-13-99T99:99:99Z", "1h" * 2000,
]  # fmt: skip
QUERIES = [
    "limit", "continue", "resourceVersion", "resourceVersionMatch", "labelSelector", "fieldSelector",
    "timeoutSeconds", "dryRun", "fieldManager", "fieldValidation", "force", "gracePeriodSeconds",
    "propagationPolicy", "orphanDependents", "pretty", "as", "includeObject", "allowWatchBookmarks",
    "sendInitialEvents", "tailLines", "container", "hash", "",
]  # fmt: skip
QUERY_VALUES = [
    "", "0", "1", "-1", "true", "false", "abc", "999999999999999999999", "All", "NotOlderThan", "Exact", "a=b",
    "a in (b", "a,,b", "!", "a=b=c", "metadata.name=x", "metadata.name!=\\", "spec.nope=1", "Strict", "Foreground",
    "eyJ2IjoxfQ", "%", "%zz", "\x00", "é", "x" * 5000, "a in (" + ",".join(["b"] * 500) + ")", "(" * 500,
]  # fmt: skip


class Fuzz:
    """A source of raw requests. Valid ones affect only the namespace and the API group of the fuzz."""

    def __init__(self, seed: int, host: str) -> None:
        self._host = host
        self._random = random.Random(seed)

    def request(self) -> bytes:
        """Return the bytes of one request, valid or not."""
        make = self._random.choices(
            (self._almost_valid, self._well_formed, self._mangled, self._broken_framing, self._huge),
            weights=(40, 30, 12, 15, 3),
        )[0]
        while REMOVES_EVERY_CRD.match(unquote_to_bytes((request := make())[:1000])):
            pass
        return request

    # requests

    def _almost_valid(self) -> bytes:
        """Return a request with an almost valid body on the right path."""
        pick = self._random.choice
        make, collection = pick(PLACES)
        body = make()
        name = body["metadata"]["name"]
        encoded = json.dumps(self._corrupted(body)).encode()
        method, path, kind = pick(
            (
                ("POST", collection, TYPES[0]),
                ("POST", collection, TYPES[1]),
                ("PUT", f"{collection}/{name}", TYPES[0]),
                ("PATCH", f"{collection}/{name}", TYPES[4]),
                ("PATCH", f"{collection}/{name}", TYPES[5]),
                ("PATCH", f"{collection}/{name}?fieldManager=f&force={pick(('true', 'false'))}", TYPES[6]),
                ("PATCH", f"{collection}/{name}/status", TYPES[4]),
                ("PATCH", f"{collection}/{name}/scale", pick(TYPES[3:7])),
                ("DELETE", f"{collection}/{name}", ""),
                ("GET", f"{collection}?{pick(QUERIES)}={quote(pick(QUERY_VALUES))}", ""),
            )
        )
        if not kind:
            encoded = b""
        elif kind == TYPES[4] and self._random.random() < 0.3:
            encoded, kind = self._patch()
        return self._framed(method, path, [f"Content-Type: {kind}", f"Content-Length: {len(encoded)}"], encoded)

    def _well_formed(self) -> bytes:
        """Return a well-formed request on a plausible path with any body."""
        pick = self._random.choice
        method, path = pick(METHODS), self._path()
        if self._random.random() < 0.4:
            path += "?" + "&".join(
                f"{pick(QUERIES)}={quote(pick(QUERY_VALUES), safe='%()=,!' if self._random.random() < 0.5 else '')}"
                for _ in range(self._random.randrange(1, 4))
            )
        body, kind = (b"", "") if self._random.random() < 0.15 else self._body()
        headers = [f"Content-Length: {len(body)}"]
        if kind or self._random.random() < 0.1:
            headers.append(f"Content-Type: {kind if self._random.random() < 0.8 else pick(TYPES)}")
        if self._random.random() < 0.2:
            headers.append(f"Accept: {pick(ACCEPTS)}")
        if self._random.random() < 0.05:
            headers.append(pick(HEADERS))
        return self._framed(method, path, headers, body)

    def _path(self) -> str:
        pick = self._random.choice
        namespace = pick((NAMESPACE, NAMESPACE, NAMESPACE, "no-such", "A%20b", "..", "%00", "é"))
        name = pick(NAMES)
        plural = pick(("configmaps", "secrets", "pods", "services", "events", "serviceaccounts", "nope", "endpoints"))
        core = f"/api/v1/namespaces/{namespace}/{plural}"
        group = pick(
            ("apps", "coordination.k8s.io", "rbac.authorization.k8s.io", "discovery.k8s.io", "nope.k8s.io", "")
        )
        kind = pick(("deployments", "statefulsets", "daemonsets", "leases", "roles", "rolebindings", "endpointslices"))
        grouped = f"/apis/{group}/v1/namespaces/{namespace}/{kind}"
        paths = (
            core, f"{core}/{name}", core, f"{core}/{name}", grouped, f"{grouped}/{name}", f"{grouped}/{name}/status",
            CUSTOM, f"{CUSTOM}/{name}", CRDS, f"{CRDS}/widgets.{GROUP}/status", "/", "/api", "/apis", "/openapi/v2",
            "/openapi/v3", "/openapi/v3/api/v1", "/version", "/readyz", "/nope", "/api/v1", "/api/v2/x", "//api//v1",
            f"{core}/{name}/{name}/{name}", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            "/sandbox/v1/stats", "*", "", "http://evil.example/api", "/api/v1/watch/pods", "/%", "/\x7f",
            "/api/v1/namespaces/" + "a/" * 200,
        )  # fmt: skip
        return self._random.choice(paths)

    def _mangled(self) -> bytes:
        """Return a request with bytes changed, removed or doubled."""
        data = bytearray(self._well_formed() if self._random.random() < 0.5 else self._almost_valid())
        for _ in range(self._random.choice((1, 1, 2, 5, 20))):
            at = self._random.randrange(len(data))
            change = self._random.randrange(3)
            if change == 0:
                data[at] = self._random.randrange(256)
            elif change == 1:
                del data[at : at + self._random.randrange(1, 9)]
            else:
                data[at:at] = data[at : at + self._random.randrange(1, 30)]
            if not data:
                break
        return bytes(data)

    def _broken_framing(self) -> bytes:
        body, kind = self._body()
        path = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
        half = body[: len(body) // 2]
        chunk = b"%x\r\n%b\r\n" % (len(half), half)
        typed = f"Content-Type: {kind or 'application/json'}"
        chunked = "Transfer-Encoding: chunked"
        choices: list[Callable[[], bytes]] = [
            lambda: self._framed("POST", path, [typed, chunked], chunk + b"0\r\n\r\n"),
            lambda: self._framed("POST", path, [typed, chunked], chunk),
            lambda: self._framed("POST", path, [typed, chunked], b"zz\r\n" + half),
            lambda: self._framed("POST", path, [typed, chunked], b"ffffffffffffffff\r\n" + half),
            lambda: self._framed("POST", path, [typed, chunked], b"-1\r\n" + half),
            lambda: self._framed("POST", path, [typed, f"Content-Length: {len(body) + 100}"], body),
            lambda: self._framed("POST", path, [typed, "Content-Length: -1"], body),
            lambda: self._framed("POST", path, [typed, "Content-Length: 99999999999999999999"], body),
            lambda: self._framed("POST", path, [typed, "Content-Length: 3", "Content-Length: 4"], b"{}{}"),
            lambda: self._framed("POST", path, [typed, "Content-Length: 3", chunked], chunk + b"0\r\n\r\n"),
            lambda: self._framed("POST", path, [typed, "Transfer-Encoding: gzip"], body),
            lambda: self._framed("POST", path, [typed, "Expect: 100-continue", f"Content-Length: {len(body)}"], body),
            lambda: self._framed("GET", path, ["Upgrade: websocket", "Connection: Upgrade"], b""),
            lambda: self._framed("GET", path, ["X" * 100], b""),
            lambda: self._framed("GET", path, ["A: b\x00c", " folded: x"], b""),
            lambda: f"GET {path}\r\n\r\n".encode(),
            lambda: f"GET {path} HTTP/9.9\r\nHost: localhost\r\n\r\n".encode(),
            lambda: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            lambda: b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + self._random.randbytes(50),
            lambda: self._random.randbytes(self._random.randrange(1, 400)),
            lambda: b"\r\n" * 50,
        ]
        return self._random.choice(choices)()

    def _huge(self) -> bytes:
        path = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
        mib = 1 << 20
        bomb = gzip.compress(b"a" * (8 * mib), 9)
        text = json.dumps(config_map("big", {"k": "x" * 1_600_000})).encode()
        choices: list[Callable[[], bytes]] = [
            lambda: self._framed("GET", f"{path}/{'a' * mib}", [], b""),
            lambda: self._framed("GET", f"{path}?labelSelector={'a' * mib}", [], b""),
            lambda: self._framed("GET", path, [f"X-Long: {'a' * 100_000}"], b""),
            lambda: self._framed("GET", path, [f"X-{n}: a" for n in range(20_000)], b""),
            lambda: self._posted(path, json.dumps(config_map("n" * mib)).encode()),
            lambda: self._posted(path, text),
            lambda: self._posted(path, b" " * (4 * mib)),
            lambda: self._posted(path, bomb, "Content-Encoding: gzip"),
            lambda: self._posted(path, b"[" * 100_000),
            lambda: self._posted(path, b'{"a":' * 100_000),
            lambda: self._posted(path, b'{"metadata":{"name":"a"},"data":' + b"1" * 500_000 + b"}"),
            lambda: self._posted(path, _alias_bomb(), kind="application/yaml"),
            lambda: self._posted(path, b"a: [" * 20_000, kind="application/yaml"),
            lambda: self._posted(path, b"? " * 20_000, kind="application/yaml"),
            lambda: self._posted(CRDS, json.dumps(_wide_crd(self._random)).encode()),
            lambda: self._posted(path, MAGIC + b"\x0a\xff\xff\xff\xff\x0f" + b"a" * 1000, kind=TYPES[2]),
            lambda: self._posted(path, MAGIC + b"\x12" * 50_000, kind=TYPES[2]),
        ]
        return self._random.choice(choices)()

    # parts

    def _framed(self, method: str, path: str, headers: list[str], body: bytes) -> bytes:
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self._host}", *headers]
        return "\r\n".join(lines).encode("utf-8", "surrogateescape") + b"\r\n\r\n" + body

    def _posted(self, path: str, body: bytes, *headers: str, kind: str = "application/json") -> bytes:
        return self._framed("POST", path, [f"Content-Type: {kind}", f"Content-Length: {len(body)}", *headers], body)

    def _body(self) -> tuple[bytes, str]:
        makes = (self._object, self._patch, self._protobuf, self._text)
        make = self._random.choices(makes, weights=(3, 2, 1, 1))[0]
        return make()

    def _object(self) -> tuple[bytes, str]:
        body = self._corrupted(self._random.choice(OBJECTS)())
        kind = self._random.choice(("application/json", "application/yaml", "application/apply-patch+yaml"))
        return json.dumps(body, ensure_ascii=self._random.random() < 0.5).encode("utf-8", "surrogatepass"), kind

    def _corrupted(self, value: Any) -> Any:
        """Replace, remove or add up to a few random parts."""
        for _ in range(self._random.choice((0, 1, 1, 2, 4))):
            holder, key = self._random_part(value)
            change = self._random.randrange(4)
            if change == 0:
                holder[key] = copy.deepcopy(self._random.choice(ODD_VALUES))
            elif change == 1:
                del holder[key]
            elif change == 2 and isinstance(holder, dict):
                holder[self._random.choice(("", "x", "$patch", "a.b/c", "é", "metadata", "k" * 400))] = copy.deepcopy(
                    holder[key]
                )
            else:
                holder[key] = [holder[key]] * 3
            if not value:
                break
        return value

    def _random_part(self, value: Any) -> tuple[Any, Any]:
        while True:
            keys = list(value) if isinstance(value, dict) else list(range(len(value)))
            key = self._random.choice(keys)
            inner = value[key]
            if not isinstance(inner, (dict, list)) or not inner or self._random.random() < 0.3:
                return value, key
            value = inner

    def _patch(self) -> tuple[bytes, str]:
        pick = self._random.choice
        pointer = pick(POINTERS)
        operation = {"op": pick(("add", "remove", "replace", "move", "copy", "test", "nope", 1)), "path": pointer}
        operation[pick(("value", "from"))] = pick((pointer, "/metadata", *ODD_VALUES))
        merge = self._corrupted(pick(OBJECTS)())
        operations = [operation] * pick((1, 3))
        body, kind = pick(((operations, TYPES[3]), (merge, pick(TYPES[4:7])), (merge, pick(TYPES[4:7]))))
        return json.dumps(body).encode(), kind

    def _protobuf(self) -> tuple[bytes, str]:
        pick = self._random.choice
        inner = self._random.randbytes(self._random.randrange(60))
        values = (b"\x01a", b"\x80" * 11, struct.pack("<Q", 1), inner[:20], bytes([len(inner)]) + inner)
        fields = b"".join(
            bytes([self._random.randrange(1, 16) << 3 | pick((0, 1, 2, 3, 4, 5, 7))]) + pick(values)
            for _ in range(self._random.randrange(1, 8))
        )
        unknown = b"\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12" + bytes([len(fields) % 128]) + fields
        return pick((MAGIC + unknown, MAGIC + unknown, MAGIC + fields, fields, MAGIC, inner)), TYPES[2]

    def _text(self) -> tuple[bytes, str]:
        return self._random.choice(TEXTS), self._random.choice(TYPES[:2])


def _role() -> dict[str, Any]:
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "a"}, "rules": [rule]}


def _widget() -> dict[str, Any]:
    kind = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": "a"}}
    return {**kind, "spec": {"size": 1, "color": "red"}}


def _crd() -> dict[str, Any]:
    return crd_body(f"other.{GROUP}")


def _status() -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "x"}, "gracePeriodSeconds": 0}


NAMES = [
    "a", "b", "fuzz", "a/status", "a/scale", "a/log", "b/eviction", "a/nope", "..", "%2F", "a%00", "A", "-", "x" * 300,
]  # fmt: skip
POINTERS = [
    "", "/", "/metadata/name", "/data/k", "/spec/containers/-", "/spec/containers/99", "/~", "/~2", "a",
    "/metadata/labels/a~1b", "/x" * 500,
]  # fmt: skip
OBJECTS: list[Callable[[], dict[str, Any]]] = [
    config_map, deployment,
            lease, pod, service, stateful_set, _role, _widget, _widget, _crd, _status,
]  # fmt: skip
PLACES: list[tuple[Callable[[], dict[str, Any]], str]] = [
    (config_map, core(NAMESPACE, "configmaps")),
    (deployment, apps(NAMESPACE, "deployments")),
    (stateful_set, apps(NAMESPACE, "statefulsets")),
    (lease, f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"),
    (pod, core(NAMESPACE, "pods")),
    (service, core(NAMESPACE, "services")),
    (_role, f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles"),
    (_widget, CUSTOM),
    (_widget, CUSTOM),
    (_crd, CRDS),
]
ACCEPTS = [
    "application/json", "application/vnd.kubernetes.protobuf", "*/*", "", "text/html",
    "application/json;as=Table;v=v1;g=meta.k8s.io", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=Nope;v=v9", ";;;", "a/b;q=x", "application/yaml",
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", "application/cbor", "x" * 3000,
]  # fmt: skip
HEADERS = [
    "Impersonate-User: ann", "Impersonate-Group: x", "Impersonate-Extra-%zz: x", "Authorization: Bearer",
    "Authorization: Basic Og==", "Origin: http://evil.example", "If-None-Match: x", "Content-Encoding: gzip",
    "Content-Encoding: br", "User-Agent: \x01", "Cookie: a=b", "Range: bytes=0-1", "Connection: close",
    "Accept-Encoding: gzip",
]  # fmt: skip
TEXTS = [
    b"", b"null", b"true", b"1", b'"x"', b"[]", b"{}", b"{", b"}", b'{"a":1,}', b'{"a":1}{"b":2}', b"\xff\xfe",
    b"\xef\xbb\xbf{}", b"NaN", b'{"kind":"ConfigMap","apiVersion":"v1","kind":"Secret","metadata":{"name":"a"}}',
    b'{"metadata":{"name":"a","name":"b"}}', b'{"metadata":{"name":1e400}}', b'{"metadata":{"name":"\\ud800"}}',
    b'{"\\u0000":1}', b"- a\n- b", b"a: b: c", b"\t", b"%YAML 9.9\n---\n",
    b"!!python/object/apply:os.system ['true']", b"a: &a [*a]", b"&a {*a: *a}", b"<<: {a: b}", b"a: !!binary x",
    b"---\n---\n", b"...", b"a: 1e999", b"[" * 300 + b"]" * 300, b"2026-01-01", b"0x1g", b"? a", b"a: |\n b",
    b"\x00" * 100,
]  # fmt: skip


def _alias_bomb() -> bytes:
    lines = [b"a0: &a0 [x,x,x,x,x,x,x,x,x]"]
    lines += [b"a%d: &a%d [%b]" % (n, n, b",".join([b"*a%d" % (n - 1)] * 9)) for n in range(1, 12)]
    return b"\n".join(lines)


def _wide_crd(chance: random.Random) -> dict[str, Any]:
    bad = chance.choice(("(a+)+$", "(", "a{1001}", "\\pL{999}", "(?=x)"))
    fields = {f"f{n}": {"type": "string", "pattern": bad, "default": "a" * 50} for n in range(3000)}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}
    return crd_body(f"wide{chance.randrange(5)}.{GROUP}", schema=schema)
