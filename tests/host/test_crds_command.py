"""`ctrlhost crds` for models and for files of a package."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import yaml

from tests.host.conftest import Distributions
from tests.support.objects import crd

Command = Callable[..., CompletedProcess[str]]

MODEL = '''
    from __future__ import annotations

    from typing import Literal

    import ctrlhost
    import msgspec

    class Inner(msgspec.Struct, frozen=True):
        size: int = 1

    class Other(msgspec.Struct, frozen=True):
        next: Other | None = None

    class Spec(msgspec.Struct, frozen=True):
        field: {field}

    @ctrlhost.resource("example.com/v1")
    class Widget(ctrlhost.Model[Spec, None]):
        """A widget."""

    plugin = ctrlhost.Plugin({crds})

    @plugin.controller(Widget)
    def reconcile(ctx: ctrlhost.Context, obj: Widget) -> None:
        pass
'''


@pytest.mark.behaviour("authoring/AU28")
@pytest.mark.parametrize(
    ("field", "problem"),
    [
        ("Inner | Other", "Widget: spec.field: a structural schema cannot express a union of structs: Inner | Other"),
        ("tuple[int, str]", "Widget: spec.field: a structural schema cannot express the mixed tuple tuple[int, str]"),
        ("Other", "Widget: spec.field.next: a structural schema cannot express the recursive struct Other"),
    ],
)
def test_what_no_structural_schema_can_say_is_named_with_its_path(
    ctrlhost: Command, distributions: Distributions, field: str, problem: str
) -> None:
    distributions.add("widgets", MODEL.format(field=field, crds=""))
    done = ctrlhost("crds", "--plugins=widgets")
    assert (done.returncode, done.stdout) == (2, "")
    error, _, hint = done.stderr.splitlines()
    assert error == f"error: {problem}"
    assert hint.startswith("hint: ")


def test_texts_that_kubectl_would_read_as_booleans_and_numbers_are_quoted(
    ctrlhost: Command, distributions: Distributions
) -> None:
    values = ["n", "1e3", "0o14", "08", "0B1", "-1.e3"]
    field = f"Literal[{', '.join(map(repr, values))}]\n        y: float = 1e20"
    distributions.add("widgets", MODEL.format(field=field, crds=""))
    lines = [line.strip() for line in ctrlhost("crds", "--plugins=widgets").stdout.splitlines()]
    assert [line for line in lines if line.startswith("- '")] == [f"- '{value}'" for value in values]
    assert "'y':" in lines
    assert "default: 1.0e+20" in lines


@pytest.mark.behaviour("authoring/AU31")
def test_a_file_is_compared_with_the_model(ctrlhost: Command, distributions: Distributions, tmp_path: Path) -> None:
    distributions.add("widgets", MODEL.format(field="int = 1", crds=""))
    file = tmp_path / "widgets.yaml"
    file.write_text("# Made by hand.\n" + ctrlhost("crds", "--plugins=widgets").stdout)
    done = ctrlhost("crds", "--plugins=widgets", f"--check={file}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    file.write_text(file.read_text().replace("default: 1", "default: 2").replace("A widget.", "Widgets."))
    done = ctrlhost("crds", "--plugins=widgets", f"--check={file}")
    assert (done.returncode, done.stderr) == (1, "")
    lines = done.stdout.splitlines()
    assert lines[:2] == [f"--- {file}", "+++ plugins"]
    changed = [line for line in lines[2:] if line[0] in "-+"]
    assert [" ".join(line.split()) for line in changed] == [
        "- description: Widgets.",
        "+ description: A widget.",
        "- default: 2",
        "+ default: 1",
    ]


def test_a_file_of_the_package_wins_and_the_difference_to_the_model_is_told(
    ctrlhost: Command, distributions: Distributions
) -> None:
    distributions.add("widgets", MODEL.format(field="int = 1", crds='crds="widgets.yaml"'))
    file = distributions.folder / "widgets.yaml"
    file.write_text(yaml.safe_dump(crd("example.com", "Widget")))
    done = ctrlhost("crds", "--plugins=widgets")
    assert list(yaml.safe_load_all(done.stdout)) == [crd("example.com", "Widget")]
    done = ctrlhost("crds", "--plugins=widgets", f"--check={file}")
    assert done.returncode == 1
    assert "+        description: A widget." in done.stdout.splitlines()


@pytest.mark.behaviour("findings3/NA2")
def test_a_field_that_makes_stored_objects_invalid_is_named(tmp_path, ctrlhost):
    file, crds = tmp_path / "op.py", tmp_path / "crds.yaml"
    source = """
import ctrlhost
import msgspec

class Port(msgspec.Struct):
    number: int{required}

class Spec(msgspec.Struct):
    ports: list[Port] = []
    {field}

@ctrlhost.resource("fields.example.com/v1")
class Thing(ctrlhost.Model[Spec, None]): ...

plugin = ctrlhost.Plugin()

@plugin.controller(Thing)
def reconcile(ctx, thing): ...
"""
    file.write_text(source.format(required=" = 1", field=""))
    crds.write_text(ctrlhost("crds", str(file)).stdout)
    file.write_text(source.format(required="", field="zone: str = 'a'"))
    result = ctrlhost("crds", str(file), f"--check={crds}")
    assert result.returncode == 1
    assert result.stderr == (
        "warning: things.fields.example.com: objects that were stored without spec.ports[].number become invalid; "
        "give it a default, or None\n"
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", "invalid YAML"),
        ("kind: ConfigMap", "has an object that is not a CustomResourceDefinition"),
        ("[1]", "a document is no object but list"),
        ("kind: \xfc", "is not UTF-8"),
    ],
)
def test_a_file_of_something_else_is_refused(
    ctrlhost: Command, distributions: Distributions, tmp_path: Path, text: str, problem: str
) -> None:
    distributions.add("widgets", MODEL.format(field="int = 1", crds=""))
    file = tmp_path / "other.yaml"
    file.write_text(text, encoding="latin-1")
    done = ctrlhost("crds", "--plugins=widgets", f"--check={file}")
    assert (done.returncode, done.stdout) == (2, "")
    assert problem in done.stderr.splitlines()[0]


@pytest.mark.behaviour("authoring/AU5")
def test_all_documents_of_all_files_that_a_name_matches_are_printed_from_a_wheel(
    ctrlhost: Command, distributions: Distributions
) -> None:
    crds = [crd("example.com", kind) for kind in ("Alpha", "Beta", "Gamma")]
    source = "import ctrlhost\nplugin = ctrlhost.Plugin(crds={crds})\n"
    wheel(
        distributions.folder.parent / "things-1.0-py3-none-any.whl",
        {
            "things/__init__.py": "",
            "things/operator/__init__.py": source.format(crds='["crds/b*.yaml", "crds/a.yaml"]'),
            "things/operator/crds/a.yaml": yaml.safe_dump_all(crds[:2]),
            "things/operator/crds/b.yaml": yaml.safe_dump(crds[2]),
            "things/operator/crds/readme.txt": "",
            "nothing.py": source.format(crds='"crds/*.yaml"'),
            "things-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: things\nVersion: 1.0\n",
            "things-1.0.dist-info/entry_points.txt": "[ctrlhost]\nthings = things.operator\nnothing = nothing\n",
        },
        distributions.folder,
    )
    done = ctrlhost("crds", "--plugins=things")
    assert (done.returncode, done.stderr) == (0, "")
    assert list(yaml.safe_load_all(done.stdout)) == [crds[2], *crds[:2]]
    done = ctrlhost("crds", "--plugins=nothing")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[0].startswith("error: plugin `nothing`: crds: no file `crds/*.yaml`")


def wheel(file: Path, files: dict[str, str], site: Path) -> None:
    """Make a wheel, and install it as `pip` does: by unpacking it."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        archive.extractall(site)
