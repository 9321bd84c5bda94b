#!/bin/sh
# Builds both distributions into dist, installs the wheel into an empty environment, and does there,
# outside of the checkout, what a user does first. Then runs the tests of the source distribution
# against the installed wheel, with the options of pytest that are given.
#   sh tests/wheel.sh python3.12
#   sh tests/wheel.sh python3.12 -n 1 --part 0
set -eu
python=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" -m venv "$folder/build"
"$folder/build/bin/pip" install --quiet build
"$folder/build/bin/python" -m build --outdir "$folder/dist" .
mkdir -p dist "$folder/empty" "$folder/unpacked"
cp "$folder"/dist/* dist
wheel=$(echo "$folder"/dist/*.whl)
tar -xzf "$folder"/dist/*.tar.gz -C "$folder/unpacked" --strip-components 1
rm -r "$folder/unpacked/dpjax"

"$python" -m venv "$folder/env"
PATH=$folder/env/bin:$PATH
cd "$folder/empty"
pip install --quiet "$wheel"
dpjax list
dpjax reproduce tossou2017 --quick
sed -n '/^```python$/,/^```$/p' ../unpacked/README.md | grep -v '^```' > mine.py
python mine.py
pip install --quiet "$wheel[explore]"
dpjax run --losses ../unpacked/tests/data/diagnoses.csv --learner exp3 --seeds 4
dpjax explore results/run

pip install --quiet "$wheel[test]"
cd ../unpacked
python -m pytest "$@"
