"""The compiled core; its documentation is on the Python faces (`ctrlhost.workqueue`, `ctrlhost.cache`)."""

from typing import Final

__version__: Final[str]
