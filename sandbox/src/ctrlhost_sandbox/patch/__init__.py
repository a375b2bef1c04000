"""JSON, merge and strategic patches, and the fields that server-side apply manages.

Imports `registry`, `encoding` and below. Public: every module; each works on plain objects and stores nothing.
"""
