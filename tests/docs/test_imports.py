"""No file of the packages imports, through others, itself: the contracts say so of rooms, this test of files."""

from __future__ import annotations

from graphlib import TopologicalSorter

import grimp
import pytest

PACKAGES = ("ctrlhost", "ctrlhost_bitcoin", "ctrlhost_hostname", "ctrlhost_ingress_status", "ctrlhost_naming")


@pytest.mark.parametrize("package", PACKAGES)
def test_no_files_import_each_other_in_a_circle(package: str) -> None:
    graph = grimp.build_graph(package, exclude_type_checking_imports=False, cache_dir=None)
    # Files may import the package for its lazy public names.
    files = {module: graph.find_modules_directly_imported_by(module) - {package} for module in graph.modules}
    TopologicalSorter(files).prepare()
