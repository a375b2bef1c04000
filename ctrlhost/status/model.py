"""The JSON of `/api/v1`, version 1: fields may be added, but never removed or renamed.

Times are RFC 3339 in UTC; fields that end in `_seconds` are durations or ages in seconds. `docs/reference` has the
schema, which is generated from here.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

import msgspec

VERSION = 1

Severity = Literal["failing", "degraded", "ok"]


def moment(seconds: float) -> str:
    """Return a time, in seconds since the epoch, as RFC 3339 with milliseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Config(msgspec.Struct, frozen=True):
    """Where the settings come from."""

    file: str | None


class HostStatus(msgspec.Struct, frozen=True):
    """The host itself; `not_ready` has the lines of `/readyz` that fail.

    `cpu_per_second` has the time of the processes of isolated plugins, too; `rss_bytes` is this process's own memory.
    """

    name: str
    version: str
    python: str
    pid: int
    started: str
    state: Literal["running", "stopping"]
    ready: bool
    not_ready: list[str]
    dry_run: bool
    config: Config
    cpu_per_second: float | None
    rss_bytes: int


class LeaseStatus(msgspec.Struct, frozen=True):
    """One lease; `renewed_seconds` is the time since this replica saw it renewed, None before the first look."""

    name: str
    holder: str
    mine: bool
    renewed_seconds: float | None
    plugins: list[str]


class LeaderStatus(msgspec.Struct, frozen=True):
    """Leader election; `elected` is whether there is one."""

    elected: bool
    leases: list[LeaseStatus]


class ShardRange(msgspec.Struct, frozen=True):
    """A range of hashes on a line, from `start` to the start of the next one.

    `owner` and `claimant` are Leases of members; they are empty for nobody. A range with a claimant moves. `here` is
    what this replica does with it: `warming`, `open`, `closing`, or nothing.
    """

    line: str
    start: str
    owner: str
    claimant: str
    weight: int
    here: str


class ShardMember(msgspec.Struct, frozen=True):
    """A replica that shares the keys: its Lease, the part of the objects that it owns, from 0 to 1, and its ranges.

    `renewed_seconds` is the time since this replica saw it renewed. One that leaves gets nothing more.
    """

    name: str
    share: float
    ranges: int
    renewed_seconds: float
    leaving: bool
    mine: bool


class ShardsStatus(msgspec.Struct, frozen=True):
    """How replicas share keys: the part of this one in a sentence, all members, and all ranges."""

    summary: str
    members: list[ShardMember]
    ranges: list[ShardRange]


class WriteCount(msgspec.Struct, frozen=True):
    """Writes of one verb to one resource with one outcome: a status, or `<error>` without an answer."""

    verb: str
    resource: str
    code: str
    per_second: float | None
    total: int


class LastWrite(msgspec.Struct, frozen=True):
    """One write; without a controller it was made outside of a reconcile. A creation has no name."""

    time: str
    verb: str
    resource: str
    namespace: str
    name: str
    code: str
    controller: str
    key: str
    reconcile_id: str


class ApiServerStatus(msgspec.Struct, frozen=True):
    """The API server, as the host sees it; `throttled_seconds` is how long requests waited for `client_qps`.

    `seconds_per_request` is the mean until an answer begins, over the last minute; None without requests.
    """

    url: str
    up: bool
    last_answer_seconds: float | None
    reason: str
    requests_per_second: float | None
    throttled_seconds: float
    writes: list[WriteCount]
    last_writes: list[LastWrite]
    seconds_per_request: float | None


class Outcomes(msgspec.Struct, frozen=True):
    """Keys by their last runs: those with a recent outcome, those that fail, since when, and for how many causes.

    `sentence` says it, such as `771 of 1,200 keys fail, 1 cause`; it is empty if no key fails. A standby has none.
    """

    keys: int
    failing: int
    causes: int
    since: str | None
    sentence: str


class Cause(msgspec.Struct, frozen=True):
    """Why keys of a controller fail: the class of the error, its place and its masked text, with an example.

    `keys` fail for it now; with 0 it was so within the last 10 minutes. The rate is that of the last minute. The id is
    the same in each replica and after a restart.
    """

    id: str
    controller: str
    type: str
    place: str
    text: str
    keys: int
    failures: int
    per_second: float
    first: str
    last: str
    key: str
    error: str
    reconcile_id: str


class Degraded(msgspec.Struct, frozen=True):
    """One reason why a plugin is degraded."""

    reason: str
    since: str
    message: str


class PluginStatus(msgspec.Struct, frozen=True):
    """One plugin; `rights` are rules that it needs, `missing_rights` what its account lacks, `pages` paths here.

    `condition` is the one word to show: its `state`, unless it runs; then `failing`, `degraded`, `paused`, `standby` or
    `running`.
    """

    name: str
    version: str
    state: str
    reason: str
    since: str
    degraded: list[Degraded]
    missing_rights: list[str]
    rights: list[str]
    cpu_per_second: float | None
    cpu_seconds: float
    restarts: int
    restart_reasons: dict[str, int]
    pages: list[str]
    isolated: bool
    condition: str
    severity: Severity
    outcomes: Outcomes


class QueueStatus(msgspec.Struct, frozen=True):
    """The numbers of keys of a queue; `retrying` ones have failed and are tried again, whether queued or delayed."""

    depth: int
    oldest_seconds: float
    delayed: int
    retrying: int
    processing: int


class ControllerStatus(msgspec.Struct, frozen=True):
    """One controller; rates and quantiles are those of the last minute, None without runs or before two samples.

    `paused_by`, `paused_since` and `paused_reason` say who has paused it, since when, and why.
    `waiting` says why the controller cannot begin or go on, such as a kind that is not served; None if it can.
    `recent_per_second` has the rates of the last hour in steps of two minutes, the newest last; None without samples.
    `state` is the one word to show.
    """

    name: str
    paused: bool
    paused_by: str | None
    paused_since: str | None
    paused_reason: str
    leading: bool
    waiting: str | None
    workers: int
    active: int
    per_second: float | None
    errors_per_second: float | None
    p50: float | None
    p99: float | None
    oldest_running_seconds: float
    recent_per_second: list[float | None]
    queue: QueueStatus
    state: Literal["standby", "waiting", "paused", "failing", "degraded", "ok"]
    severity: Severity
    outcomes: Outcomes


class FailingKey(msgspec.Struct, frozen=True):
    """A key whose last run failed; without a next retry it was given up, or is queued now if that is 0."""

    controller: str
    key: str
    failures: int
    next_retry_seconds: float | None
    error: str
    place: str
    reconcile_id: str
    #: The id of its cause.
    cause: str


class Cost(msgspec.Struct, frozen=True):
    """Seconds in Python functions since the start: in maps, predicates and indexes, and in handlers."""

    cpu_seconds: float
    handler_seconds: float
    pending: int


class User(msgspec.Struct, frozen=True):
    """A user of an informer: a controller, or a plugin by itself; with what it reads and what its functions cost."""

    plugin: str
    controller: str
    reads: str
    cost: Cost


class InformerRow(msgspec.Struct, frozen=True):
    """One watch and its cache; `selection` is empty for all objects of the kind."""

    id: str
    resource: str
    group: str
    version: str
    selection: str
    state: str
    reason: str
    objects: int
    bytes: int
    last_event_seconds: float | None
    last_byte_seconds: float | None
    watches: int
    users: list[User]
    cost: Cost


class WebhookStatus(msgspec.Struct, frozen=True):
    """One webhook, or the conversions of one kind; `path` is where the API server asks for it.

    `errors` are answers with which the failure policy decides. `overdue` are calls of this process that hang beyond
    their deadline. The rate is that of the last minute, the quantiles are those of the last 1,000 answers.
    """

    path: str
    plugin: str
    timeout_seconds: float
    per_second: float | None
    total: int
    errors: int
    denied: int
    in_flight: int
    overdue: int
    p50: float | None
    p99: float | None


class ErrorRow(msgspec.Struct, frozen=True):
    """One error of a reconcile."""

    time: str
    plugin: str
    controller: str
    key: str
    reconcile_id: str
    type: str
    message: str
    place: str


class Status(msgspec.Struct, frozen=True):
    """The state of a host at one moment."""

    version: int
    time: str
    host: HostStatus
    leader: LeaderStatus
    #: None if replicas do not share keys.
    shards: ShardsStatus | None
    apiserver: ApiServerStatus
    plugins: list[PluginStatus]
    controllers: list[ControllerStatus]
    failing: list[FailingKey]
    informers: list[InformerRow]
    errors: list[ErrorRow]
    webhooks: list[WebhookStatus]
    #: The worst 50 of all controllers, the worst first.
    causes: list[Cause]
    severity: Severity
    outcomes: Outcomes


class QueueItem(msgspec.Struct, frozen=True):
    """A key of a queue; `age_seconds` is since it was queued or handed out, `due_seconds` until a delay ends.

    A failing key has its last error, with the place and the run, and the id of its cause; for others they are empty.
    """

    key: str
    priority: int | None
    age_seconds: float | None
    failures: int
    due_seconds: float | None
    error: str
    place: str
    reconcile_id: str
    cause: str


class QueuePage(msgspec.Struct, frozen=True):
    """Some keys of a part of a queue; `next` is the cursor of the next page."""

    items: list[QueueItem]
    next: str | None
    total: int


class Reconcile(msgspec.Struct, frozen=True):
    """One run that has ended."""

    key: str
    time: str
    seconds: float
    result: str
    reconcile_id: str
    error: str


Verdict = Literal[
    "host stopping",
    "plugin not running",
    "paused",
    "standby",
    "processing",
    "queued",
    "backing off",
    "delayed",
    "gave up",
    "filtered",
    "not in the cache",
    "done",
    "unknown key",
]


class KeyFinalizer(msgspec.Struct, frozen=True):
    """A finalizer of a key's object; `own` if the controller's plugin declares it, `present` if the object has it."""

    name: str
    own: bool
    present: bool


class KeyCondition(msgspec.Struct, frozen=True):
    """A condition of an object's status; `since` is its last transition, empty without one."""

    type: str
    status: str
    reason: str
    message: str
    since: str


class KeyEvent(msgspec.Struct, frozen=True):
    """An event about an object, and how often this host has recorded it."""

    type: str
    reason: str
    note: str
    count: int
    last: str


class KeyObject(msgspec.Struct, frozen=True):
    """The object of a key: its versions in the cache and on the server, None where it is not, and what holds it.

    `server` is `unknown` if the server did not answer; the other fields are those of the cached object, or else those
    of the server's. `observed_generation` is that of its status, `deleted_since` when its deletion was asked for.
    """

    cached_version: str | None
    server: Literal["found", "missing", "unknown"]
    server_version: str | None
    generation: int | None
    observed_generation: int | None
    deleted_since: str | None
    finalizers: list[KeyFinalizer]
    #: The resource as kubectl takes it, such as `deployments.apps`; empty before the first look.
    resource: str
    conditions: list[KeyCondition]
    #: Those that this host has recorded in the last minutes, the newest first.
    events: list[KeyEvent]


class KeyFailure(msgspec.Struct, frozen=True):
    """The failures of a key since its last success; error, place, run and traceback are those of the last one."""

    failures: int
    since: str
    last: str
    #: The id of the cause.
    cause: str
    error: str
    place: str
    reconcile_id: str
    traceback: str


class KeyStatus(msgspec.Struct, frozen=True):
    """Why a key is not being reconciled, or that it is; with the facts for that, its last runs and their writes."""

    verdict: Verdict
    facts: list[str]
    since: str | None
    due_seconds: float | None
    position: int | None
    reconciles: list[Reconcile]
    writes: list[LastWrite]
    #: None for a key that names no object.
    object: KeyObject | None
    #: None for a key that does not fail, and for one before the last 1,000 failures.
    failing: KeyFailure | None


class CauseDetail(msgspec.Struct, frozen=True):
    """A cause with the traceback of its example, of at most 8 KiB, and some of the keys that fail for it."""

    cause: Cause
    traceback: str
    failing: list[str]


class CausePage(msgspec.Struct, frozen=True):
    """The causes of one controller, the worst first."""

    items: list[CauseDetail]
    total: int


class Series(msgspec.Struct, frozen=True):
    """The samples of a controller, the newest last; None where there is none. One sample is `period_seconds` long."""

    period_seconds: float
    rate: list[float | None]
    errors: list[float | None]
    p50: list[float | None]
    p99: list[float | None]
    depth: list[float | None]


class Problem(msgspec.Struct, frozen=True):
    """The answer to a request that cannot be answered."""

    error: str
    hint: str | None
