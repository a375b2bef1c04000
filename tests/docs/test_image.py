"""The image recipe, without building it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import yaml

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
    found: list[list[tuple[str, str]]] = []
    for one in instructions():
        if one[0] == "FROM":
            found.append([])
        found[-1].append(one)
    return found


def test_all_copied_files_exist_and_are_not_ignored() -> None:
    copied = [words.split()[:-1] for name, words in instructions() if name == "COPY" and "--from" not in words]
    names = {name for group in copied for name in group}
    assert all((ROOT / name).exists() for name in names)
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert ignored[0] == "*"
    assert {line.removeprefix("!") for line in ignored if line.startswith("!")} == names


def test_stages_copy_from_stages_that_come_before_them() -> None:
    known: set[str] = set()
    for stage in stages():
        for name, words in stage:
            if name == "COPY" and (source := re.search(r"--from=(\S+)", words)):
                assert source[1] in known
        known.update(re.findall(r" AS (\S+)$", stage[0][1]))


def test_bases_are_pinned_slim_and_new_enough() -> None:
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    for stage in stages():
        base, tag = stage[0][1].split()[0].split(":")
        release = tag.partition("-")[0]
        assert tag.endswith("-slim-bookworm"), "one libc for what is built and what runs it"
        least = (
            cargo["workspace"]["package"]["rust-version"] if base == "rust" else PROJECT["requires-python"].lstrip(">=")
        )
        assert tuple(map(int, release.split("."))) >= tuple(map(int, least.split(".")))


def test_the_image_runs_as_nobody_without_a_shell() -> None:
    final = stages()[-1]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", last("USER"))
    assert final.index(("USER", last("USER"))) < [name for name, _ in final].index("ENTRYPOINT")
    assert not [one for one in final if one[0] == "RUN"]
    (program,) = json.loads(last("ENTRYPOINT"))
    assert Path(program).name in PROJECT["scripts"]
    assert json.loads(last("CMD")) == ["run"]
    assert program.startswith(next(words.split()[-1] for name, words in final if name == "COPY"))


def test_the_printed_deployment_fits_the_image() -> None:
    names = sorted(path.name for path in (ROOT / "plugins").iterdir() if (path / "pyproject.toml").exists())
    assert names == ["bitcoin", "hostname", "ingress-status", "naming"]
    command = [sys.executable, "-m", "ctrlhost", "manifests", f"--plugins={','.join(names)}"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    (deployment,) = [one for one in yaml.safe_load_all(printed) if one and one["kind"] == "Deployment"]
    pod: dict[str, Any] = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert "command" not in container
    assert container["args"][0] == "run"
    assert container["args"][1] == f"--plugins={','.join(names)}"
    assert container["ports"][0]["containerPort"] == int(last("EXPOSE"))
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod["securityContext"]["runAsNonRoot"] is True


def test_the_versions_are_those_of_the_lock_file() -> None:
    """Check that the recipe turns the lock file into a line per package, with all that ctrlhost needs."""
    lock = (ROOT / "requirements/dev.txt").read_text(encoding="utf-8")
    kept = [line for line in lock.splitlines() if not re.match(r"^ +--hash", line)]
    lines = [re.sub(r" \\$", "", line) for line in kept]
    packages = {line.partition("==")[0] for line in lines if line and not line.lstrip().startswith("#")}
    assert all(re.fullmatch(r"[a-z0-9._-]+==\S+( ; .+)?", line) for line in lines if line and line.lstrip()[0] != "#")
    needed = {re.split(r"[>=<\[ ]", one)[0] for one in PROJECT["dependencies"]}
    assert needed | {"maturin", "hatchling"} <= packages
