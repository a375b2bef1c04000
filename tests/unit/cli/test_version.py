from __future__ import annotations

import subprocess
import sys

from ctrlhost import __version__
from ctrlhost._core import protobuf_release


def test_the_release_of_the_protobuf_kinds_is_shown_on_request():
    plain, verbose = (
        subprocess.run(
            [sys.executable, "-m", "ctrlhost", "version", *flags], capture_output=True, text=True, check=True
        ).stdout.splitlines()
        for flags in ([], ["--verbose"])
    )
    assert len(plain) == 1
    assert plain[0].startswith(f"ctrlhost {__version__} (Python ")
    assert verbose == [*plain, f"protobuf of Kubernetes {protobuf_release()}"]
