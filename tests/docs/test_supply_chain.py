"""The crates of the core: their licences, where they come from, and the parts of them that are built."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
REGISTRY = "registry+https://github.com/rust-lang/crates.io-index"
LICENCES = {
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Zlib",
}
#: Another TLS, HTTP/2, another HTTP client, and a runtime of many threads.
BANNED = {"aws-lc-rs", "h2", "kube", "kube-client", "native-tls", "openssl", "openssl-sys", "reqwest", "ureq"}
#: What the features of a crate must not hold; see `docs/architecture.md`.
LEFT_OUT = {
    "tokio": {"full", "fs", "io-std", "macros", "process", "rt-multi-thread", "signal"},
    "hyper": {"full", "http2", "tracing"},
    "hyper-util": {"full", "http2", "server", "server-auto", "service", "tracing"},
    "rustls": {"aws_lc_rs", "fips", "log", "logging"},
    "tokio-rustls": {"aws_lc_rs", "fips", "logging"},
}


def metadata(*options: str) -> dict[str, Any]:
    command = ["cargo", "metadata", "--locked", "--format-version=1", *options]
    # `target` may be elsewhere, and no crate is needed but for its manifest.
    document: dict[str, Any] = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout)
    return document


def tree() -> set[str]:
    """Return the names and versions of the crates that cargo builds for a wheel."""
    command = ["cargo", "tree", "--locked", "--package=ctrlhost-python", "--target=x86_64-unknown-linux-gnu"]
    listing = subprocess.run(
        [*command, "--edges=normal,build", "--prefix=none", "--format={p}"], cwd=ROOT, capture_output=True, check=True
    )
    # Crates of this repository have their folder behind the version.
    return {" ".join(line.split(" ")[:2]) for line in listing.stdout.decode().splitlines()}


@pytest.fixture(scope="module")
def built() -> list[tuple[dict[str, Any], set[str]]]:
    """The crates of a wheel for Linux, and their features; those of tests and benches aside."""
    document = metadata("--filter-platform=x86_64-unknown-linux-gnu")
    packages = {entry["id"]: entry for entry in document["packages"]}
    nodes = {node["id"]: node for node in document["resolve"]["nodes"]}
    left = [id_ for id_, entry in packages.items() if entry["name"] == "ctrlhost-python"]
    seen: set[str] = set()
    while left:
        seen.add(current := left.pop())
        deps = nodes[current]["deps"]
        needed = (dep["pkg"] for dep in deps if any(kind["kind"] != "dev" for kind in dep["dep_kinds"]))
        left.extend(id_ for id_ in needed if id_ not in seen)
    # The resolution also has what only a weak feature names (`x509-parser?/verify`), which nothing activates.
    activated = tree()
    return [
        (package, set(nodes[id_]["features"]))
        for id_ in seen
        if f"{(package := packages[id_])['name']} v{package['version']}" in activated
    ]


def alternatives(licence: str) -> Iterator[set[str]]:
    """Return the sets of licences of which one is enough: `(A OR B) AND C` is `A` and `C`, or `B` and `C`."""
    inner = re.fullmatch(r"\((.*)\) AND (.*)", licence)
    either, also = (inner[1], {inner[2]}) if inner else (licence, set())
    for choice in re.split(r" OR |/", either):
        yield set(choice.split(" AND ")) | also


def test_every_licence_is_an_accepted_one(built: list[tuple[dict[str, Any], set[str]]]) -> None:
    bad = {
        package["name"]: package["license"]
        for package, _ in built
        if not any(licences <= LICENCES for licences in alternatives(package["license"] or ""))
    }
    assert bad == {}


def test_crates_come_from_the_registry_or_this_repository(built: list[tuple[dict[str, Any], set[str]]]) -> None:
    ours = {"ctrlhost-core", "ctrlhost-python", "ctrlhost-transport"}
    assert {package["name"] for package, _ in built if package["source"] != REGISTRY} == ours


def test_nothing_of_another_transport_is_built(built: list[tuple[dict[str, Any], set[str]]]) -> None:
    names = [package["name"] for package, _ in built]
    assert BANNED & set(names) == set()
    assert {name for name in names if names.count(name) > 1} == set(), "two versions of a crate"
    features = {package["name"]: parts for package, parts in built}
    assert {name: features[name] & parts for name, parts in LEFT_OUT.items() if features[name] & parts} == {}
    assert features["rustls"] >= {"ring", "tls12"}


def test_no_crate_of_the_transport_logs(built: list[tuple[dict[str, Any], set[str]]]) -> None:
    """Tokens are not logged at any level by a crate below: there is nothing that it could log with."""
    names = {package["name"] for package, _ in built}
    assert names & {"log", "tracing-subscriber", "tracing-log", "env_logger"} == set()
