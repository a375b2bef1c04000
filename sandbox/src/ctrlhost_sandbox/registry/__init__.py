"""The served kinds, and operations on their objects: metadata, versions, views.

Imports `http`, `schema`, `storage` and below. Public: every module; `data` holds the generated field tables.
"""
