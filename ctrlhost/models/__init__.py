"""Kinds and their structs: how an author names a kind, how its objects are typed, and the CRD that follows.

Imports `typed_json` and `errors`. Public: `resource`, `Model`, `ModelStatus`, `ObjectMeta`, `Condition`.
"""
