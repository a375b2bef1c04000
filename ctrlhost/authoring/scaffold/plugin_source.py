"""The package of a new plugin: model, settings and reconciler in one file."""

from __future__ import annotations

from textwrap import indent
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctrlhost.authoring.scaffold.choices import Choices
    from ctrlhost.authoring.scaffold.owned import Owned

#: The length of lines of the generated code, as its `pyproject.toml` says.
LINE_LENGTH = 120
_IMAGE = "nginx:1.29"
#: The number of kinds that a sentence names.
_FEW = 2


def plugin_source(choices: Choices) -> str:
    """Return the text of `__init__.py`."""
    parts = [f'"""The plugin {choices.name}: the controller of {choices.reconciled}."""', _imports(choices)]
    if choices.kind:
        parts += [_model(choices)]
    else:
        parts += [f'\n#: ConfigMaps with this label are reconciled.\nLABEL = "{choices.label}"']
    if settings := _settings(choices):
        parts += [f"\n\n{settings}"]
    plugin = "ctrlhost.Plugin(settings=Settings)" if settings else "ctrlhost.Plugin()"
    gap = "\n\n" if choices.kind or settings else "\n"
    parts += [f"{gap}plugin = {plugin}", f"\n\n{_reconciler(choices, bool(settings))}"]
    return "\n".join(parts) + "\n"


def _imports(choices: Choices) -> str:
    typing = "\nfrom typing import Annotated\n" if choices.kind else ""
    msgspec = "\nimport msgspec" if choices.kind or _settings(choices) else ""
    return f"{typing}\nimport ctrlhost{msgspec}"


def _model(choices: Choices) -> str:
    status = "\n    readyReplicas: int = 0\n" if choices.owns[0].has_replicas else ""
    scope = ', scope="Cluster"' if choices.cluster_scoped else ""
    return f'''

class Spec(msgspec.Struct, frozen=True):
    """What is wanted."""

    size: Annotated[int, msgspec.Meta(ge=0, le=5)] = 1


class Status(ctrlhost.ModelStatus):
    """What there is."""
{status}

@ctrlhost.resource("{choices.group}/v1alpha1"{scope})
class {choices.kind}(ctrlhost.Model[Spec, Status]):
    """{_article(choices.kind)} {choices.kind} with {owned_in_words(choices)}."""'''


def owned_in_words(choices: Choices) -> str:
    """Return the owned kinds as part of a sentence."""
    if len(choices.owns) > _FEW:
        return f"objects of {len(choices.owns)} kinds"
    return " and ".join(f"{_article(child.kind).lower()} {child.kind}" for child in choices.owns)


def _settings(choices: Choices) -> str:
    fields = []
    if any(child.has_image for child in choices.owns):
        fields.append(f'    image: str = "{_IMAGE}"')
    if choices.cluster_scoped:
        fields.append('    namespace: str = "default"')
    if not fields:
        return ""
    title = (
        f'class Settings(msgspec.Struct, frozen=True):\n    """The table `[plugins.{choices.name}]` of the settings."""'
    )
    return "\n".join([title, "", *fields])


def _reconciler(choices: Choices, settings: bool) -> str:
    kind = choices.kind or "ctrlhost.Object"
    context = f"ctrlhost.Context[{kind}, {'Settings' if settings else 'None'}]"
    source = choices.kind or 'ctrlhost.For("v1/ConfigMap", label_selector=f"{LABEL}=true")'
    owns = ", ".join(f'"{child.reference}"' for child in choices.owns)
    body = [f'"""Make {owned_in_words(choices)} for {_article(choices.reconciled).lower()} {choices.reconciled}."""']
    if not choices.kind:
        body.append(
            'size = owner.get_path("data", "size", default="1")\n'
            "if not size.isdecimal():\n"
            '    raise ctrlhost.TerminalError(f"data.size: {size!r} is not a number")'
        )
    body.append(_metadata(choices))
    body += [_ensure(child, choices, first=number == 0) for number, child in enumerate(choices.owns)]
    if choices.kind:
        body.append(_status(choices))
    decorator = _call(f"@plugin.controller({source}, owns=[{owns}])", "@plugin.controller(", [source, f"owns=[{owns}]"])
    signature = _call(
        f"def reconcile(ctx: {context}, owner: {kind}) -> None:",
        "def reconcile(",
        [f"ctx: {context}", f"owner: {kind}"],
        ") -> None:",
    )
    return "\n".join([decorator, signature, indent("\n".join(body), "    ")])


def _metadata(choices: Choices) -> str:
    name = "owner.metadata.name" if choices.kind else "owner.name"
    if not choices.kind and any(child.kind == "ConfigMap" for child in choices.owns):
        # Its own name is taken.
        name = 'f"{owner.name}-made"'
    where = ', "namespace": ctx.settings.namespace' if choices.cluster_scoped else ""
    lines = [f'metadata = {{"name": {name}{where}}}']
    if any(child.has_labels for child in choices.owns):
        label = "app.kubernetes.io"
        lines += ["labels = {", f'    "{label}/name": "{choices.name}",', f'    "{label}/instance": {name},', "}"]
    return "\n".join(lines)


def _ensure(owned: Owned, choices: Choices, *, first: bool) -> str:
    size = "owner.spec.size" if choices.kind else "int(size)"
    fields = owned.fields.replace("str(SIZE)", "str(SIZE)" if choices.kind else "size").replace("SIZE", size)
    target = f"{owned.kind.lower()} = " if first and owned.has_replicas and choices.kind else ""
    header = f'"apiVersion": "{owned.api_version}",\n"kind": "{owned.kind}",\n"metadata": metadata,'
    content = indent("\n".join(filter(None, [header, fields])), " " * 8)
    return f"{target}ctx.ensure(\n    {{\n{content}\n    }}\n)"


def _status(choices: Choices) -> str:
    first = choices.owns[0]
    if not first.has_replicas:
        return f'ctx.status.condition("Ready", True, "Applied", "made {owned_in_words(choices)}")'
    return (
        f'ready = {first.kind.lower()}.get_path("status", "readyReplicas", default=0)\n'
        "ctx.status.set(readyReplicas=ready)\n"
        'message = f"{ready} of {owner.spec.size} ready"\n'
        'ctx.status.condition("Available", ready >= owner.spec.size, "ReadyReplicas", message)'
    )


def _call(line: str, opening: str, arguments: list[str], closing: str = ")") -> str:
    """Return a call or signature on one line if it fits, else with one argument per line."""
    if len(line) <= LINE_LENGTH:
        return line
    return "\n".join([opening, *(f"    {argument}," for argument in arguments), closing])


def _article(word: str) -> str:
    return "An" if word[0] in "AEIOU" else "A"
