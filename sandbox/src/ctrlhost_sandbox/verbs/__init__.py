"""The verbs: get, list, watch, create, update, patch, apply and delete, for clients and controllers alike.

Imports `kinds`, `context` and below. Public: every module.
"""
