"""The image recipe, without building it."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

behaviour = pytest.mark.behaviour
ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def instructions() -> list[tuple[str, str]]:
    """Return each instruction with its arguments on one line."""
    plain = "\n".join(line for line in TEXT.splitlines() if not line.startswith("#"))
    lines = re.sub(r"\\\n", " ", plain).splitlines()
    return [(line.split()[0], line.partition(" ")[2].strip()) for line in lines if line.strip()]


def last(name: str) -> str:
    return [arguments for instruction, arguments in instructions() if instruction == name][-1]


def stages() -> list[list[tuple[str, str]]]:
    groups: list[list[tuple[str, str]]] = []
    for instruction in instructions():
        if instruction[0] == "FROM" or not groups:
            groups.append([])
        groups[-1].append(instruction)
    return groups


def test_all_copied_files_exist_and_are_not_ignored() -> None:
    copied = [words.split()[:-1] for name, words in instructions() if name == "COPY" and "--from" not in words]
    names = {name for group in copied for name in group}
    assert all((ROOT / name).exists() for name in names)
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert ignored[0] == "*"
    assert {line.removeprefix("!") for line in ignored if line.startswith("!")} == names
    left_out = [line for line in ignored[1:] if line and line[0] not in "!#"]
    assert left_out == ["**/__pycache__", "**/*.so", "**/target", "plugins/*/tests"]


def test_stages_copy_from_stages_that_come_before_them() -> None:
    known: set[str] = set()
    for stage in stages():
        for name, words in stage:
            if name == "COPY" and (source := re.search(r"--from=(\S+)", words)):
                assert source[1] in known
        known.update(re.findall(r" AS (\S+)$", stage[0][1]))


def bases() -> dict[str, str]:
    """Return the base images of the lock file."""
    lines = (ROOT / "image" / "bases.lock").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


@behaviour("operations/OP160")
def test_bases_come_from_the_lock_file_and_have_one_libc() -> None:
    arguments = [words for name, words in instructions() if name == "ARG"]
    used = [re.fullmatch(r"\$\{(\w+)\}( AS \w+)?", stage[0][1]) for stage in stages()[1:]]
    assert [stage and stage[1] for stage in used] == list(bases())
    # Without a default: a build without the lock file fails.
    assert set(bases()) <= set(arguments)
    for base in bases().values():
        assert re.fullmatch(r"[a-z0-9./-]+:[\w.-]+(@sha256:[0-9a-f]{64})?", base)
        assert "bookworm" in base or "debian12" in base
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    rust = re.search(r":([\d.]+)-", bases()["RUST_IMAGE"])
    assert rust is not None
    least = cargo["workspace"]["package"]["rust-version"]
    assert tuple(map(int, rust[1].split("."))) >= tuple(map(int, least.split(".")))


@behaviour("operations/OP160")
def test_make_builds_with_the_bases_of_the_lock_file() -> None:
    done = subprocess.run(
        ["make", "--dry-run", "image", "TAG=example.com/ctrlhost:1"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    (expression,) = re.findall(r"\$\((sed .*?bases.lock)\)", done.stdout)
    version = subprocess.run(["sh", "-c", expression], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert version.split("\n")[:-1] == [f"--build-arg {name}={base}" for name, base in bases().items()]
    assert "--build-arg VERSION=1 " in done.stdout


@behaviour("operations/OP160")
def test_scripts_install_packages_by_their_hashes_alone() -> None:
    for name in ("wheels", "install"):
        text = (ROOT / "image" / f"{name}.sh").read_text(encoding="utf-8")
        installs = [line for line in text.splitlines() if re.search(r"pip\S* install", line)]
        assert installs
        for line in installs:
            assert "--no-deps" in line
            assert ("--require-hashes" in line) != ("--no-index" in line)
    for name in ("build", "release", "runtime"):
        assert unhashed((ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")) == []
    scripts = [words for name, words in instructions() if name == "RUN"]
    assert [words.split()[0] for words in scripts if "apt-get" not in words] == [
        "/source/image/wheels.sh",
        "/image/install.sh",
    ]
    assert not any("pip" in words or "curl" in words for words in scripts)


def unhashed(lock: str) -> list[str]:
    """Return the packages of a lock file without a version or a hash."""
    entries = re.sub(r"\\\n", " ", re.sub(r"^ *#.*\n", "", lock, flags=re.MULTILINE)).splitlines()
    pattern = r"[a-z0-9._-]+==\S+( ; [^#]+?)?( +--hash=sha256:[0-9a-f]{64})+ *"
    return [entry for entry in entries if entry.strip() and not re.fullmatch(pattern, entry)]


def test_a_package_without_a_hash_is_noticed() -> None:
    assert unhashed("a==1 \\\n    --hash=sha256:" + "0" * 64 + "\nb==2\n") == ["b==2"]


@behaviour("operations/OP160")
def test_the_image_has_labels() -> None:
    labels = dict(re.findall(r"(org\.opencontainers\.image\.\w+)=\"([^\"]+)\"", last("LABEL")))
    assert {name.rpartition(".")[2] for name in labels} == {"source", "revision", "version", "licenses"}
    assert labels["org.opencontainers.image.licenses"] == PROJECT["license"]


@behaviour("operations/OP160")
def test_the_image_runs_as_nobody_without_a_shell() -> None:
    final = stages()[-1]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", last("USER"))
    assert final.index(("USER", last("USER"))) < [name for name, _ in final].index("ENTRYPOINT")
    assert not [instruction for instruction in final if instruction[0] == "RUN"]
    (program,) = json.loads(last("ENTRYPOINT"))
    assert Path(program).name in PROJECT["scripts"]
    assert json.loads(last("CMD")) == ["run"]
    assert program.startswith(next(words.split()[-1] for name, words in final if name == "COPY"))
    # `kubectl exec POD -- ctrlhost …` finds it.
    (path,) = (words.removeprefix("PATH=") for name, words in final if name == "ENV" and words.startswith("PATH="))
    assert path.split(":")[0] == str(Path(program).parent)


def test_the_printed_deployment_fits_the_image() -> None:
    # `kopf` is no plugin: it runs the files of others.
    packages = (ROOT / "plugins").glob("*/pyproject.toml")
    names = sorted(path.parent.name for path in packages if "entry-points.ctrlhost]" in path.read_text())
    assert names == ["bitcoin", "hostname", "ingress-status", "naming"]
    command = [sys.executable, "-m", "ctrlhost", "manifests", f"--plugins={','.join(names)}", "--image=host:1"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    (deployment,) = [
        document for document in yaml.safe_load_all(printed) if document and document["kind"] == "Deployment"
    ]
    pod: dict[str, Any] = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert "command" not in container
    assert container["args"][0] == "run"
    assert container["args"][1] == f"--plugins={','.join(names)}"
    exposed = {int(port) for port in last("EXPOSE").split()}
    assert exposed == {port["containerPort"] for port in container["ports"][:2]}
    user, group = map(int, last("USER").split(":"))
    assert (pod["securityContext"]["runAsUser"], pod["securityContext"]["runAsGroup"]) == (user, group)
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod["securityContext"]["runAsNonRoot"] is True


@behaviour("operations/OP162")
def test_the_image_has_what_ctrlhost_needs_but_the_official_client() -> None:
    """Check that runtime.txt has the dependencies of pyproject.toml, in the versions that the tests run with."""

    def locked(name: str) -> dict[str, str]:
        text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
        return dict(re.findall(r"^([a-z0-9._-]+)==([^\s;]+)", text, re.MULTILINE))

    def listed(lines: Iterable[str]) -> set[str]:
        return {line.strip() for line in lines if line.strip() and not line.startswith("#")}

    wanted = listed((ROOT / "requirements" / "runtime.in").read_text(encoding="utf-8").splitlines())
    assert {dependency for dependency in PROJECT["dependencies"] if not dependency.startswith("kubernetes")} == wanted
    for plugin in (ROOT / "plugins").glob("*/pyproject.toml"):
        needed = tomllib.loads(plugin.read_text(encoding="utf-8"))["project"]["dependencies"]
        assert {re.split("[>=<]", requirement)[0] for requirement in needed} <= {"ctrlhost", *locked("runtime")}
    for name in ("runtime", "build"):
        assert locked(name).items() <= locked("dev").items()
    assert {"kubernetes", "fastjsonschema"} & locked("runtime").keys() == set()
    assert {"maturin", "hatchling"} <= locked("build").keys()


@behaviour("oncall/OC29")
def test_the_bill_of_materials_is_complete_and_always_the_same() -> None:
    def output(seed: str) -> bytes:
        command = [sys.executable, str(ROOT / "image" / "sbom.py"), "ctrlhost"]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        return subprocess.run(command, capture_output=True, check=True, timeout=60, env=environment).stdout

    text = output("1")
    assert output("2") == text
    bill = json.loads(text)
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.5", 1)
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", bill["serialNumber"])
    named = {(entry["name"], entry["version"]) for entry in bill["components"]}
    assert len(named) == len(bill["components"])
    for distribution in importlib.metadata.distributions():
        name = re.sub(r"[-_.]+", "-", distribution.metadata["Name"]).lower()
        assert (name, distribution.version) in named
    for entry in bill["components"]:
        assert entry["purl"] == entry["bom-ref"] == f"pkg:pypi/{entry['name']}@{entry['version']}"
        assert entry["type"] == "library"
    licences = {entry["name"]: entry["licenses"] for entry in bill["components"] if "licenses" in entry}
    assert licences["ctrlhost"] == [{"expression": "Apache-2.0"}]
    # In the stage that installs, before the environment is copied.
    assert "sbom.py" in (ROOT / "image" / "install.sh").read_text(encoding="utf-8")
