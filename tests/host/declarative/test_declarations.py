"""Mistakes in declarations: found when the plugin is loaded, all at once, each with its place and a hint."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import pytest

import ctrlhost
from ctrlhost.declarative.checks import MOST, DeclarationError
from ctrlhost.errors import PluginLoadError
from ctrlhost.supervisor.loader import PluginManager

if TYPE_CHECKING:
    from tests.host.conftest import Distributions, StartHost

behaviour = pytest.mark.behaviour

HEAD = """
    import ctrlhost
    plugin = ctrlhost.Plugin()
"""
#: What is written, the function that has the mistake, the message, and what the hint contains.
MISTAKES: dict[str, tuple[str, str, str, str]] = {
    "too few parameters": (
        '@plugin.controller("v1/ConfigMap")\ndef reconcile(ctx): ...',
        "reconcile",
        "takes (ctx), but is called with (ctx, obj)",
        "`def reconcile(ctx, obj)`",
    ),
    "too many parameters": (
        '@plugin.controller("v1/ConfigMap")\nasync def reconcile(ctx, obj, more: int): ...',
        "reconcile",
        "takes (ctx, obj, more), but is called with (ctx, obj)",
        "`async def reconcile(ctx, obj)`",
    ),
    "keyword without default": (
        '@plugin.controller("v1/ConfigMap")\ndef reconcile(ctx, obj, *, now): ...',
        "reconcile",
        "takes (ctx, obj, *, now), but is called with (ctx, obj)",
        "`def reconcile(ctx, obj)`",
    ),
    "task": ("@plugin.task()\ndef sweep(): ...", "sweep", "takes (), but is called with (host, stop)", "host, stop"),
    "awaited task": (
        "@plugin.task()\nasync def sweep(host, stop): ...",
        "sweep",
        "takes (host, stop), but is called with (host)",
        "`async def sweep(host)`",
    ),
    "hook": ("@plugin.elected\ndef elected(): ...", "elected", "takes (), but is called with (host)", "(host)"),
    "index": ('@plugin.index("v1/Pod")\ndef by_node(): ...', "by_node", "takes (), but is called with (obj)", "(obj)"),
    "generator": (
        '@plugin.controller("v1/ConfigMap")\ndef reconcile(ctx, obj):\n    yield',
        "reconcile",
        "is a generator: it would never run; use return",
        "`return`",
    ),
    "async generator": (
        '@plugin.controller("v1/ConfigMap")\nasync def reconcile(ctx, obj):\n    yield',
        "reconcile",
        "is an async generator: it would never run; use return",
        "`return`",
    ),
    "async generator of rows": (
        '@plugin.report("/rows")\nasync def rows(host):\n    yield',
        "rows",
        "is an async generator: it would never run; use return",
        "`return`",
    ),
    "class": (
        '@plugin.controller("v1/ConfigMap")\nclass Reconcile:\n    def __init__(self, ctx, obj): ...',
        "Reconcile",
        "is a class",
        "decorate a function",
    ),
    "awaited hook": (
        "@plugin.stopping\nasync def end(host): ...",
        "end",
        "is an async def: it would never run; use def",
        "`def end(host)`",
    ),
    "text for a list": (
        '@plugin.controller("apps/v1/Deployment", owns="v1/ConfigMap")\ndef reconcile(ctx, obj): ...',
        "reconcile",
        'owns is a list: ["v1/ConfigMap"]',
        'owns=["v1/ConfigMap"]',
    ),
    "predicate for a list": (
        '@plugin.controller("v1/Pod", predicates=ctrlhost.predicates.generation_changed)\ndef reconcile(ctx, obj): ...',
        "reconcile",
        "predicates is a list: [",
        "predicates=[",
    ),
    "predicate": (
        '@plugin.controller("v1/Pod", predicates=[lambda pod: True])\ndef reconcile(ctx, obj): ...',
        "reconcile",
        "predicate <lambda> takes (pod), but is called with (old, new)",
        "`lambda old, new: …`",
    ),
    "predicate of a source": (
        (
            '@plugin.controller("v1/Pod", owns=[ctrlhost.Owns("v1/Secret", predicates=[lambda pod: True])])\n'
            "def reconcile(ctx, obj): ..."
        ),
        "reconcile",
        "predicate <lambda> takes (pod), but is called with (old, new)",
        "`lambda old, new: …`",
    ),
    "unknown keyword": (
        '@plugin.controller("v1/ConfigMap", own=["v1/Pod"])\ndef reconcile(ctx, obj): ...',
        "reconcile",
        "unknown option `own`",
        "did you mean `owns`?",
    ),
    "kind": (
        '@plugin.controller("ConfigMap")\ndef reconcile(ctx, obj): ...',
        "reconcile",
        "kind: invalid kind 'ConfigMap'",
        "apps/v1/Deployment",
    ),
    "owned kind": (
        '@plugin.controller("v1/ConfigMap", owns=[3])\ndef reconcile(ctx, obj): ...',
        "reconcile",
        "owns: 3 is not a kind",
        "apps/v1/Deployment",
    ),
    "source that is no kind to reconcile": (
        '@plugin.controller(ctrlhost.Owns("v1/Pod"))\ndef reconcile(ctx, obj): ...',
        "reconcile",
        "kind has Owns(Pod)",
        "`ctrlhost.For(…)`",
    ),
    "index that a source has": (
        (
            '@plugin.index("v1/Pod")\ndef by_node(pod): ...\n'
            'plugin.controller(ctrlhost.For("v1/Pod", indexes={"by_node": "spec.nodeName"}))(lambda ctx, obj: None)'
        ),
        "by_node",
        "2 indexes of v1/Pod have the name by_node",
        "rename the function",
    ),
    "source of another sort": (
        '@plugin.controller("v1/ConfigMap", owns=[ctrlhost.Watches("v1/Pod")])\ndef reconcile(ctx, obj): ...',
        "reconcile",
        "owns has Watches(Pod)",
        "`ctrlhost.Owns(…)`",
    ),
    "name of a controller": (
        '@plugin.controller("v1/ConfigMap", name="Bad Name")\ndef reconcile(ctx, obj): ...',
        "reconcile",
        "'Bad Name' cannot be the name of a controller",
        "no slash, whitespace",
    ),
    "name of a health check": (
        '@plugin.health("")\ndef well(host): ...',
        "well",
        "'' cannot be the name of a health check",
        "no slash, whitespace",
    ),
    "path of a page": (
        '@plugin.page("nopath")\ndef page(host): ...',
        "page",
        "the path 'nopath' must begin with a slash",
        '`@plugin.page("/path")`',
    ),
    "path of a report": (
        '@plugin.report("../x", title="X")\ndef rows(host): ...',
        "rows",
        "the path '../x' must begin with a slash",
        '`@plugin.report("/path")`',
    ),
    "label selector": (
        '@plugin.controller(ctrlhost.For("v1/Pod", label_selector="a==b==c"))\ndef reconcile(ctx, obj): ...',
        "reconcile",
        'label_selector: "a==b==c": label selector',
        "app=web",
    ),
    "field selector": (
        (
            '@plugin.controller("v1/Pod", watches=[ctrlhost.Watches("v1/Node", field_selector="metadata.name")])\n'
            "def reconcile(ctx, obj): ..."
        ),
        "reconcile",
        'field_selector: "metadata.name": field selector',
        "metadata.name=web",
    ),
    "map": (
        (
            '@plugin.controller("v1/Pod", watches=[ctrlhost.Watches("v1/Node", map=lambda: [])])\n'
            "def reconcile(ctx, obj): ..."
        ),
        "reconcile",
        "map <lambda> takes (), but is called with (obj) or (obj, caches)",
        "(obj, caches)",
    ),
    "period": (
        '@plugin.controller("v1/Pod", every="30")\ndef reconcile(ctx, obj): ...',
        "reconcile",
        "every: invalid duration `30`",
        '"30s"',
    ),
    "negative delay": ("@plugin.task(first_after=-1)\ndef go(host, stop): ...", "go", "first_after: ", '"30s"'),
    "no timeout": (
        '@plugin.controller("v1/Pod", timeout=0)\ndef reconcile(ctx, obj): ...',
        "reconcile",
        "timeout is 0; it must be longer than 0 s",
        'timeout="30s"',
    ),
    "finalizer": (
        (
            '@plugin.finalizer("cleanup", of=plugin.controller("v1/Pod")(lambda ctx, obj: None))\n'
            "def clean_up(ctx, obj): ..."
        ),
        "clean_up",
        "'cleanup' is not the name of a finalizer: it needs a domain",
        "example.com/cleanup",
    ),
    "workers": (
        '@plugin.controller("v1/Pod", workers=0)\ndef reconcile(ctx, obj): ...',
        "reconcile",
        "workers is 0; it must be a number, at least 1",
        "workers=1",
    ),
    "retry": (
        '@plugin.controller("v1/Pod", retry="1s")\ndef reconcile(ctx, obj): ...',
        "reconcile",
        "retry is '1s'; it must be a ctrlhost.Backoff",
        'retry=ctrlhost.Backoff(first="1s")',
    ),
    "both-delays": (
        '@plugin.controller("v1/Pod", retry=ctrlhost.Backoff(), rate_limiter=5)\ndef reconcile(ctx, obj): ...',
        "reconcile",
        "retry and rate_limiter are mutually exclusive",
        "write one of them",
    ),
}


for _decorator, _arguments in {
    "controller": '"apps/v1/Deployment"',
    "finalizer": '"example.com/cleanup", of=reconcile',
    "index": '"apps/v1/Deployment"',
    "health": '"database"',
    "page": '"/path"',
    "report": '"/path"',
    "task": "",
    "command": "",
}.items():
    MISTAKES[f"{_decorator} without parentheses"] = (
        f"@plugin.{_decorator}\nasync def found(ctx, obj): ...",
        "found",
        f"is below `@plugin.{_decorator}` without parentheses, which declares nothing",
        f"write `@plugin.{_decorator}({_arguments})`",
    )
for _decorator in ("setup", "synced", "elected", "deposed", "shards_changed", "stopping"):
    MISTAKES[f"{_decorator} with parentheses"] = (
        f"@plugin.{_decorator}()\ndef found(host): ...",
        "found",
        f"is below `@plugin.{_decorator}(…)`, which takes no arguments",
        f"write `@plugin.{_decorator}`, without parentheses",
    )


@behaviour("authoring/AM1")
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named_with_its_place_and_a_hint(distributions: Distributions, name: str) -> None:
    source, function, text, hint = MISTAKES[name]
    module = f"memcached_{abs(hash(name))}"
    distributions.add("memcached", textwrap.dedent(HEAD) + source, module=module)
    with pytest.raises(DeclarationError) as caught:
        PluginManager().load("memcached")
    (mistake,) = caught.value.mistakes
    file = distributions.folder / f"{module}.py"
    assert str(mistake).startswith(f"{file}:{4}: {function}: {text}")
    assert hint in mistake.hint
    assert caught.value.message == str(mistake)
    assert caught.value.hint == mistake.hint


STRUCTS = """
from __future__ import annotations
from typing import TYPE_CHECKING, Annotated, Optional
import ctrlhost, msgspec
if TYPE_CHECKING:
    from datetime import datetime
class Settings(msgspec.Struct):
    at: datetime | None = None
class Inner(msgspec.Struct):
    good: int | None = None
    limited: Annotated[Optional[int], msgspec.Meta(ge=0)] = None
class Spec(msgspec.Struct):
    again: list[Spec] = []
    inner: dict[str, list[Inner] | None] = {}
@ctrlhost.resource("v1/ConfigMap")
class View(msgspec.Struct):
    metadata: ctrlhost.ObjectMeta
    spec: Spec
@ctrlhost.resource("v1/Pod")
class Pod(msgspec.Struct):
    metadata: ctrlhost.ObjectMeta
    since: datetime | None = None
"""
LIMITED = ":9: Inner.limited: TypeError: Can only set `ge` on a numeric type"
SINCE = ":19: Pod.since: NameError: name 'datetime' is not defined"
AT = ":7: Settings.at: NameError: name 'datetime' is not defined"


@behaviour("authoring/AM1")
@pytest.mark.parametrize(
    ("declared", "settings", "expected", "hint"),
    [
        ("@plugin.controller(View)", "None", LIMITED, "`Annotated[int, msgspec.Meta(…)] | None`"),
        ('@plugin.controller("v1/Secret", owns=[Pod])', "None", SINCE, "import the types at run time"),
        ('@plugin.controller("v1/Secret", watches=[ctrlhost.Watches(Pod)])', "None", SINCE, "import the types"),
        ("@plugin.controller(ctrlhost.For(Pod), owns=[Pod])", "None", SINCE, "import the types"),
        ("@plugin.index(Pod)", "None", SINCE, "import the types"),
        ('@plugin.controller("v1/Secret")', "Settings", AT, "import the types"),
    ],
)
def test_a_struct_that_cannot_be_decoded_is_named_with_its_field(
    distributions: Distributions, ctrlhost: Any, declared: str, settings: str, expected: str, hint: str
) -> None:
    arguments = "obj" if "index" in declared else "ctx, obj"
    source = f"plugin = ctrlhost.Plugin(settings={settings})\n{declared}\ndef found({arguments}): ...\n"
    distributions.add("memcached", STRUCTS + source)
    checked = ctrlhost("check", "--offline", "--plugins=memcached")
    assert checked.returncode == 1
    errors = [line for line in checked.stdout.splitlines() if line.startswith("error ")]
    file = distributions.folder / "test_memcached.py"
    assert len(errors) == 1
    assert errors[0].startswith(f"error memcached declaration: {file}{expected}")
    assert hint in checked.stderr


@behaviour("authoring/AM1")
def test_plugins_check_exits_1_with_place_and_hint(distributions: Distributions, ctrlhost: Any) -> None:
    source, function, text, hint = MISTAKES["too few parameters"]
    distributions.add("memcached", textwrap.dedent(HEAD) + source)
    others = {"other": 'ctrlhost.Every("soon")', "another": 'ctrlhost.Result(requeue_after="soon")'}
    for name, written in others.items():
        distributions.add(name, f"import ctrlhost\n{written}\n")
    checked = ctrlhost("plugins", "--check")
    assert checked.returncode == 1
    lines = checked.stderr.splitlines()
    at = lines.index(
        f"error: plugin memcached: {distributions.folder / 'test_memcached.py'}:4: {function}: {text}",
    )
    assert lines[at + 1].startswith("hint: ")
    assert hint in lines[at + 1]
    # What is wrong in itself is found where it is written.
    for name in others:
        (other,) = [line for line in lines if line.startswith(f"error: plugin {name}: ")]
        assert "`soon`" in other
        assert f"(test_{name}.py:2)" in other
        assert lines[lines.index(other) + 1].startswith("hint: ")
    assert "Traceback" not in checked.stderr


@behaviour("authoring/AM1")
def test_plugins_check_finds_each_mistake(distributions: Distributions, ctrlhost: Any) -> None:
    """One process for all of them: a plugin for each mistake."""
    for number, (source, *_) in enumerate(MISTAKES.values()):
        distributions.add(f"plugin-{number}", textwrap.dedent(HEAD) + source)
    checked = ctrlhost("plugins", "--check")
    assert checked.returncode == 1
    lines = checked.stderr.splitlines()
    for number, (_, function, text, hint) in enumerate(MISTAKES.values()):
        begin = f"error: plugin plugin-{number}: {distributions.folder}/test_plugin_{number}.py:4: {function}: {text}"
        (at,) = [index for index, line in enumerate(lines) if line.startswith(begin)]
        assert lines[at + 1].startswith("hint: ")
        assert hint in lines[at + 1]


@behaviour("authoring/AM2")
def test_all_mistakes_of_a_plugin_are_reported_at_its_start(
    distributions: Distributions, start_host: StartHost
) -> None:
    chosen = [MISTAKES[name] for name in ("generator", "task", "label selector")]
    distributions.add("memcached", "\n".join([textwrap.dedent(HEAD), *(case[0] for case in chosen)]))
    host = start_host("--sandbox", plugins="memcached")
    line = host.line("plugin memcached failed: ")["msg"]
    file = distributions.folder / "test_memcached.py"
    for _, function, text, hint in chosen:
        assert f"{function}: {text}" in line
        assert hint in line
    assert line.count(f"{file}:") == 3


@behaviour("authoring/AM2")
def test_at_most_twenty_mistakes_are_reported_at_once() -> None:
    plugin = ctrlhost.Plugin()
    for _ in range(MOST + 3):
        plugin.setup(lambda: None)
    with pytest.raises(PluginLoadError) as caught:
        PluginManager().register("many", plugin)
    assert caught.value.message.count("takes ()") == MOST
    assert caught.value.message.endswith("; and 3 more")


def test_two_controllers_of_one_name_and_unusable_settings_are_mistakes() -> None:
    plugin: Any = ctrlhost.Plugin(settings=dict)  # type: ignore[type-var]
    for _ in range(2):
        plugin.controller("v1/ConfigMap")(lambda ctx, obj: None)
    with pytest.raises(DeclarationError) as caught:
        PluginManager().register("twice", plugin)
    settings, first, second = caught.value.mistakes
    assert settings.text == "settings is a msgspec.Struct class, got dict"
    assert first.text == second.text == "2 controllers have the name configmap"


def test_pages_of_one_path_and_indexes_of_one_name_are_mistakes() -> None:
    plugin: Any = ctrlhost.Plugin()

    def rows(keys: Any) -> list[str]:
        return []

    plugin.page("/same")(rows)
    plugin.report("/same")(rows)
    plugin.report("/other")(rows)
    for kind in ("v1/Pod", ("v1", "Pod"), "v1/Node"):
        plugin.index(kind)(rows)
    with pytest.raises(DeclarationError) as caught:
        PluginManager().register("twice", plugin)
    mistakes = ["2 pages have the path /same"] * 2 + ["2 indexes of v1/Pod have the name rows"] * 2
    assert [mistake.text for mistake in caught.value.mistakes] == mistakes


def test_no_list_is_an_empty_one() -> None:
    plugin: Any = ctrlhost.Plugin()
    plugin.controller("v1/Pod", owns=None, watches=None, predicates=None)(lambda ctx, obj: None)
    assert PluginManager().register("none", plugin).crds() == []


def test_what_can_be_called_is_no_mistake() -> None:
    plugin: Any = ctrlhost.Plugin()

    class Reconciler:
        def __call__(self, ctx: Any, obj: Any) -> None: ...

        def method(self, ctx: Any, obj: Any) -> None: ...

    async def reconcile(ctx: Any, obj: Any, more: int = 0) -> None: ...

    async def sweep(host: Any) -> None: ...

    def values(obj: Any) -> Any:
        yield "a"

    for number, function in enumerate((Reconciler(), Reconciler().method, reconcile, lambda *all_of_it: None)):
        plugin.controller("v1/ConfigMap", name=f"c{number}", owns=(), predicates=[lambda old, new: True])(function)
    plugin.controller(
        ctrlhost.For("v1/Pod", label_selector="a=b,c in (d,e),!f", field_selector="metadata.name=a,spec.nodeName!="),
        watches=["v1/Node", ctrlhost.Watches("v1/Secret", map=lambda obj, caches: [])],
        predicates=[ctrlhost.predicates.generation_changed],
    )(reconcile)
    plugin.task(every=1)(sweep)
    plugin.index("v1/Pod")(values)
    plugin.report("/a")(values)
    assert PluginManager().register("good", plugin).name == "good"
