"""Informers: caches of the objects of a kind, kept up to date by reflectors and shared by all users in the process.

Imports `reflector`, `client` and below. Public: `ctrlhost.InformerFactory`, `Informer`, `Owner`, `ByLabel`, `ByIndex`.
"""

from __future__ import annotations

from ctrlhost.informers.factory import InformerFactory
from ctrlhost.informers.handle import Handle
from ctrlhost.informers.informer import Informer
from ctrlhost.informers.lister import Lister
from ctrlhost.informers.mappings import Owner
from ctrlhost.reflector.compressions import Compressions
from ctrlhost.reflector.encodings import Encodings
from ctrlhost.reflector.options import BackoffOptions, ReflectorOptions
from ctrlhost.reflector.status import InformerStatus

__all__ = [
    "BackoffOptions",
    "Compressions",
    "Encodings",
    "Handle",
    "Informer",
    "InformerFactory",
    "InformerStatus",
    "Lister",
    "Owner",
    "ReflectorOptions",
]
