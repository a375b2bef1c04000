"""One operation on the API, requested by a client over HTTP or by a built-in controller."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ctrlhost_sandbox.apimachinery.names import manager_causes
from ctrlhost_sandbox.apimachinery.objects import ADMIN, User
from ctrlhost_sandbox.apimachinery.repeated import Repeated
from ctrlhost_sandbox.apimachinery.status import Cause, Failure, forbidden_field, invalid, not_supported, required
from ctrlhost_sandbox.http.messages import Query

if TYPE_CHECKING:
    from ctrlhost_sandbox.registry.registry import Kind


@dataclass(slots=True)
class Operation:
    """A verb on a kind or object, with the options that all verbs share."""

    verb: str
    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    query: Query = field(default_factory=Query)
    manager: str = ""
    user: User = ADMIN
    warnings: list[str] = field(default_factory=list)
    dry_run: bool = False
    field_validation: str = "Warn"
    problems: list[str] = field(default_factory=list)
    """Problems of a patch, reported together with the unknown fields of its result."""
    repeated: Repeated = field(default_factory=Repeated)
    annotations: dict[str, str] = field(default_factory=dict)
    """What admission adds to the event of the request in the audit log."""
    untracked: set[tuple[str, ...]] = field(default_factory=set)
    """The fields that admission sets, which no manager owns."""
    allocates: bool = True
    """Whether a creation allocates what the object needs."""
    applies: bool = False
    """Whether this is a server-side apply."""
    applied: set[tuple[str, ...]] | None = None
    """The fields that a server-side apply sets if it creates the object."""

    @property
    def counts_fields(self) -> bool:
        """Whether duplicate keys are reported: that takes longer, so only on request."""
        return "fieldValidation" in self.query and self.field_validation != "Ignore"

    def read_write_options(self, options: str, user_agent: str, *, applies: bool = False) -> None:
        """Read dryRun, fieldValidation and fieldManager from the query; 422 for invalid values.

        `applies` says that the request is a server-side apply, which has a manager and may have `force`.
        """
        manager = self.query.first("fieldManager")
        causes = list(manager_causes(manager))
        if applies and not manager:
            causes.append(required("fieldManager", "is required for apply patch"))
        elif options == "PatchOptions" and not applies and self.query.first("force"):
            causes.append(forbidden_field("force", "may not be specified for non-apply patch"))
        # The options of a deletion come from its body, if it has one; `deletes` reads them.
        if options != "DeleteOptions" and "dryRun" in self.query and (wrong := dry_run_cause(self.query["dryRun"])):
            causes.append(wrong)
        self.dry_run = options != "DeleteOptions" and "dryRun" in self.query
        mode = self.query.first("fieldValidation")
        if mode not in ("", "Ignore", "Warn", "Strict"):
            causes.append(not_supported("fieldValidation", mode, ("", "Ignore", "Strict", "Warn")))
        if causes:
            raise bad_option(options, *causes)
        self.field_validation = mode or "Warn"
        self.manager = manager or "".join(filter(str.isprintable, user_agent.partition("/")[0]))[:128]


def dry_run_cause(values: list[Any]) -> Cause | None:
    """Return what is wrong with the option `dryRun`."""
    return not_supported("dryRun", values, ("All",)) if any(value != "All" for value in values) else None


def bad_option(options: str, *causes: Cause) -> Failure:
    """Return a 422 for an options object, which has no name."""
    return invalid(options, "meta.k8s.io", "", causes)
