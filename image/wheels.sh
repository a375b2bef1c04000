#!/bin/sh
# Build the wheels of ctrlhost and of the bundled plugins: image/wheels.sh SOURCE OUT.
# Needs Python with venv, Rust, and a linker. Nothing in SOURCE changes.
set -eu
source=$1
out=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$work/target}" PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1

python3 -m venv "$work/build"
"$work/build/bin/pip" install --quiet --require-hashes --no-deps --requirement "$source/requirements/build.txt"
PATH="$work/build/bin:$PATH"

mkdir -p "$out"
out=$(cd "$out" && pwd)
(cd "$source" && maturin build --quiet --release --locked --out "$out")
for plugin in "$source"/plugins/*/pyproject.toml; do
  (cd "$(dirname "$plugin")" && hatchling build --target wheel --directory "$out")
done
