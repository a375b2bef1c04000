"""Who asks and what they may do: tokens, impersonation, RBAC decisions, the audit log.

Imports `registry` and below. Public: every module.
"""
