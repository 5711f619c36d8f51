#!/usr/bin/env bash
# The Python package: builds the wheel, installs it into an empty environment, runs its tests and the example notebook.
# Arguments: the program, a folder for tools, and interpreters. By default python3 and whatever else from 3.9 on is on the search
# path or was installed by pyenv, one of each version. The first one also runs the notebook.
# A wheel that exists already: CANOE_WHEEL=FILE.
set -euo pipefail
canoe=$(realpath "$1")
work=$(realpath -m "$2")
shift 2
cd "$(dirname "$0")"

# Prints the interpreters of this machine that can make an environment, one of each version from 3.9 on.
found() {
    local known=" " each version
    for each in python3 python3.{9..20} "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin/python; do
        version=$("$each" -c 'import ensurepip, sys, venv; assert sys.version_info >= (3, 9); print("3.%d" % sys.version_info[1])' 2> /dev/null) || continue
        [[ $known == *" $version "* ]] && continue
        known+="$version "
        echo "$each"
    done
}
if [ $# -gt 0 ]; then interpreters=("$@"); else mapfile -t interpreters < <(found); fi
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
wheel=${CANOE_WHEEL:-}
if [ -z "$wheel" ]; then
    if [ ! -x "$work/maturin/bin/maturin" ]; then
        python3 -m venv "$work/maturin"
        "$work/maturin/bin/pip" --quiet install maturin
    fi
    PATH="$work/maturin/bin:$PATH" ../../crates/python/build.sh "$canoe" "$here/wheel" --profile dev
    wheel=$(echo "$here"/wheel/canoe-*.whl)
fi
first=yes
versions=()
for python in "${interpreters[@]}"; do
    venv=$here/venv
    "$python" -m venv "$venv"
    "$venv/bin/pip" --quiet --disable-pip-version-check install "$wheel"
    # Nothing but the wheel and what it asks for: no canoe on the search path, no variable.
    (cd "$here" && env -i "$venv/bin/python" -c 'import canoe, sys, numpy; print("Python", sys.version.split()[0], "NumPy", numpy.__version__, canoe.program())')
    "$venv/bin/pip" --quiet --disable-pip-version-check install pytest
    # From elsewhere, so that the installed package is tested, not the sources.
    cp -r ../../crates/python/tests "$here/tests"
    (cd "$here" && env -u CANOE -u PYTHONPATH "$venv/bin/python" -m pytest -q -p no:cacheprovider tests)
    rm -rf "$here/tests"
    if [ $first = yes ]; then
        "$venv/bin/pip" --quiet --disable-pip-version-check install nbconvert ipykernel matplotlib mypy
        (cd "$here" && "$venv/bin/python" -m mypy --no-incremental -p canoe)
        env -u CANOE -u PYTHONPATH "$venv/bin/python" -m nbconvert --log-level WARN --to markdown --execute --output-dir "$here/notebook" \
            ../../examples/notebook/reviews.ipynb
        ls "$here"/notebook/reviews_files/*.png > /dev/null
        if [ -n "${CANOE_KEEP_NOTEBOOK:-}" ]; then cp -r "$here/notebook" "$CANOE_KEEP_NOTEBOOK"; fi
        first=no
    fi
    versions+=("$("$venv/bin/python" -c 'import platform; print(platform.python_version())')")
    rm -rf "$venv"
done
echo "the wheel works with Python ${versions[*]}"
