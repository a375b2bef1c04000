"""Informers: a mirror of the objects of a kind, shared by everybody in the process who wants one."""

from __future__ import annotations

from ctrlhost.informers.factory import InformerFactory
from ctrlhost.informers.handle import Handle
from ctrlhost.informers.informer import Informer
from ctrlhost.informers.lister import Lister
from ctrlhost.informers.owner import Owner
from ctrlhost.reflector.options import BackoffOptions, ReflectorOptions
from ctrlhost.reflector.status import InformerStatus

__all__ = [
    "BackoffOptions",
    "Handle",
    "Informer",
    "InformerFactory",
    "InformerStatus",
    "Lister",
    "Owner",
    "ReflectorOptions",
]
