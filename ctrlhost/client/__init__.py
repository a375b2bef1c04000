"""Reads and writes of single objects and lists on the API server.

Imports `transport`, `kubeconfig` and below. Public: `Client` and `AsyncClient`; the other names are for rooms above.
"""

from __future__ import annotations

from ctrlhost.client.async_client import AsyncClient
from ctrlhost.client.client import Client
from ctrlhost.client.resources import Resource
from ctrlhost.client.target import Target, Write
from ctrlhost.transport.interface import HttpRequest, Response, Stream, Transport

__all__ = ["AsyncClient", "Client", "HttpRequest", "Resource", "Response", "Stream", "Target", "Transport", "Write"]
