"""The kinds that are served, and what an operation on an object of a kind needs: metadata, versions, views.

Imports `http`, `schema`, `storage` and below. Public: every module; `data` holds the generated field tables.
"""
