"""The shape of objects: built-in types and CRD schemas, normalized and validated by one tree.

Imports `apimachinery`. Public: every module; none knows of kinds or requests.
"""
