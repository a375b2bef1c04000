"""The files of a new plugin's project, and how they are written."""

from __future__ import annotations

from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING

from ctrlhost import __version__
from ctrlhost.authoring.scaffold.plugin_source import owned_in_words, plugin_source
from ctrlhost.authoring.scaffold.test_source import conftest_source, test_source
from ctrlhost.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ctrlhost.authoring.scaffold.choices import Choices

#: The files from templates, whose names begin with their own without a dot.
_TEMPLATES = ("pyproject.toml", "README.md", "Dockerfile", ".gitignore")


def project(choices: Choices) -> dict[str, str]:
    """Return the text of each file by its path in the project. The same choices give the same texts."""
    source = plugin_source(choices)
    values = {
        "name": choices.name,
        "module": choices.module,
        "distribution": choices.distribution,
        "version": __version__,
        "next": _next_version(),
        "msgspec": ', "msgspec>=0.19"' if "import msgspec" in source else "",
        "owned": owned_in_words(choices),
        "reconciled": choices.reconciled,
        "file": choices.file,
    }
    templates = files("ctrlhost.authoring.scaffold") / "templates"
    texts = {
        name: Template((templates / f"{name.removeprefix('.')}.txt").read_text(encoding="utf-8")).substitute(values)
        for name in _TEMPLATES
    }
    return {
        **texts,
        f"src/{choices.module}/__init__.py": source,
        f"src/{choices.module}/py.typed": "",
        f"examples/{choices.file}.yaml": _example(choices),
        "tests/conftest.py": conftest_source(),
        f"tests/test_{choices.file}.py": test_source(choices),
    }


def write(texts: Mapping[str, str], directory: Path) -> None:
    """Write the files below a new directory; ConfigError if there is something of that name, or it cannot be made."""
    try:
        directory.mkdir()
        for name, text in texts.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except FileExistsError:
        raise ConfigError(f"{directory} exists", hint="choose another name, or remove it") from None
    except OSError as error:
        raise ConfigError(f"{error.filename or directory}: {error.strerror}") from None


def _next_version() -> str:
    """Return the first version that may break plugins: the next minor one before 1.0, else the next major one."""
    major, minor = map(int, __version__.split(".")[:2])
    return f"{major}.{minor + 1}" if major == 0 else str(major + 1)


def _example(choices: Choices) -> str:
    if not choices.kind:
        return f"""apiVersion: v1
kind: ConfigMap
metadata:
  name: example
  labels:
    {choices.label}: "true"
data:
  size: "2"
"""
    return f"""apiVersion: {choices.group}/v1alpha1
kind: {choices.kind}
metadata:
  name: example
spec:
  size: 2
"""
