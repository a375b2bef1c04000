"""What `ctrlhost manifests` prints: Deployment, RBAC and CRDs of the loaded plugins.

Imports `hookspecs`, `supervisor` and below. Public: nothing.
"""
