"""The mistakes in a declaration, all of them at once, each with its place and what to write instead."""

from __future__ import annotations

import inspect
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ctrlhost.controller.addresses import NAME_RULE, is_name, is_path
from ctrlhost.controller.backoff import Backoff
from ctrlhost.controller.source import KindSource
from ctrlhost.controller.sources import For, Owns, Watches
from ctrlhost.declarative import finalizers
from ctrlhost.declarative.declaration import DeclaredFunction, is_of_settings
from ctrlhost.duration import Duration
from ctrlhost.errors import ConfigError, PluginLoadError
from ctrlhost.models.decoding import undecodable
from ctrlhost.models.kinds import kind_of
from ctrlhost.selectors import fields, labels
from ctrlhost.suggestions import suggest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ctrlhost.declarative.declaration import Declaration
    from ctrlhost.plugin.context import PluginContext

#: The mistakes that are reported at once.
MOST = 20
#: Options of `@plugin.controller` that are lists.
_LISTS = ("owns", "watches", "predicates")
_OPTIONS = (
    *("name", *_LISTS, "every", "workers", "timeout", "needs_leader", "retry", "rate_limiter", "suppress_echo"),
    *("shard_by", "enabled", "gone", "status"),
)
#: Decorators whose functions may be generators, since their results are only iterated; async ones may not.
_ITERATED = ("index", "permission", "report", "setup")
#: Decorators whose functions may be coroutines.
_AWAITED = ("controller", "finalizer", "mutate", "report", "setup", "task", "validate")


class Mistake(NamedTuple):
    """One mistake: the place of the function as `FILE:LINE`, its name, what is wrong, and what to write instead."""

    place: str
    function: str
    text: str
    hint: str

    def __str__(self) -> str:
        """Return all but the hint as one line."""
        return ": ".join(filter(None, (self.place, self.function, self.text)))


class DeclarationError(PluginLoadError):
    """The plugin's declaration has mistakes, of which `mistakes` are the first ones; `settings` is None if wrong."""

    def __init__(self, plugin: str, mistakes: Sequence[Mistake], settings: Any = None) -> None:
        """Report up to 20 mistakes."""
        self.mistakes = tuple(mistakes[:MOST])
        self.settings = settings
        more = f"; and {len(mistakes) - MOST} more" if len(mistakes) > MOST else ""
        hints = dict.fromkeys(mistake.hint for mistake in self.mistakes)
        super().__init__(plugin, "; ".join(map(str, self.mistakes)) + more, hint="; ".join(hints))


def check(declaration: Declaration, plugin: str) -> None:
    """Raise DeclarationError for the mistakes of a declaration; `plugin` is the name of the plugin."""
    if mistakes := list(_mistakes(declaration)):
        settings = declaration.settings
        readable = isinstance(settings, type) and undecodable(settings) is None
        raise DeclarationError(plugin, mistakes, settings if readable else None)


def resolve_options(declared: DeclaredFunction, host: PluginContext) -> dict[str, Any]:
    """Return the options with the host's settings; DeclarationError for mistakes in what functions of them return."""
    options = declared.options_for(host.settings)
    returned = {name: option for name, option in options.items() if is_of_settings(name, declared.options[name])}
    checks = [*_of_durations(returned), *_of_sources(returned), *_of_workers(returned), *_of_retries(returned)]
    if "kind" in returned:
        checks += _of_reference("kind", returned["kind"], For)
    if mistakes := [Mistake(_place(declared), declared.name, text, hint) for text, hint in checks]:
        raise DeclarationError(host.name, mistakes)
    return options


def _mistakes(declaration: Declaration) -> Iterator[Mistake]:
    settings = declaration.settings
    if settings is not None and not (isinstance(settings, type) and issubclass(settings, msgspec.Struct)):
        text = f"settings is a msgspec.Struct class, got {_show(settings)}"
        yield Mistake(declaration.module, "", text, "write `class Settings(msgspec.Struct, frozen=True)`")
    yield from _of_structs(declaration)
    for declared in _functions(declaration):
        for text, hint in _of_function(declared):
            yield Mistake(_place(declared), declared.name, text, hint)
        if (
            declared.decorator == "finalizer"
            and (problem := finalizers.find_problem(declared, declaration)) is not None
        ):
            yield Mistake(_place(declared), declared.name, *problem)
    for declared, text, hint in declaration.mistaken:
        yield Mistake(_place(declared), declared.name, text, hint)
    names = Counter(filter(None, map(_name, declaration.controllers)))
    for controller in declaration.controllers:
        if (name := _name(controller)) is not None and names[name] > 1:
            text = f"{names[name]} controllers have the name {name}"
            yield Mistake(
                _place(controller.declared), controller.declared.name, text, 'give it another one: `name="…"`'
            )
    pages = [page for page in (*declaration.pages, *declaration.reports) if is_path(page.options["path"])]
    paths = Counter(page.options["path"] for page in pages)
    for declared in pages:
        if paths[path := declared.options["path"]] > 1:
            text = f"{paths[path]} pages have the path {path}"
            yield Mistake(_place(declared), declared.name, text, "give each another path")
    yield from _of_indexes(declaration)
    if declaration.webhooks or declaration.conversions:
        from ctrlhost.declarative.webhook_checks import find_problems

        for declared, text, hint in find_problems(declaration):
            yield Mistake(_place(declared), declared.name, text, hint)


def _of_indexes(declaration: Declaration) -> Iterator[Mistake]:
    """Check the indexes, of which those of a kind have different names."""
    sources = [reference for reference in _references(declaration) if isinstance(reference, KindSource)]
    names = Counter({(source.reference[:2], name) for source in sources for name in source.indexes})
    names.update((index.kind[:2], index.name) for index in declaration.indexes)
    for index in declaration.indexes:
        declared = DeclaredFunction("index", index.function, ("obj",))
        for text, hint in _of_function(declared):
            yield Mistake(_place(declared), index.name, text, hint)
        if (count := names[index.kind[:2], index.name]) > 1:
            text = f"{count} indexes of {index.kind} have the name {index.name}"
            yield Mistake(_place(declared), index.name, text, "rename the function: an index has its name")


def _references(declaration: Declaration) -> Iterator[Any]:
    """Return the kinds and the sources of all controllers, and the kinds of webhooks."""
    for controller in declaration.controllers:
        options = controller.declared.options
        yield options["kind"]
        for name in ("owns", "watches"):
            if isinstance(listed := options.get(name), (list, tuple)):
                yield from listed
    for webhook in declaration.webhooks:
        yield webhook.options["kind"]


def _of_structs(declaration: Declaration) -> Iterator[Mistake]:
    """Check that msgspec can decode the settings and the objects."""
    members = [declaration.settings, *(index.kind.model for index in declaration.indexes), *_references(declaration)]
    models = [member.reference.model if isinstance(member, KindSource) else member for member in members]
    structs = [model for model in models if isinstance(model, type) and issubclass(model, msgspec.Struct)]
    reasons = {reason: struct for struct in structs if (reason := undecodable(struct)) is not None}
    for reason, struct in reasons.items():
        # What no schema can express is an error of its CRD.
        if declaration.crds or not _without_schema(struct):
            name = f"{reason.struct.__name__}.{reason.field}".removesuffix(".")
            yield Mistake(_relative(_class_place(reason.struct)), name, reason.problem, reason.hint)


def _without_schema(struct: type[Any]) -> bool:
    from ctrlhost.models.crd import crd_of, defines_kind

    try:
        return defines_kind(struct) and not crd_of(struct)
    except ConfigError:
        return True


def _functions(declaration: Declaration) -> list[DeclaredFunction]:
    """Return all decorated functions but indexes, those of a kind in the order of their declaration."""
    functions: list[DeclaredFunction] = [controller.declared for controller in declaration.controllers]
    for field in declaration.__slots__:
        listed = getattr(declaration, field)
        if isinstance(listed, list):
            functions += [member for member in listed if isinstance(member, DeclaredFunction)]
    return functions


def _of_function(declared: DeclaredFunction) -> Iterator[tuple[str, str]]:
    yield from _of_form(declared)
    if declared.decorator == "controller":
        yield from _of_controller(declared.options)
    yield from _of_addresses(declared)
    yield from _of_durations(declared.options)
    for name, option in declared.options.items():
        if is_of_settings(name, option) and (taken := _misfit(option, ("settings",))) is not None:
            yield f"{name} takes ({taken}), but is called with (settings)", f"write `{name}=lambda settings: …`"


def _of_form(declared: DeclaredFunction) -> Iterator[tuple[str, str]]:
    """Check that a function can be called as it will be."""
    function: Any = declared.function
    if isinstance(function, type):
        yield "is a class", f"decorate a function: {_written(declared)}"
        return
    if not callable(function):
        yield f"is not a function: {_show(function)}", f"decorate a function: {_written(declared)}"
        return
    plain = inspect.unwrap(function)
    for what, applies in (
        ("a generator", declared.decorator not in _ITERATED and inspect.isgeneratorfunction(plain)),
        ("an async generator", declared.decorator != "setup" and inspect.isasyncgenfunction(plain)),
    ):
        if applies:
            yield f"is {what}: it would never run; use return", "replace `yield` by `return`"
    if declared.decorator not in _AWAITED and declared.is_async:
        yield "is an async def: it would never run; use def", f"write it as {_written(declared)}"
    called_with = _called_with(declared)
    if (taken := _misfit(function, called_with)) is not None:
        yield f"takes ({taken}), but is called with ({', '.join(called_with)})", f"write it as {_written(declared)}"


def _of_controller(options: Any) -> Iterator[tuple[str, str]]:
    for name in options:
        if name != "kind" and name not in _OPTIONS:
            yield f"unknown option `{name}`", str(suggest(name, _OPTIONS))
    if not is_of_settings("kind", options["kind"]):
        yield from _of_reference("kind", options["kind"], For)
    elif not options.get("name"):
        yield "has no name, and its kind depends on the settings", 'give it one: `name="…"`'
    yield from _of_sources(options)
    yield from _of_workers(options)
    yield from _of_retries(options)


def _of_sources(options: Any) -> Iterator[tuple[str, str]]:
    for name in _LISTS:
        value = options.get(name)
        if value is None or is_of_settings(name, value):
            continue
        if isinstance(value, (str, type, KindSource)) or callable(value) or not isinstance(value, Sequence):
            listed = json.dumps([value]) if isinstance(value, str) else f"[{_show(value)}]"
            yield f"{name} is a list: {listed}", f"write `{name}={listed}`"
        elif name == "predicates":
            if wrong := [member for member in value if not callable(member) and not _is_native(member)]:
                yield f"predicates has {_show(wrong[0])}, which is no predicate", "see `ctrlhost.predicates`"
            yield from _of_predicates(value)
        else:
            for member in value:
                yield from _of_reference(name, member, Owns if name == "owns" else Watches)


def _of_workers(options: Any) -> Iterator[tuple[str, str]]:
    workers = options.get("workers", 1)
    if is_of_settings("workers", workers):
        return
    if not isinstance(workers, int) or isinstance(workers, bool) or workers < 1:
        yield f"workers is {_show(workers)}; it must be a number, at least 1", "write `workers=1`"


def _of_retries(options: Any) -> Iterator[tuple[str, str]]:
    retry, limiter = options.get("retry"), options.get("rate_limiter")
    if retry is None or is_of_settings("retry", retry):
        return
    if not isinstance(retry, Backoff):
        yield f"retry is {_show(retry)}; it must be a ctrlhost.Backoff", 'write `retry=ctrlhost.Backoff(first="1s")`'
    if limiter is not None and not is_of_settings("rate_limiter", limiter):
        yield "retry and rate_limiter are mutually exclusive", "write one of them"


def _of_reference(option: str, source: Any, expected: type[KindSource]) -> Iterator[tuple[str, str]]:
    """Check a kind, or a source of the expected class."""
    if isinstance(source, KindSource):
        if not isinstance(source, expected):
            text = f"{option} has {type(source).__name__}({source.kind})"
            yield text, f"write a kind, or `ctrlhost.{expected.__name__}(…)`"
        yield from _of_selectors(source)
        yield from _of_predicates(source.predicates)
        if isinstance(source, Watches) and callable(source.map) and not isinstance(source.map, type):
            yield from _of_map(source.map)
        return
    try:
        kind_of(source)
    except (TypeError, ValueError) as error:
        yield f"{option}: {error}", 'write a struct with `@ctrlhost.resource`, or a text such as "apps/v1/Deployment"'


def _of_selectors(source: KindSource) -> Iterator[tuple[str, str]]:
    for name, parse, form in (
        ("label_selector", labels.parse, "app=web,tier in (a,b),!old"),
        ("field_selector", fields.parse, "metadata.name=web,status.phase!=Failed"),
    ):
        selector = getattr(source, name)
        if selector is None:
            continue
        try:
            parse(selector)
        except ValueError as error:
            yield f"{name}: {json.dumps(selector)}: {error}", f'write it as "{form}"'


def _of_map(function: Callable[..., Any]) -> Iterator[tuple[str, str]]:
    taken = _misfit(function, ("obj",))
    if taken is not None and _misfit(function, ("obj", "caches")) is not None:
        name = getattr(function, "__name__", "map")
        text = f"map {name} takes ({taken}), but is called with (obj) or (obj, caches)"
        yield text, f"write it as `def {name}(obj)` or `def {name}(obj, caches)`"


def _of_predicates(predicates: Iterable[Any]) -> Iterator[tuple[str, str]]:
    """Check that those in Python can be called as they will be."""
    for function in predicates:
        if callable(function) and not _is_native(function) and (taken := _misfit(function, ("old", "new"))) is not None:
            name = getattr(function, "__name__", "function")
            text = f"predicate {name} takes ({taken}), but is called with (old, new)"
            yield text, "write it as `lambda old, new: …`; either may be None"


def _of_addresses(declared: DeclaredFunction) -> Iterator[tuple[str, str]]:
    """Check the names of controllers and health checks, and the paths of pages and reports."""
    name, path = declared.options.get("name"), declared.options.get("path")
    required = declared.decorator == "health"
    if (required or (declared.decorator == "controller" and name is not None)) and not is_name(name):
        yield f"{name!r} cannot be the name of a {'health check' if required else 'controller'}", NAME_RULE
    if declared.decorator in ("page", "report") and not is_path(path):
        yield f"the path {path!r} must begin with a slash", f'write `@plugin.{declared.decorator}("/path")`'


def _of_durations(options: Any) -> Iterator[tuple[str, str]]:
    for name in ("every", "timeout", "first_after"):
        value = options.get(name)
        if value is None or is_of_settings(name, value):
            continue
        try:
            seconds = Duration(value)
        except (TypeError, ValueError) as error:
            yield f"{name}: {error}", 'write a number of seconds or a text such as "30s"'
        else:
            if not seconds and name != "first_after":
                yield f"{name} is {_show(value)}; it must be longer than 0 s", f'write `{name}="30s"`'


def _misfit(function: Callable[..., Any], called_with: Iterable[str]) -> str | None:
    """Return the parameters of a function that cannot be called with so many arguments; None if it can."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        # It is not written in Python.
        return None
    try:
        signature.bind(*called_with)
    except TypeError:
        plain = [parameter.replace(annotation=parameter.empty) for parameter in signature.parameters.values()]
        return str(signature.replace(parameters=plain, return_annotation=signature.empty))[1:-1]
    return None


def _name(controller: Any) -> str | None:
    """Return the name of a controller, None if its kind is invalid."""
    try:
        return str(controller.name)
    except (TypeError, ValueError):
        return None


def _called_with(declared: DeclaredFunction) -> tuple[str, ...]:
    return declared.called_with[:1] if declared.decorator == "task" and declared.is_async else declared.called_with


def _written(declared: DeclaredFunction) -> str:
    name = declared.name if declared.name.isidentifier() else declared.decorator
    form = "async def" if declared.is_async and declared.decorator in _AWAITED else "def"
    return f"`{form} {name}({', '.join(_called_with(declared))})`"


def _place(declared: DeclaredFunction) -> str:
    """Return the place of a function, relative to the current directory if it is below it."""
    place = _class_place(declared.function) if isinstance(declared.function, type) else declared.place
    return _relative(place) or declared.decorator


def _relative(place: str) -> str:
    try:
        return str(Path(place).relative_to(Path.cwd())) if place else ""
    except (ValueError, OSError):
        return place


def _class_place(decorated: type[Any]) -> str:
    try:
        return f"{inspect.getsourcefile(decorated)}:{inspect.getsourcelines(decorated)[1]}"
    except (OSError, TypeError):
        return ""


def _is_native(predicate: object) -> bool:
    """Return whether a predicate is one of the core, which runs without Python."""
    return type(predicate).__module__.startswith("ctrlhost")


def _show(value: object) -> str:
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, KindSource):
        return f"{type(value).__name__}({value.kind})"
    return f"`{value.__name__}`" if hasattr(value, "__name__") else f"{value!r:.80}"
