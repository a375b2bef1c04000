"""Admission and conversion webhooks: what a plugin declares, and how a review is answered. Knows no HTTP.

Imports `controller` and `models`. Public: `Admission`.
"""
