"""Manifests of a host in a cluster: Deployment, RBAC and CRDs of the loaded plugins.

Imports `hookspecs`, `supervisor` and below. Public: nothing.
"""
