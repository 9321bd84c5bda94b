#!/bin/sh
# The tests in a fresh environment: of a Python, with the newest packages or what pip is told beside.
#   sh tests/versions.sh python3.13 jax==0.8.3
#   sh tests/versions.sh python3.11 -c tests/oldest.txt
set -eu
python=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" -m venv "$folder"
"$folder/bin/pip" install --quiet --editable '.[test]' "$@"
"$folder/bin/python" -m pytest
