"""Kubernetes Events: recorded by plugins, correlated into series, written in the background.

Imports `client` and below. Public: `Context.events`, which `recorder` implements.
"""
