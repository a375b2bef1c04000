from __future__ import annotations

import functools

import pytest

from tests.support.kubeconfigs import written
from tests.support.tls_files import Authority


@pytest.fixture(scope="package")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def write(tmp_path):
    return functools.partial(written, tmp_path)
