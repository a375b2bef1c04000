"""Runs operators that were written for kopf 1.45 on a ctrlhost: the names of `kopf`, over ctrlhost's public API.

A bridge: write new operators with `ctrlhost.Plugin`.
"""

from __future__ import annotations

from ctrlhost_kopf import lifecycles, on
from ctrlhost_kopf.admission import (
    AdmissionError,
    Headers,
    Operation,
    SSLPeer,
    UserInfo,
    WebhookAutoServer,
    WebhookAutoTunnel,
    WebhookClientConfig,
    WebhookClientConfigService,
    WebhookDockerDesktopServer,
    WebhookFn,
    WebhookK3dServer,
    WebhookMinikubeServer,
    WebhookNgrokTunnel,
    WebhookServer,
    WebhookServerProtocol,
)
from ctrlhost_kopf.bodies import (
    Annotations,
    Body,
    BodyEssence,
    HandlerId,
    Labels,
    Memo,
    Meta,
    ObjectReference,
    OwnerReference,
    RawBody,
    RawEvent,
    RawEventType,
    Resource,
    Spec,
    Status,
    build_object_reference,
    build_owner_reference,
)
from ctrlhost_kopf.dicts import FieldPath, FieldSpec
from ctrlhost_kopf.diffs import Diff, DiffItem, DiffOperation
from ctrlhost_kopf.execution import (
    ErrorsMode,
    HandlerRetriesError,
    HandlerTimeoutError,
    PermanentError,
    Reason,
    TemporaryError,
    execute,
)
from ctrlhost_kopf.filters import ABSENT, PRESENT, all_, any_, none_, not_
from ctrlhost_kopf.hierarchies import (
    adjust_namespace,
    adopt,
    append_owner_reference,
    harmonize_naming,
    label,
    remove_owner_reference,
)
from ctrlhost_kopf.indexing import Index, Store
from ctrlhost_kopf.lifecycles import get_default_lifecycle, set_default_lifecycle
from ctrlhost_kopf.on import daemon, index, register, subhandler, timer
from ctrlhost_kopf.patches import Patch, PatchFn
from ctrlhost_kopf.posting import LocalObjectLogger, LogFormat, Logger, ObjectLogger, event, exception, info, warn
from ctrlhost_kopf.registry import EVERYTHING, OperatorRegistry, get_default_registry, set_default_registry
from ctrlhost_kopf.running import (
    AiohttpSession,
    ConnectionInfo,
    LoginError,
    configure,
    login_via_async_client,
    login_via_client,
    login_via_pykube,
    login_with_kubeconfig,
    login_with_service_account,
    operator,
    run,
    run_tasks,
    spawn_tasks,
)
from ctrlhost_kopf.settings import OperatorSettings
from ctrlhost_kopf.spawning import (
    AsyncDaemonStopperChecker,
    DaemonStopped,
    DaemonStoppingReason,
    SyncDaemonStopperChecker,
)
from ctrlhost_kopf.storages import (
    AnnotationsDiffBaseStorage,
    AnnotationsProgressStorage,
    DiffBaseStorage,
    MultiDiffBaseStorage,
    MultiProgressStorage,
    ProgressRecord,
    ProgressStorage,
    SmartProgressStorage,
    StatusDiffBaseStorage,
    StatusProgressStorage,
)
from ctrlhost_kopf.unsupported import NotSupported

#: The version of kopf whose behaviour this is.
__version__ = "1.45"

# fmt: off
__all__ = [
    "ABSENT", "EVERYTHING", "PRESENT", "AdmissionError", "AiohttpSession", "Annotations",
    "AnnotationsDiffBaseStorage", "AnnotationsProgressStorage", "AsyncDaemonStopperChecker", "Body", "BodyEssence",
    "ConnectionInfo", "DaemonStopped", "DaemonStoppingReason", "Diff", "DiffBaseStorage", "DiffItem",
    "DiffOperation", "ErrorsMode", "FieldPath", "FieldSpec", "HandlerId", "HandlerRetriesError",
    "HandlerTimeoutError", "Headers", "Index", "Labels", "LocalObjectLogger", "LogFormat", "Logger", "LoginError",
    "Memo", "Meta", "MultiDiffBaseStorage", "MultiProgressStorage", "NotSupported", "ObjectLogger",
    "ObjectReference", "Operation", "OperatorRegistry", "OperatorSettings", "OwnerReference", "Patch", "PatchFn",
    "PermanentError", "ProgressRecord", "ProgressStorage", "RawBody", "RawEvent", "RawEventType", "Reason",
    "Resource", "SSLPeer", "SmartProgressStorage", "Spec", "Status", "StatusDiffBaseStorage",
    "StatusProgressStorage", "Store", "SyncDaemonStopperChecker", "TemporaryError", "UserInfo", "WebhookAutoServer",
    "WebhookAutoTunnel", "WebhookClientConfig", "WebhookClientConfigService", "WebhookDockerDesktopServer",
    "WebhookFn", "WebhookK3dServer", "WebhookMinikubeServer", "WebhookNgrokTunnel", "WebhookServer",
    "WebhookServerProtocol",
    "__version__", "adjust_namespace", "adopt", "all_", "any_", "append_owner_reference", "build_object_reference",
    "build_owner_reference", "configure", "daemon", "event", "exception", "execute", "get_default_lifecycle",
    "get_default_registry", "harmonize_naming", "index", "info", "label", "lifecycles", "login_via_async_client",
    "login_via_client", "login_via_pykube", "login_with_kubeconfig", "login_with_service_account", "none_", "not_",
    "on", "operator", "register", "remove_owner_reference", "run", "run_tasks", "set_default_lifecycle",
    "set_default_registry", "spawn_tasks", "subhandler", "timer", "warn",
]
# fmt: on
