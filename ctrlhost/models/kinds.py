"""References to kinds, as authors write them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

from ctrlhost.models.markers import Column, Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

K = TypeVar("K")

#: A struct with `@ctrlhost.resource`; `("apps/v1", "Deployment")`; or `"apps/v1/Deployment"`, `"v1/ConfigMap"`.
KindRef: TypeAlias = type[K] | tuple[str, str] | str

_FORM = 'write an apiVersion and a kind, such as "apps/v1/Deployment" or "v1/ConfigMap"'
#: The attribute of a struct that `@ctrlhost.resource` sets.
_ATTRIBUTE = "__ctrlhost_kind__"
#: The server takes no more.
_SELECTABLE = 8

#: The endings whose plural is no mere `s`, the longer ones first.
_ENDINGS = (
    ("information", "information"),
    ("equipment", "equipment"),
    ("appendix", "appendices"),
    ("criteria", "criteria"),
    ("matrix", "matrices"),
    ("medium", "media"),
    ("person", "people"),
    ("vertex", "vertices"),
    ("vortex", "vortices"),
    ("child", "children"),
    ("datum", "data"),
    ("index", "indices"),
    ("data", "data"),
    ("quiz", "quizzes"),
    ("sis", "ses"),
    ("ife", "ives"),
    ("us", "uses"),
    ("ss", "sses"),
    ("tz", "tzes"),
    ("ch", "ches"),
    ("sh", "shes"),
    ("lf", "lves"),
    ("rf", "rves"),
    ("io", "ios"),
    ("oo", "oos"),
    ("o", "oes"),
    ("x", "xes"),
)
#: Whole words. `dnses` is Openshift's; kubebuilder gives `dnsdnses`.
_IRREGULAR = {"alias": "aliases", "axis": "axes", "dns": "dnses"}


@dataclass(frozen=True, slots=True)
class ResourceNames:
    """What `@ctrlhost.resource` says about the kind of a struct."""

    api_version: str
    kind: str
    #: None: derived from the kind.
    plural: str | None = None
    scope: Literal["Namespaced", "Cluster"] = "Namespaced"
    short_names: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    categories: tuple[str, ...] = ()
    #: The paths of the wanted and of the present number, and of the selector; empty without a scale.
    scale: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    #: The paths of the fields that a field selector may name.
    selectable_fields: tuple[str, ...] = ()
    #: Whether the version is deprecated, or the warning of its answers.
    deprecated: bool | str = False
    #: Whether this version is the one that is stored; the only one is.
    storage: bool = False


class Kind(NamedTuple):
    """A kind; `model` is the struct of its objects, None for `ctrlhost.Object`."""

    api_version: str
    kind: str
    model: type[Any] | None = None

    def __str__(self) -> str:
        """Return the kind as authors write it: `apps/v1/Deployment`."""
        return f"{self.api_version}/{self.kind}"


def kind_of(reference: KindRef[Any], kind: str = "") -> Kind:
    """Return the kind that is referred to; with `kind`, `reference` is the apiVersion.

    TypeError for a struct without `@ctrlhost.resource` and for other types, ValueError for an invalid text.
    """
    if kind:
        if not isinstance(reference, str) or not isinstance(kind, str):
            raise TypeError(f"an apiVersion and a kind are two strings, got {reference!r}, {kind!r}")
        return _checked(reference, kind)
    if isinstance(reference, str):
        api_version, slash, name = reference.rpartition("/")
        if not slash:
            raise ValueError(f"invalid kind {reference!r}: {_FORM}")
        return _checked(api_version, name)
    if isinstance(reference, tuple) and len(reference) == 2 and all(isinstance(part, str) for part in reference):
        return _checked(*reference)
    names = names_of(reference)
    if names is None:
        what = f"struct {reference.__name__}" if isinstance(reference, type) else repr(reference)
        raise TypeError(f'{what} is not a kind; use a struct with `@ctrlhost.resource`, or "apps/v1/Deployment"')
    return Kind(names.api_version, names.kind, reference)  # type: ignore[arg-type]


def names_of(reference: object) -> ResourceNames | None:
    """Return what `@ctrlhost.resource` said of a struct; None for anything else."""
    names = vars(reference).get(_ATTRIBUTE) if isinstance(reference, type) else None
    return names if isinstance(names, ResourceNames) else None


def resource(
    api_version: str,
    *,
    kind: str | None = None,
    plural: str | None = None,
    scope: Literal["Namespaced", "Cluster"] = "Namespaced",
    short_names: Sequence[str] = (),
    columns: Sequence[Column] = (),
    categories: Sequence[str] = (),
    scale: Sequence[str] = (),
    rules: Sequence[Rule] = (),
    selectable_fields: Sequence[str] = (),
    deprecated: bool | str = False,
    storage: bool = False,
) -> Callable[[type[K]], type[K]]:
    """Name the kind of a struct's objects.

    `api_version` is `group/version`, with `kind` as the struct's name by default; or `group/version/Kind`, such as
    `"v1/Pod"`, for a struct of a built-in kind that has only the fields that are read. The other arguments are for the
    CustomResourceDefinition of a `ctrlhost.Model`; `plural` None is derived from the kind. `scale` are the paths of
    `kubectl scale`: the wanted number, the present one, and for autoscalers the text of the pods' selector, such as
    `(".spec.size", ".status.replicas", ".status.selector")`. `rules` are about the whole object, of whose metadata they
    can use `self.metadata.name`. `selectable_fields` are up to eight paths that a `field_selector` can name, such as
    `".spec.color"`. The dot that a path begins with may be left out. `deprecated` makes the server warn whoever uses
    the version, with that text if it is one. A kind of several versions has a struct for each, and one with `storage`,
    the version in which the server stores objects. ValueError for an invalid name or path, TypeError for arguments of
    other types and for a class that is not a struct.
    """
    if not isinstance(api_version, str):
        raise TypeError(f"the apiVersion is a text, got {api_version!r}")
    version, _, last = api_version.rpartition("/")
    if last[:1].isupper():
        if kind is not None and kind != last:
            raise ValueError(f"kind is {kind!r}, but {api_version!r} names the kind {last!r}")
        kind = last
    else:
        version = api_version
    if "." in version.rpartition("/")[2]:
        raise ValueError(f'{api_version!r} has no version; write it as "{api_version}/v1"')
    if scope not in ("Namespaced", "Cluster"):
        raise ValueError(f'scope must be "Namespaced" or "Cluster", got {scope!r}')
    lists = {
        "short_names": short_names,
        "categories": categories,
        "scale": scale,
        "selectable_fields": selectable_fields,
    }
    for name, texts in lists.items():
        if isinstance(texts, str):
            raise TypeError(f"{name} is a list: [{texts!r}]")
    scale, selectable_fields = _paths(scale), _paths(selectable_fields)
    if len(selectable_fields) > _SELECTABLE:
        raise ValueError(f"selectable_fields has at most {_SELECTABLE} paths, got {len(selectable_fields)}")
    if scale and (len(scale) not in (2, 3) or not scale[0].startswith(".spec.")):
        raise ValueError(f'scale has two or three paths: (".spec.size", ".status.replicas"), got {scale!r}')
    if any(not path.startswith(".status.") for path in scale[1:2]):
        raise ValueError(f"the present number of scale is in `.status`, got {scale[1]!r}")
    if isinstance(columns, Column) or not all(isinstance(column, Column) for column in columns):
        raise TypeError('columns is a list: [ctrlhost.Column("Size", ".spec.size", "integer")]')
    if isinstance(rules, Rule) or not all(isinstance(rule, Rule) for rule in rules):
        raise TypeError('rules is a list: [ctrlhost.Rule("self.metadata.name.size() < 50")]')

    def named(struct: type[K]) -> type[K]:
        if not (isinstance(struct, type) and issubclass(struct, msgspec.Struct)):
            raise TypeError(f"@ctrlhost.resource is for a msgspec.Struct, got {struct!r}")
        checked = _checked(version, kind or struct.__name__)
        names = ResourceNames(
            *checked[:2],
            plural=plural,
            scope=scope,
            short_names=tuple(short_names),
            columns=tuple(columns),
            categories=tuple(categories),
            scale=scale,
            rules=tuple(rules),
            selectable_fields=selectable_fields,
            deprecated=deprecated,
            storage=storage,
        )
        setattr(struct, _ATTRIBUTE, names)
        return struct

    return named


def _paths(paths: Sequence[str]) -> tuple[str, ...]:
    return tuple(path if path.startswith(".") else f".{path}" for path in paths)


def plural_of(kind: str) -> str:
    """Return the plural of a kind in lower case, as kubebuilder derives it: `policies`, `analyses`, `redis`."""
    name = kind.lower()
    if name in _IRREGULAR:
        return _IRREGULAR[name]
    if name.endswith("y") and name[-2:-1] not in tuple("aeiou"):
        return f"{name[:-1]}ies"
    for ending, plural in _ENDINGS:
        if name.endswith(ending):
            return name.removesuffix(ending) + plural
    return name if name.endswith("s") else f"{name}s"


def _checked(api_version: str, kind: str) -> Kind:
    if not api_version or not kind:
        raise ValueError(f"invalid kind {kind!r} in {api_version!r}: {_FORM}")
    if api_version.count("/") > 1:
        raise ValueError(f"{api_version!r} is an invalid apiVersion: more than one slash")
    return Kind(api_version, kind)
