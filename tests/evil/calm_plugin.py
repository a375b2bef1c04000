"""A plugin whose webhook answers at once, beside one whose webhook does not."""

import ctrlhost

plugin = ctrlhost.Plugin()


@plugin.validate("v1/ConfigMap", label_selector="calm=yes", failure_policy="Ignore", timeout="1s")
def calm(ctx, new, old):
    raise ctrlhost.Denied("calmly")
