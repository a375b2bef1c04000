"""The API for plugin authors: `PluginContext`, which registers controllers, pages, checks and background tasks.

Imports `controller` and below; it does not know how plugins are loaded and run. Public: `ctrlhost.PluginContext`.
"""
