#!/bin/sh
# The Python package, its pictures and docs/tour.ipynb, by pytest. Arguments go to pytest; if the first
# is a file only that is run, and `part K N` is the K-th of N parts. Without these all are run, in two
# parts at a time. The programs are those in DMFT_HOME (default: this checkout).
cd "$(dirname "$0")/.." || exit 1
NEED='h5py, ipykernel, matplotlib, nbclient, numpy, pytest, scipy, xarray'
DMFT_HOME=$(cd "${DMFT_HOME:-.}" && pwd)
MPLBACKEND=Agg OPENBLAS_NUM_THREADS=1 GOMP_SPINCOUNT=10000 # else programs start twice: tests/run.sh
export NEED DMFT_HOME MPLBACKEND OPENBLAS_NUM_THREADS GOMP_SPINCOUNT
if ! PYTHON=$(python/with -c 'import sys; print(sys.executable)'); then
    echo "[  SKIPPED ] python: no Python with $NEED here"
    exit 0
fi
NEED=sys # the rest is there, which takes a second to find out
export PYTHON
[ -e "${1%%::*}" ] && exec python/with -m pytest -q -p no:cacheprovider "$@"

part() { # K N: every N-th file, the longest first, so that parts take about as long
    k=$1 n=$2
    shift 2
    python/with -m pytest -q -p no:cacheprovider "$@" $(ls -S tests/test_*.py | awk "NR % $n == $k % $n")
    code=$?
    [ $code -eq 5 ] && code=0 # -k left nothing here
    return $code
}
if [ "$1" = part ]; then
    shift
    part "$@"
    exit
fi
first=$(mktemp)
trap 'rm -f "$first"' EXIT
part 1 2 "$@" >"$first" 2>&1 &
part 2 2 "$@"
second=$?
wait $!
code=$?
cat "$first"
[ $code -eq 0 ] && exit $second
exit $code
