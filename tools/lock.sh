#!/bin/sh
# Resolve the ranges of pyproject.toml anew and write the exact versions with their hashes to locks/.
#
# synth.txt is everything but the extra torch, which is too large; test.txt leaves out the synthesis tools; demo.txt is
# what a run needs; a package has the same version in all of them. data.txt holds packages wanted for a data file only. One resolution serves every supported
# Python and platform ("universal", one version of a package for all). No index address and no path is written down.
set -eu
cd "$(dirname "$0")/.."

UV_VERSION=0.13.9  # pinned: the resolver decides what everybody gets
.venv/bin/python -m pip install --quiet --disable-pip-version-check "uv==$UV_VERSION"

compile() {
    .venv/bin/uv pip compile --quiet --no-config --upgrade --universal --fork-strategy fewest --python-version 3.11 \
        --no-build --generate-hashes --no-emit-index-url --custom-compile-command "make lock" "$@"
}

extras() {
    for extra in "$@"; do
        printf -- '--extra %s ' "$extra"
    done
}

# shellcheck disable=SC2046  # one word per option is wanted
compile pyproject.toml $(extras rtl sim bench uart mount firmware peers cluster plot video registers synth formal test lint) \
    --group build -o locks/synth.txt
# shellcheck disable=SC2046
compile pyproject.toml $(extras rtl sim bench uart mount firmware peers cluster plot video registers formal test lint) --group build \
    -c locks/synth.txt -o locks/test.txt
# shellcheck disable=SC2046
compile pyproject.toml $(extras rtl sim firmware mount plot) --group build -c locks/synth.txt -o locks/demo.txt
compile locks/data.in --no-deps -o locks/data.txt
for lock in locks/*.txt; do
    echo "$lock: $(grep -c '^[a-z0-9]' "$lock") packages"
done
