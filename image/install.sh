#!/bin/sh
# Install the wheels and what they need at run time: image/install.sh REQUIREMENTS WHEELS TARGET.
# Afterwards nothing is written to TARGET any more: it has no pip, and its code is compiled.
set -eu
requirements=$1
wheels=$2
target=$3
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1

python3 -m venv "$target"
"$target/bin/pip" install --quiet --require-hashes --no-deps --no-compile --only-binary :all: --requirement "$requirements"
# What is built from this source has no hashes, and comes from this directory alone.
"$target/bin/pip" install --quiet --no-index --no-deps --no-compile "$wheels"/*.whl
"$target/bin/pip" uninstall --quiet --yes setuptools pip 2>/dev/null || "$target/bin/pip" uninstall --quiet --yes pip
# Scripts for shells, and what only pip reads.
rm -rf "$target"/bin/[Aa]ctivate* "$target"/include "$target"/share
# What is in it, for scanners.
"$target/bin/python3" "$(dirname "$0")/sbom.py" ctrlhost > "$target/sbom.cdx.json"
"$target/bin/python3" -m compileall -q "$target/lib"
