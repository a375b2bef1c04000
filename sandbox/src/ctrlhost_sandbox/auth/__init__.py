"""Authentication, impersonation, authorization by RBAC, and the audit log.

Imports `registry` and below. Public: every module.
"""
