#!/usr/bin/env bash
# Builds the wheel around a program that is built already. Arguments: the program, the folder for the wheel, and options of
# `maturin build`, such as --release. Needs maturin on the search path.
set -euo pipefail
program=$(realpath "$1")
out=$(realpath -m "$2")
shift 2
cd "$(dirname "$0")"
rm -rf canoe.data
mkdir -p canoe.data/scripts canoe.data/purelib
packages=$("$program" python path)
cp -r "$packages/paddle" "$packages/py_paddle" canoe.data/purelib
find canoe.data -name __pycache__ -prune -exec rm -r {} +
cp "$program" canoe.data/scripts/canoe
strip --strip-debug canoe.data/scripts/canoe 2> /dev/null || true
trap 'rm -rf canoe.data' EXIT
maturin build --quiet --out "$out" "$@"
